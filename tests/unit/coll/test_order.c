/* test_order.c - rings that cross slow links as little as any order can. */
#include "coll/algorithm.h"
#include "coll/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS_MAX = 24 };

/* Ranks of one side talk fast, over the trunk between sides slowly; some noise everywhere. */
static void two_sides(const int *side, int n, double *pair)
{
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            pair[a * n + b] = (side[a] == side[b] ? 8 : 80) * (1 + 0.1 * ((a * 7 + b * 13) % 5));
}

static int crossings(const int *order, const int *side, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += side[order[i]] != side[order[(i + 1) % n]];
    return count;
}

static void assert_all_ranks(const int *order, int n)
{
    bool seen[RANKS_MAX] = {false};
    for (int i = 0; i < n; i++) {
        assert_in_range(order[i], 0, n - 1);
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
    }
}

static void a_ring_crosses_a_slow_trunk_twice(void **state)
{
    (void)state;
    double pair[RANKS_MAX * RANKS_MAX];
    int side[RANKS_MAX], order[RANKS_MAX];
    for (int n = 4; n <= RANKS_MAX; n++)
        for (int kind = 2; kind <= 4; kind++) {
            for (int r = 0; r < n; r++)
                side[r] = kind == 4 ? r % 5 > 2 : r % kind == 1;
            two_sides(side, n, pair);
            tdmi_order_find(pair, n, order);
            assert_all_ranks(order, n);
            assert_int_equal(crossings(order, side, n), 2);
        }
}

static void a_slow_cable_between_two_ranks_is_avoided(void **state)
{
    (void)state;
    for (int n = 4; n <= 12; n++) {
        double pair[RANKS_MAX * RANKS_MAX];
        int order[RANKS_MAX];
        for (int i = 0; i < n * n; i++)
            pair[i] = 8;
        pair[1 * n + 2] = 80; /* seen from one end is enough */
        tdmi_order_find(pair, n, order);
        assert_all_ranks(order, n);
        for (int i = 0; i < n; i++) {
            const int a = order[i], b = order[(i + 1) % n];
            assert_false((a == 1 && b == 2) || (a == 2 && b == 1));
        }
    }
}

/* Whatever the ring, a host behind a slow cable is crossed twice; the tree makes it a rank without children. */
static void a_host_behind_a_slow_cable_becomes_a_leaf_of_the_tree(void **state)
{
    (void)state;
    const int n = 4, slow = 2;
    double pair[16];
    int order[4];
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            pair[a * n + b] = a == slow || b == slow ? 80 : 8;
    tdmi_order_find(pair, n, order);
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 1000};
    assert_int_equal(tdmi_tree.cost(&call, &(tdmi_topology){.rank = slow, .n = n, .order = order}).elements_sent, 1000);
}

static void equal_links_leave_the_order_as_it_is(void **state)
{
    (void)state;
    for (int n = 2; n <= 12; n++) {
        double pair[RANKS_MAX * RANKS_MAX];
        int order[RANKS_MAX];
        for (int i = 0; i < n * n; i++)
            pair[i] = 8 + i % 7;
        tdmi_order_find(pair, n, order);
        for (int i = 0; i < n; i++)
            assert_int_equal(order[i], i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_crosses_a_slow_trunk_twice),
        cmocka_unit_test(a_slow_cable_between_two_ranks_is_avoided),
        cmocka_unit_test(a_host_behind_a_slow_cable_becomes_a_leaf_of_the_tree),
        cmocka_unit_test(equal_links_leave_the_order_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
