/* test_tree.c - the double binary tree: results, traffic, and that half of it is never idle. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void results_are_right_for_any_ranks_and_types(void **state)
{
    (void)state;
    static const tdmi_coll colls[] = {TDMI_COLL_ALLREDUCE, TDMI_COLL_REDUCE, TDMI_COLL_BROADCAST};
    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++) {
        check_sizes(&tdmi_tree, colls[i], 33, true);
        check_types(&tdmi_tree, colls[i], true);
    }
}

static void many_chunks_follow_each_other(void **state)
{
    (void)state;
    for (int n = 2; n <= 7; n++) {
        check_collective(&tdmi_tree, TDMI_COLL_ALLREDUCE, TDM_F64, TDM_SUM, n, 100001, (check_options){.exact = true, .seed = 2});
        check_collective(&tdmi_tree, TDMI_COLL_BROADCAST, TDM_F64, TDM_SUM, n, 100001, (check_options){.seed = 3});
    }
    static const int order[] = {3, 0, 4, 1, 2};
    check_collective(&tdmi_tree, TDMI_COLL_REDUCE, TDM_F32, TDM_SUM, 5, 100001, (check_options){.exact = true, .order = order});
}

static void two_ranks_give_the_canonical_bits(void **state)
{
    (void)state;
    check_collective(&tdmi_tree, TDMI_COLL_ALLREDUCE, TDM_F32, TDM_SUM, 2, 1001, (check_options){.exact = false});
    check_collective(&tdmi_tree, TDMI_COLL_REDUCE, TDM_F32, TDM_SUM, 2, 1001, (check_options){.exact = false});
}

/* 16 chunks of a half: a rank that has children in one tree sends about as much as it receives, in 2 K + 2 log n steps. */
static void no_rank_sends_more_than_the_data_and_takes_few_more_steps_than_chunks(void **state)
{
    (void)state;
    const tdmi_call call = {.coll = TDMI_COLL_BROADCAST, .dtype = TDM_U8, .op = TDM_SUM, .root = 3, .count = (size_t)4 << 20};
    tdmi_steps list = {0};
    for (int n = 4; n <= 33; n++) {
        int log = 0;
        while (1 << log < n)
            log++;
        for (int rank = 0; rank < n; rank++) {
            tdmi_steps_clear(&list);
            tdmi_tree.steps(&list, &call, &(tdmi_topology){.rank = rank, .n = n});
            assert_in_range(tdmi_steps_traffic(&list).elements_sent, 0, call.count);
            assert_in_range(list.count, 0, 2 * 16 + 2 * log + 2);
        }
    }
    tdmi_steps_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_right_for_any_ranks_and_types),
        cmocka_unit_test(many_chunks_follow_each_other),
        cmocka_unit_test(two_ranks_give_the_canonical_bits),
        cmocka_unit_test(no_rank_sends_more_than_the_data_and_takes_few_more_steps_than_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
