/* test_pairwise.c - exchanges between all pairs: moves, and sums in the canonical order from inputs in their own type. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void every_operation_is_right_for_any_ranks(void **state)
{
    (void)state;
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        check_sizes(&tdmi_pairwise, (tdmi_coll)coll, 33, false);
}

static void every_type_is_right(void **state)
{
    (void)state;
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        check_types(&tdmi_pairwise, (tdmi_coll)coll, false);
}

static void any_root_may_reduce(void **state)
{
    (void)state;
    for (int n = 2; n <= 7; n++)
        for (int root = 0; root < n; root++) {
            check_collective(&tdmi_pairwise, TDMI_COLL_REDUCE, TDM_F16, TDM_AVG, n, 45, (check_options){.root = root + 1});
            check_collective(&tdmi_pairwise, TDMI_COLL_REDUCE, TDM_F32, TDM_SUM, n, 5,
                             (check_options){.root = root + 1, .in_place = true});
        }
}

/* Inputs go as they are, never as wider sums, and no more than log2(n) + 1 sums wait. */
static void halves_travel_as_halves(void **state)
{
    (void)state;
    for (int n = 2; n <= 33; n++) {
        const tdmi_call call = {.coll = TDMI_COLL_REDUCE_SCATTER, .dtype = TDM_BF16, .op = TDM_SUM, .root = -1, .count = 10};
        tdmi_steps list = {0};
        size_t most = 1;
        for (int ranks = 1; ranks < n; ranks *= 2)
            most++;
        tdmi_pairwise.steps(&list, &call, &(tdmi_topology){.rank = n / 2, .n = n});
        for (size_t i = 0; i < list.count; i++)
            if (list.step[i].to >= 0)
                assert_int_equal(list.step[i].src.buffer, TDMI_BUFFER_IN);
        assert_true(list.acc_count <= most * call.count);
        tdmi_steps_free(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_right_for_any_ranks),
        cmocka_unit_test(every_type_is_right),
        cmocka_unit_test(any_root_may_reduce),
        cmocka_unit_test(halves_travel_as_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
