/* test_eager.c - short messages in the slots: results, races, who waits for whom. */
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

/* Whom a rank meets: -1 all, -2 nobody. */
static int partner(tdmi_coll coll, int rank, size_t count)
{
    const tdmi_call call = {.coll = coll, .dtype = TDM_F32, .op = TDM_SUM, .root = 0, .count = count};
    tdmi_steps list = {0};
    int meetings = 0, published = 0, with = -2;
    tdmi_eager.steps(&list, &call, &(tdmi_topology){.rank = rank, .n = 3});
    for (size_t i = 0; i < list.count; i++) {
        published += list.step[i].kind == TDMI_STEP_PUBLISH ? 1 : 0;
        if (list.step[i].kind != TDMI_STEP_MEET)
            continue;
        meetings++;
        with = list.step[i].from;
    }
    tdmi_steps_free(&list);
    assert_int_equal(published, 1);
    assert_in_range(meetings, 0, 1);
    return with;
}

static void a_rank_publishes_once_and_meets_those_of_whom_it_gets_something(void **state)
{
    (void)state;
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        for (size_t count = 0; count < 2; count++) {
            const bool from_root = coll == TDMI_COLL_BROADCAST || coll == TDMI_COLL_SCATTER;
            const bool to_root = coll == TDMI_COLL_REDUCE || coll == TDMI_COLL_GATHER;
            assert_int_equal(partner((tdmi_coll)coll, 0, count), from_root ? -2 : -1);
            assert_int_equal(partner((tdmi_coll)coll, 1, count), from_root ? 0 : to_root ? -2 : -1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_right_for_any_ranks),
        cmocka_unit_test(every_type_is_right),
        cmocka_unit_test(a_full_slot_is_right),
        cmocka_unit_test(a_rank_publishes_once_and_meets_those_of_whom_it_gets_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
