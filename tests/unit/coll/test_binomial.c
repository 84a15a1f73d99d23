/* test_binomial.c - broadcast from any root to any number of ranks. */
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
        cmocka_unit_test(every_rank_but_the_root_is_sent_to_once_within_log_n_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
