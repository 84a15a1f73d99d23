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
                                 coll == TDMI_COLL_REDUCE_SCATTER || coll == TDMI_COLL_SCATTER || coll == TDMI_COLL_ALLTOALL
                                     ? counts[i] / 4 /* a segment holds parts for all ranks */
                                     : counts[i],
                                 (check_options){.seed = (unsigned)i, .in_place = i % 2 == 0, .races = true});
}

static size_t steps_of(tdmi_step_kind kind, tdmi_coll coll, int n, size_t count)
{
    const tdmi_call call = {.coll = coll, .dtype = TDM_F32, .op = TDM_SUM, .root = 0, .count = count};
    tdmi_steps list = {0};
    size_t found = 0;
    tdmi_direct_staged.steps(&list, &call, &(tdmi_topology){.rank = 1, .n = n});
    for (size_t i = 0; i < list.count; i++)
        found += list.step[i].kind == kind ? 1 : 0;
    tdmi_steps_free(&list);
    return found;
}

static size_t meetings(tdmi_coll coll, int n, size_t count)
{
    return steps_of(TDMI_STEP_MEET, coll, n, count);
}

static void one_meeting_a_segment(void **state)
{
    (void)state;
    const size_t segment = 32768; /* float32 in 128 KiB */
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE, 4, 1000), 1);
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE, 4, segment), 2);
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE, 4, 2 * segment), 2);
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE, 4, 10 * segment), 11);
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE, 2, segment / 2), 1);
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE, 2, 10 * segment), 20);
    assert_int_equal(meetings(TDMI_COLL_REDUCE_SCATTER, 4, 10 * segment / 4), 10);
    assert_int_equal(meetings(TDMI_COLL_ALL_GATHER, 4, 10 * segment), 10);
    assert_int_equal(meetings(TDMI_COLL_BROADCAST, 4, 10 * segment), 10);
    assert_int_equal(meetings(TDMI_COLL_ALLREDUCE, 4, 0), 1);
    assert_int_equal(meetings(TDMI_COLL_BARRIER, 4, 0), 1);
}

/* Of two ranks: after the first two chunks each is written, while the one before is read, where that lies. */
static void two_ranks_write_where_they_read(void **state)
{
    (void)state;
    static const tdmi_coll colls[] = {TDMI_COLL_ALLREDUCE, TDMI_COLL_ALL_GATHER, TDMI_COLL_REDUCE_SCATTER, TDMI_COLL_ALLTOALL};
    const size_t chunk = 16384; /* float32 in 64 KiB */
    for (int i = 0; i < 4; i++) {
        const tdmi_call call = {.coll = colls[i], .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 10 * chunk + 1};
        tdmi_steps list = {0};
        size_t written = 0, behind = 0, fused = 0;
        tdmi_direct_staged.steps(&list, &call, &(tdmi_topology){.rank = 1, .n = 2});
        for (size_t k = 0; k < list.count; k++) {
            const tdmi_step *step = &list.step[k];
            written += step->kind == TDMI_STEP_COPY && step->dst.buffer == TDMI_BUFFER_STAGE ? step->src.count : 0;
            fused += step->refilled ? 1 : 0;
            behind += step->behind;
        }
        assert_int_equal(written, 2 * chunk);
        assert_int_equal(fused, 8);
        assert_int_equal(behind, 10);
        assert_int_equal(list.stage_count, 2 * chunk);
        tdmi_steps_free(&list);
        assert_int_equal(steps_of(TDMI_STEP_REFILL, colls[i], 2, 10 * chunk + 1), 9); /* the last is shorter than what was read */
        assert_int_equal(steps_of(TDMI_STEP_ROTATE, colls[i], 2, 10 * chunk), 5);
        assert_int_equal(steps_of(TDMI_STEP_ROTATE, colls[i], 2, 1), 1);
        assert_int_equal(steps_of(TDMI_STEP_ROTATE, colls[i], 3, 10 * chunk), 0);
    }
}

/* Between what a core's cache holds and what it holds a small part of. */
static void every_other_call_of_a_middle_size_begins_at_the_end(void **state)
{
    (void)state;
    static const size_t counts[] = {16384, 262144, 1 << 20, 5 << 20};
    for (int i = 0; i < 4; i++) {
        const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = counts[i]};
        tdmi_steps list = {.backwards = true};
        tdmi_direct_staged.steps(&list, &call, &(tdmi_topology){.rank = 0, .n = 2});
        assert_int_equal(list.turns, i == 1 || i == 2);
        assert_int_equal(list.step[0].src.first, counts[i] - 16384);
        tdmi_steps_clear(&list);
        tdmi_direct_staged.steps(&list, &call, &(tdmi_topology){.rank = 0, .n = 3});
        assert_false(list.turns);
        tdmi_steps_free(&list);
    }
}

static void own_values_are_not_staged(void **state)
{
    (void)state;
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 65536};
    tdmi_steps list = {0};
    size_t staged = 0;
    tdmi_direct_staged.steps(&list, &call, &(tdmi_topology){.rank = 1, .n = 4});
    for (size_t i = 0; i < list.count; i++)
        staged += list.step[i].kind == TDMI_STEP_COPY && list.step[i].dst.buffer == TDMI_BUFFER_STAGE ? list.step[i].src.count : 0;
    tdmi_steps_free(&list);
    assert_int_equal(staged, 65536 / 4 * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_right_for_any_ranks),
        cmocka_unit_test(every_type_is_right),
        cmocka_unit_test(many_segments_are_right_and_free_of_races),
        cmocka_unit_test(one_meeting_a_segment),
        cmocka_unit_test(two_ranks_write_where_they_read),
        cmocka_unit_test(every_other_call_of_a_middle_size_begins_at_the_end),
        cmocka_unit_test(own_values_are_not_staged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
