/* test_eager.c - short messages in the slots: results, races, one meeting. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void every_operation_is_right_for_any_ranks(void **state)
{
    (void)state;
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        check_sizes(&tdmi_eager, (tdmi_coll)coll, 33, false);
}

static void every_type_is_right(void **state)
{
    (void)state;
    for (int coll = 0; coll < TDMI_COLL_BARRIER; coll++)
        check_types(&tdmi_eager, (tdmi_coll)coll, false);
}

static void a_full_slot_is_right(void **state)
{
    (void)state;
    for (int coll = 0; coll < TDMI_COLL_BARRIER; coll++)
        for (int n = 2; n <= 5; n++)
            check_collective(&tdmi_eager, (tdmi_coll)coll, TDM_U8, TDM_MAX, n, TDMI_EAGER_BYTES,
                             (check_options){.seed = (unsigned)n, .races = true});
    for (int n = 2; n <= 4; n += 2)
        for (int coll = TDMI_COLL_REDUCE_SCATTER; coll <= TDMI_COLL_ALLTOALL; coll++)
            check_collective(&tdmi_eager, (tdmi_coll)coll, TDM_F32, TDM_AVG, n, TDMI_EAGER_BYTES / 4 / (size_t)n,
                             (check_options){.seed = (unsigned)n, .races = true});
}

static void every_operation_meets_once(void **state)
{
    (void)state;
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        for (size_t count = 0; count < 2; count++) {
            const tdmi_call call = {.coll = (tdmi_coll)coll, .dtype = TDM_F32, .op = TDM_SUM, .root = 0, .count = count};
            tdmi_steps list = {0};
            size_t meetings = 0;
            tdmi_eager.steps(&list, &call, &(tdmi_topology){.rank = 1, .n = 3});
            for (size_t i = 0; i < list.count; i++)
                meetings += list.step[i].kind == TDMI_STEP_MEET ? 1 : 0;
            tdmi_steps_free(&list);
            assert_int_equal(meetings, 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_right_for_any_ranks),
        cmocka_unit_test(every_type_is_right),
        cmocka_unit_test(a_full_slot_is_right),
        cmocka_unit_test(every_operation_meets_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
