/* test_recursive_doubling.c - results, canonical bits and rounds, for any number of ranks. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void allreduce_gives_the_canonical_bits_for_any_ranks_and_types(void **state)
{
    (void)state;
    check_sizes(&tdmi_recursive_doubling, TDMI_COLL_ALLREDUCE, 33, false);
    check_types(&tdmi_recursive_doubling, TDMI_COLL_ALLREDUCE, false);
}

static tdmi_traffic most_traffic(int n)
{
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 7};
    tdmi_traffic most = {0, 0};
    for (int rank = 0; rank < n; rank++) {
        const tdmi_traffic t = tdmi_recursive_doubling.cost(&call, &(tdmi_topology){.rank = rank, .n = n});
        most = t.messages > most.messages ? t : most;
    }
    return most;
}

static void a_power_of_two_takes_log2_n_rounds_and_others_at_most_twice_that_and_one(void **state)
{
    (void)state;
    for (int n = 2, log = 1; n <= 64; n *= 2, log++) {
        assert_int_equal(most_traffic(n).messages, log);
        assert_int_equal(most_traffic(n).elements_sent, 7 * log);
        for (int other = n + 1; other < 2 * n; other++)
            assert_in_range(most_traffic(other).messages, log, 2 * log + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_gives_the_canonical_bits_for_any_ranks_and_types),
        cmocka_unit_test(a_power_of_two_takes_log2_n_rounds_and_others_at_most_twice_that_and_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
