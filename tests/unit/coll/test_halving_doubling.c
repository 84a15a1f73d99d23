/* test_halving_doubling.c - results, order and traffic for any number of ranks. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void allreduce_equals_the_canonical_tree(void **state)
{
    (void)state;
    check_sizes(&tdmi_halving_doubling, TDMI_COLL_ALLREDUCE, 33, false);
    check_types(&tdmi_halving_doubling, TDMI_COLL_ALLREDUCE, false);
}

static void reduce_scatter_equals_the_canonical_tree(void **state)
{
    (void)state;
    check_sizes(&tdmi_halving_doubling, TDMI_COLL_REDUCE_SCATTER, 33, false);
    check_types(&tdmi_halving_doubling, TDMI_COLL_REDUCE_SCATTER, false);
}

static void all_gather_brings_every_block_everywhere(void **state)
{
    (void)state;
    check_sizes(&tdmi_halving_doubling, TDMI_COLL_ALL_GATHER, 33, false);
    check_types(&tdmi_halving_doubling, TDMI_COLL_ALL_GATHER, false);
}

static tdmi_traffic traffic_of(tdmi_coll coll, int rank, int n, size_t count)
{
    const tdmi_call call = {.coll = coll, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = count};
    tdmi_steps list = {0};
    tdmi_halving_doubling.steps(&list, &call, &(tdmi_topology){.rank = rank, .n = n});
    tdmi_traffic t = tdmi_steps_traffic(&list);
    tdmi_steps_free(&list);
    return t;
}

/* 2(n-1)/n of the data, which is the least possible, for any n; in 2 log2(n) messages where n is a power of two. */
static void every_rank_sends_the_least_possible(void **state)
{
    (void)state;
    for (int n = 2; n <= 33; n++)
        for (int rank = 0; rank < n; rank++) {
            tdmi_traffic t = traffic_of(TDMI_COLL_ALLREDUCE, rank, n, 12 * (size_t)n);
            assert_int_equal(t.elements_sent, 2 * 12 * (n - 1));
            assert_int_equal(traffic_of(TDMI_COLL_REDUCE_SCATTER, rank, n, 12).elements_sent, 12 * (n - 1));
            assert_int_equal(traffic_of(TDMI_COLL_ALL_GATHER, rank, n, 12).elements_sent, 12 * (n - 1));
            int levels = 0;
            while (1 << levels < n)
                levels++;
            if (1 << levels == n)
                assert_int_equal(t.messages, 2 * levels);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_equals_the_canonical_tree),
        cmocka_unit_test(reduce_scatter_equals_the_canonical_tree),
        cmocka_unit_test(all_gather_brings_every_block_everywhere),
        cmocka_unit_test(every_rank_sends_the_least_possible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
