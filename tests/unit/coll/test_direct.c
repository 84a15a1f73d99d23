/* test_direct.c - the direct algorithm in place: results, races, meetings. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void every_operation_is_right_for_any_ranks(void **state)
{
    (void)state;
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        for (int reads = 0; reads < 2; reads++) {
            const tdmi_algorithm *algorithm = reads ? &tdmi_direct_read : &tdmi_direct;
            if (algorithm->supports((tdmi_coll)coll, false))
                check_sizes(algorithm, (tdmi_coll)coll, 33, false);
        }
}

static void results_do_not_depend_on_where_ranks_sit(void **state)
{
    (void)state;
    static const tdmi_domain domain[] = {{1, 8}, {0, 0}, {1, 8}, {0, 4}, {1, 8}, {-1, -1}, {0, 0}};
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        for (int n = 2; n <= 7; n++)
            for (int how = 0; how < 4; how++)
                check_collective(how % 2 == 0 ? &tdmi_direct : &tdmi_direct_read, (tdmi_coll)coll, TDM_F32, TDM_SUM, n, 1003,
                                 (check_options){.domain = domain, .in_place = how > 1, .races = true, .seed = (unsigned)n});
}

static void every_type_is_right(void **state)
{
    (void)state;
    for (int coll = 0; coll < TDMI_COLL_BARRIER; coll++)
        for (int reads = 0; reads < 2; reads++)
            check_types(reads && tdmi_direct_read.supports((tdmi_coll)coll, false) ? &tdmi_direct_read : &tdmi_direct, (tdmi_coll)coll,
                        false);
}

static void reading_writes_in_own_buffers_only(void **state)
{
    (void)state;
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 1000};
    tdmi_steps list = {0};
    tdmi_direct_read.steps(&list, &call, &(tdmi_topology){.rank = 1, .n = 4});
    for (size_t i = 0; i < list.count; i++)
        assert_true(list.step[i].kind != TDMI_STEP_COPY_TO || list.step[i].to == 1);
    tdmi_steps_free(&list);
    assert_false(tdmi_direct_read.supports(TDMI_COLL_REDUCE, false));
}

static size_t meetings(tdmi_coll coll)
{
    const tdmi_call call = {.coll = coll, .dtype = TDM_F32, .op = TDM_SUM, .root = 0, .count = 1 << 20};
    tdmi_steps list = {0};
    size_t count = 0;
    tdmi_direct.steps(&list, &call, &(tdmi_topology){.rank = 1, .n = 4});
    for (size_t i = 0; i < list.count; i++)
        count += list.step[i].kind == TDMI_STEP_MEET ? 1 : 0;
    tdmi_steps_free(&list);
    return count;
}

static void two_meetings_a_call_and_one_a_barrier(void **state)
{
    (void)state;
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE), 2);
    assert_int_equal(meetings(TDMI_COLL_REDUCE_SCATTER), 2);
    assert_int_equal(meetings(TDMI_COLL_ALL_GATHER), 2);
    assert_int_equal(meetings(TDMI_COLL_BROADCAST), 2);
    assert_int_equal(meetings(TDMI_COLL_BARRIER), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_right_for_any_ranks),
        cmocka_unit_test(results_do_not_depend_on_where_ranks_sit),
        cmocka_unit_test(every_type_is_right),
        cmocka_unit_test(reading_writes_in_own_buffers_only),
        cmocka_unit_test(two_meetings_a_call_and_one_a_barrier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
