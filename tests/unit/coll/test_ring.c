/* test_ring.c - the two phases of the ring, its traffic, and the order of its sums. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void allreduce_is_right_for_any_ranks_and_types(void **state)
{
    (void)state;
    check_sizes(&tdmi_ring, TDMI_COLL_ALLREDUCE, 33, true);
    check_types(&tdmi_ring, TDMI_COLL_ALLREDUCE, true);
}

static void reduce_scatter_is_right_for_any_ranks_and_types(void **state)
{
    (void)state;
    check_sizes(&tdmi_ring, TDMI_COLL_REDUCE_SCATTER, 33, true);
    check_types(&tdmi_ring, TDMI_COLL_REDUCE_SCATTER, true);
}

static void all_gather_brings_every_block_everywhere(void **state)
{
    (void)state;
    check_sizes(&tdmi_ring, TDMI_COLL_ALL_GATHER, 33, true);
    check_types(&tdmi_ring, TDMI_COLL_ALL_GATHER, true);
}

static void broadcast_passes_segments_along_the_chain(void **state)
{
    (void)state;
    check_sizes(&tdmi_ring, TDMI_COLL_BROADCAST, 33, true);
    check_collective(&tdmi_ring, TDMI_COLL_BROADCAST, TDM_U8, TDM_SUM, 4, 1000001, (check_options){.seed = 3});
}

static tdmi_traffic traffic_of(int rank, int n, size_t count)
{
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = count};
    tdmi_steps list = {0};
    tdmi_ring.steps(&list, &call, &(tdmi_topology){.rank = rank, .n = n});
    tdmi_traffic t = tdmi_steps_traffic(&list);
    tdmi_steps_free(&list);
    return t;
}

static void every_rank_sends_two_times_n_minus_1_nths_of_the_data(void **state)
{
    (void)state;
    for (int n = 2; n <= 33; n++)
        for (int rank = 0; rank < n; rank++) {
            const size_t count = 5 * (size_t)n;
            tdmi_traffic t = traffic_of(rank, n, count);
            assert_int_equal(t.elements_sent, 2 * (n - 1) * count / n);
            assert_int_equal(t.messages, 2 * (n - 1));
        }
}

/* With two ranks a + b is all there is; from three on a ring adds in rotations, which is why it must be asked for. */
static void two_ranks_give_the_canonical_bits_and_three_do_not(void **state)
{
    (void)state;
    check_collective(&tdmi_ring, TDMI_COLL_ALLREDUCE, TDM_F32, TDM_SUM, 2, 1000, (check_options){.exact = false});
    float in[3][3] = {{1e8f, 1e8f, 1e8f}, {1, 1, 1}, {-1e8f, -1e8f, -1e8f}}, out[3][3];
    replay_buffers buffers[3] = {{in[0], out[0]}, {in[1], out[1]}, {in[2], out[2]}};
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 3};
    assert_null(replay(&tdmi_ring, (tdmi_call[3]){call, call, call}, &(tdmi_topology){.n = 3}, 1, buffers, 0, false));
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_memory_equal(out[0], out[2], sizeof out[0]);
    assert_true(out[0][0] != out[0][1] || out[0][1] != out[0][2]); /* equal sums, another order in each chunk */
    assert_true(tdmi_ring.reorders);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_is_right_for_any_ranks_and_types),
        cmocka_unit_test(reduce_scatter_is_right_for_any_ranks_and_types),
        cmocka_unit_test(all_gather_brings_every_block_everywhere),
        cmocka_unit_test(broadcast_passes_segments_along_the_chain),
        cmocka_unit_test(every_rank_sends_two_times_n_minus_1_nths_of_the_data),
        cmocka_unit_test(two_ranks_give_the_canonical_bits_and_three_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
