/* test_dissemination.c - the barrier: after it every rank has heard of every other. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void it_ends_on_any_number_of_ranks(void **state)
{
    (void)state;
    check_sizes(&tdmi_dissemination, TDMI_COLL_BARRIER, 33, false);
}

/* Follows who has heard of whom through the rounds, which the lists of all ranks pass in step. */
static void every_rank_has_heard_of_every_other(void **state)
{
    (void)state;
    const tdmi_call call = {.coll = TDMI_COLL_BARRIER, .dtype = TDM_U8, .op = TDM_SUM, .root = -1, .count = 0};
    for (int n = 2; n <= 33; n++) {
        uint64_t heard[33], next[33];
        tdmi_steps lists[33] = {{0}};
        for (int rank = 0; rank < n; rank++) {
            tdmi_dissemination.steps(&lists[rank], &call, &(tdmi_topology){.rank = rank, .n = n});
            heard[rank] = (uint64_t)1 << rank;
        }
        for (size_t step = 0; step < lists[0].count; step++) {
            for (int rank = 0; rank < n; rank++)
                next[rank] = heard[rank] | heard[lists[rank].step[step].from];
            memcpy(heard, next, sizeof heard);
        }
        for (int rank = 0; rank < n; rank++) {
            assert_true(heard[rank] == ((uint64_t)1 << n) - 1);
            tdmi_steps_free(&lists[rank]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_ends_on_any_number_of_ranks),
        cmocka_unit_test(every_rank_has_heard_of_every_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
