/* test_bruck.c - all-gather and alltoall in the fewest rounds. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void every_part_arrives_for_any_ranks(void **state)
{
    (void)state;
    check_sizes(&tdmi_bruck, TDMI_COLL_ALL_GATHER, 33, false);
    check_types(&tdmi_bruck, TDMI_COLL_ALL_GATHER, false);
    check_sizes(&tdmi_bruck, TDMI_COLL_ALLTOALL, 33, false);
    check_types(&tdmi_bruck, TDMI_COLL_ALLTOALL, false);
}

static void one_message_a_round_and_log_n_rounds(void **state)
{
    (void)state;
    for (int n = 2; n <= 33; n++)
        for (int coll = 0; coll < 2; coll++) {
            const tdmi_call call = {.coll = coll == 0 ? TDMI_COLL_ALL_GATHER : TDMI_COLL_ALLTOALL, .dtype = TDM_F32, .root = -1,
                                    .count = 3};
            size_t rounds = 0;
            while ((size_t)1 << rounds < (size_t)n)
                rounds++;
            for (int rank = 0; rank < n; rank++) {
                tdmi_steps list = {0};
                tdmi_bruck.steps(&list, &call, &(tdmi_topology){.rank = rank, .n = n});
                assert_int_equal(tdmi_steps_traffic(&list).messages, rounds);
                tdmi_steps_free(&list);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_arrives_for_any_ranks),
        cmocka_unit_test(one_message_a_round_and_log_n_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
