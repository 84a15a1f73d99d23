/* test_direct_staged.c - the direct algorithm through STAGE: results, races, segments, meetings. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void every_operation_is_right_for_any_ranks(void **state)
{
    (void)state;
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        check_sizes(&tdmi_direct_staged, (tdmi_coll)coll, 33, false);
}

static void every_type_is_right(void **state)
{
    (void)state;
    for (int coll = 0; coll < TDMI_COLL_BARRIER; coll++)
        check_types(&tdmi_direct_staged, (tdmi_coll)coll, false);
}

static void many_segments_are_right_and_free_of_races(void **state)
{
    (void)state;
    static const size_t counts[] = {2049, 65537, 131072, 263001};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int coll = 0; coll < TDMI_COLL_BARRIER; coll++)
            for (int n = 2; n <= 5; n += i % 2 == 0 ? 1 : 3)
                check_collective(&tdmi_direct_staged, (tdmi_coll)coll, TDM_F32, TDM_AVG, n,
                                 coll == TDMI_COLL_REDUCE_SCATTER ? counts[i] / 2 : counts[i],
                                 (check_options){.seed = (unsigned)i, .in_place = i % 2 == 0, .races = true});
}

static size_t meetings(tdmi_coll coll, size_t count)
{
    const tdmi_call call = {.coll = coll, .dtype = TDM_F32, .op = TDM_SUM, .root = 0, .count = count};
    tdmi_steps list = {0};
    size_t meets = 0;
    tdmi_direct_staged.steps(&list, &call, 1, 4);
    for (size_t i = 0; i < list.count; i++)
        meets += list.step[i].kind == TDMI_STEP_MEET ? 1 : 0;
    tdmi_steps_free(&list);
    return meets;
}

static void one_meeting_a_segment(void **state)
{
    (void)state;
    const size_t segment = 65536; /* float32 in 256 KiB */
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE, 1000), 1);
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE, segment), 2);
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE, 10 * segment), 11);
    assert_int_equal(meetings(TDMI_COLL_REDUCE_SCATTER, 10 * segment / 4), 10);
    assert_int_equal(meetings(TDMI_COLL_ALL_GATHER, 10 * segment), 10);
    assert_int_equal(meetings(TDMI_COLL_BROADCAST, 10 * segment), 10);
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE, 0), 1);
    assert_int_equal(meetings(TDMI_COLL_BARRIER, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_right_for_any_ranks),
        cmocka_unit_test(every_type_is_right),
        cmocka_unit_test(many_segments_are_right_and_free_of_races),
        cmocka_unit_test(one_meeting_a_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
