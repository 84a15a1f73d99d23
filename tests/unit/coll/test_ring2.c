/* test_ring2.c - both ways round: results, traffic, and what a cable carries. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void results_are_right_for_any_ranks_and_types(void **state)
{
    (void)state;
    static const tdmi_coll colls[] = {TDMI_COLL_ALLREDUCE, TDMI_COLL_REDUCE_SCATTER, TDMI_COLL_ALL_GATHER};
    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++) {
        check_sizes(&tdmi_ring2, colls[i], 33, true);
        check_types(&tdmi_ring2, colls[i], true);
    }
}

static void two_ranks_give_the_canonical_bits(void **state)
{
    (void)state;
    check_collective(&tdmi_ring2, TDMI_COLL_ALLREDUCE, TDM_F32, TDM_SUM, 2, 1001, (check_options){.exact = false});
    check_collective(&tdmi_ring2, TDMI_COLL_REDUCE_SCATTER, TDM_F16, TDM_SUM, 2, 1001, (check_options){.exact = false});
}

static void ranks_go_round_in_the_order_of_the_group(void **state)
{
    (void)state;
    static const int order[] = {3, 0, 4, 1, 2};
    static const tdmi_coll colls[] = {TDMI_COLL_ALLREDUCE, TDMI_COLL_REDUCE_SCATTER, TDMI_COLL_ALL_GATHER, TDMI_COLL_BROADCAST};
    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
        for (int two = 0; two < 2; two++)
            check_collective(two ? &tdmi_ring2 : &tdmi_ring, colls[i], TDM_F32, TDM_SUM, 5, 37,
                             (check_options){.exact = true, .order = order});
}

static void each_cable_carries_as_much_in_both_directions(void **state)
{
    (void)state;
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 120};
    tdmi_steps list = {0};
    for (int rank = 0; rank < 6; rank++) {
        size_t right = 0, left = 0;
        tdmi_steps_clear(&list);
        tdmi_ring2.steps(&list, &call, &(tdmi_topology){.rank = rank, .n = 6});
        for (size_t i = 0; i < list.count; i++) {
            right += list.step[i].to == (rank + 1) % 6 ? list.step[i].src.count : 0;
            left += list.step[i].to == (rank + 5) % 6 ? list.step[i].src.count : 0;
        }
        assert_int_equal(right, 100);
        assert_int_equal(left, 100);
    }
    tdmi_steps_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_right_for_any_ranks_and_types),
        cmocka_unit_test(two_ranks_give_the_canonical_bits),
        cmocka_unit_test(ranks_go_round_in_the_order_of_the_group),
        cmocka_unit_test(each_cable_carries_as_much_in_both_directions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
