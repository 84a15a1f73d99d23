/* test_binomial.c - broadcast, scatter, gather and reduce between any root and any number of ranks. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void every_rank_gets_the_data_of_the_root(void **state)
{
    (void)state;
    check_sizes(&tdmi_binomial, TDMI_COLL_BROADCAST, 33, false);
    check_types(&tdmi_binomial, TDMI_COLL_BROADCAST, false);
}

static void parts_go_to_the_root_and_come_from_it(void **state)
{
    (void)state;
    check_sizes(&tdmi_binomial, TDMI_COLL_SCATTER, 33, false);
    check_types(&tdmi_binomial, TDMI_COLL_SCATTER, false);
    check_sizes(&tdmi_binomial, TDMI_COLL_GATHER, 33, false);
    check_types(&tdmi_binomial, TDMI_COLL_GATHER, false);
}

static void a_reduce_is_the_canonical_tree_for_any_root(void **state)
{
    (void)state;
    check_sizes(&tdmi_binomial, TDMI_COLL_REDUCE, 33, false);
    check_types(&tdmi_binomial, TDMI_COLL_REDUCE, false);
    for (int n = 2; n <= 9; n++)
        for (int root = 0; root < n; root++)
            check_collective(&tdmi_binomial, TDMI_COLL_REDUCE, TDM_BF16, TDM_AVG, n, 7, (check_options){.root = root + 1});
}

/* With the root in it, a block's sum lies at the root: no message more than ranks, and log2(n) rounds for any root. */
static void a_reduce_needs_no_hop_to_the_root(void **state)
{
    (void)state;
    for (int root = 0; root < 13; root++) {
        const tdmi_call call = {.coll = TDMI_COLL_REDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = root, .count = 3};
        tdmi_steps list = {0};
        tdmi_binomial.steps(&list, &call, &(tdmi_topology){.rank = root, .n = 13});
        size_t received = 0;
        for (size_t i = 0; i < list.count; i++) {
            received += list.step[i].kind == TDMI_STEP_EXCHANGE_REDUCE ? 1 : 0;
            assert_int_equal(list.step[i].to, -1);
        }
        assert_true(received <= 4);
        tdmi_steps_free(&list);
    }
}

static void every_rank_but_the_root_is_sent_to_once_within_log_n_rounds(void **state)
{
    (void)state;
    for (int n = 2; n <= 33; n++)
        for (int root = 0; root < n; root++) {
            const tdmi_call call = {.coll = TDMI_COLL_BROADCAST, .dtype = TDM_F32, .op = TDM_SUM, .root = root, .count = 3};
            size_t sent = 0, rounds = 0;
            while ((size_t)1 << rounds < (size_t)n)
                rounds++;
            for (int rank = 0; rank < n; rank++) {
                tdmi_steps list = {0};
                tdmi_binomial.steps(&list, &call, &(tdmi_topology){.rank = rank, .n = n});
                tdmi_traffic t = tdmi_steps_traffic(&list);
                assert_true(t.messages <= rounds);
                sent += t.messages;
                tdmi_steps_free(&list);
            }
            assert_int_equal(sent, n - 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_gets_the_data_of_the_root),
        cmocka_unit_test(parts_go_to_the_root_and_come_from_it),
        cmocka_unit_test(a_reduce_is_the_canonical_tree_for_any_root),
        cmocka_unit_test(a_reduce_needs_no_hop_to_the_root),
        cmocka_unit_test(every_rank_but_the_root_is_sent_to_once_within_log_n_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
