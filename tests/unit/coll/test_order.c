/* test_order.c - orders of ranks that cross slow links as little as any can. */
#include "check.h"
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
            tdmi_order_find(pair, n, TDMI_SHAPE_RING, order);
            assert_all_ranks(order, n);
            assert_int_equal(crossings(order, side, n), 2);
        }
}

/* Elements that an allreduce sends over slow links. */
static size_t sent_slowly(tdmi_shape shape, const int *order, const bool *slow, int n)
{
    static const tdmi_algorithm *const algorithms[TDMI_SHAPES] = {&tdmi_ring, &tdmi_tree, &tdmi_halving_doubling};
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 16 * (size_t)n};
    tdmi_steps list = {0};
    size_t sum = 0;
    for (int rank = 0; rank < n; rank++) {
        tdmi_topology topology = {.rank = rank, .n = n};
        topology.order[shape] = order;
        tdmi_steps_clear(&list);
        algorithms[shape]->steps(&list, &call, &topology);
        for (size_t i = 0; i < list.count; i++)
            sum += list.step[i].to >= 0 && slow[rank * n + list.step[i].to] ? list.step[i].src.count : 0;
    }
    tdmi_steps_free(&list);
    return sum;
}

/* Of every order. */
static size_t least(tdmi_shape shape, int *order, int at, const bool *slow, int n)
{
    if (at == n)
        return sent_slowly(shape, order, slow, n);
    size_t found = SIZE_MAX;
    for (int i = at; i < n; i++) {
        const int kept = order[at];
        order[at] = order[i];
        order[i] = kept;
        const size_t sent = least(shape, order, at + 1, slow, n);
        found = sent < found ? sent : found;
        order[i] = order[at];
        order[at] = kept;
    }
    return found;
}

/* Against all orders: one slow pair, a slow trunk, a slow host. */
static void no_order_sends_less_over_slow_links(void **state)
{
    (void)state;
    for (int n = 3; n <= 6; n++)
        for (int kind = 0; kind < 4; kind++)
            for (int shape = 0; shape < TDMI_SHAPES; shape++) {
                double pair[36];
                bool slow[36];
                int order[6], any[6] = {0, 1, 2, 3, 4, 5};
                for (int a = 0; a < n; a++)
                    for (int b = 0; b < n; b++) {
                        slow[a * n + b] = kind == 0 ? a + b == 1 : kind == 1 ? a % 2 != b % 2 : kind == 2 ? (a == 2) != (b == 2) :
                                          (a * b == 2 || a + b == n);
                        pair[a * n + b] = slow[a * n + b] ? 80 + a + b : 8 + (a + b) % 3;
                    }
                tdmi_order_find(pair, n, (tdmi_shape)shape, order);
                assert_all_ranks(order, n);
                assert_int_equal(sent_slowly((tdmi_shape)shape, order, slow, n), least((tdmi_shape)shape, any, 0, slow, n));
            }
}

static void a_slow_cable_between_two_ranks_is_avoided(void **state)
{
    (void)state;
    for (int n = 4; n <= 12; n++)
        for (int shape = 0; shape < TDMI_SHAPES; shape++) {
            if (shape == TDMI_SHAPE_DOUBLING && n != 4 && n != 8)
                continue; /* there each pair may meet */
            double pair[RANKS_MAX * RANKS_MAX];
            bool slow[RANKS_MAX * RANKS_MAX] = {false};
            int order[RANKS_MAX];
            for (int i = 0; i < n * n; i++)
                pair[i] = 8;
            pair[1 * n + 2] = 80; /* seen from one end is enough */
            slow[1 * n + 2] = slow[2 * n + 1] = true;
            tdmi_order_find(pair, n, (tdmi_shape)shape, order);
            assert_all_ranks(order, n);
            assert_int_equal(sent_slowly((tdmi_shape)shape, order, slow, n), 0);
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
    tdmi_order_find(pair, n, TDMI_SHAPE_TREE, order);
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 1000};
    assert_int_equal(tdmi_tree.cost(&call, &(tdmi_topology){.rank = slow, .n = n, .order[TDMI_SHAPE_TREE] = order}).elements_sent, 1000);
}

static void equal_links_leave_the_order_as_it_is(void **state)
{
    (void)state;
    for (int n = 2; n <= 12; n++)
        for (int shape = 0; shape < TDMI_SHAPES; shape++) {
            double pair[RANKS_MAX * RANKS_MAX];
            int order[RANKS_MAX];
            for (int i = 0; i < n * n; i++)
                pair[i] = 8 + 2 * (i % 7);
            tdmi_order_find(pair, n, (tdmi_shape)shape, order);
            for (int i = 0; i < n; i++)
                assert_int_equal(order[i], i);
        }
}

/* Noise among slow links is no reason to use more of them. */
static void a_noisy_trunk_is_crossed_as_little(void **state)
{
    (void)state;
    static const double pair[16] = {0, 170, 17, 58, 170, 0, 59, 36, 17, 59, 0, 135, 58, 36, 135, 0};
    static const int side[4] = {0, 1, 0, 1};
    int order[4];
    tdmi_order_find(pair, 4, TDMI_SHAPE_RING, order);
    assert_int_equal(crossings(order, side, 4), 2);
}

static void sums_are_right_in_any_order_of_ranks_and_of_nodes(void **state)
{
    (void)state;
    static const int order[] = {3, 0, 5, 4, 1, 2}, node_order[] = {2, 0, 1}, node[] = {0, 0, 1, 1, 2, 2};
    static const int short_order[] = {3, 0, 2, 1, 4};
    static const tdmi_algorithm *const over_links[] = {&tdmi_ring, &tdmi_ring2, &tdmi_tree, &tdmi_halving_doubling, &tdmi_recursive_doubling};
    static const tdmi_algorithm *const over_nodes[] = {&tdmi_hierarchical, &tdmi_hierarchical_ring, &tdmi_hierarchical_ring2,
                                                       &tdmi_hierarchical_tree};
    for (size_t count = 5; count < 100000; count *= 101) {
        for (size_t i = 0; i < sizeof over_links / sizeof *over_links; i++)
            for (int coll = 0; coll < TDMI_COLL_COUNT; coll++) {
                if (!over_links[i]->supports((tdmi_coll)coll, false))
                    continue;
                check_collective(over_links[i], (tdmi_coll)coll, TDM_F32, TDM_SUM, 6, count, (check_options){.exact = true, .order = order});
                check_collective(over_links[i], (tdmi_coll)coll, TDM_BF16, TDM_SUM, 5, count,
                                 (check_options){.exact = true, .order = short_order, .seed = 1});
            }
        for (size_t i = 0; i < sizeof over_nodes / sizeof *over_nodes; i++)
            check_collective(over_nodes[i], TDMI_COLL_ALLREDUCE, TDM_F32, TDM_SUM, 6, count,
                             (check_options){.exact = true, .node = node, .order = order, .node_order = node_order});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_crosses_a_slow_trunk_twice),
        cmocka_unit_test(no_order_sends_less_over_slow_links),
        cmocka_unit_test(a_noisy_trunk_is_crossed_as_little),
        cmocka_unit_test(a_slow_cable_between_two_ranks_is_avoided),
        cmocka_unit_test(a_host_behind_a_slow_cable_becomes_a_leaf_of_the_tree),
        cmocka_unit_test(sums_are_right_in_any_order_of_ranks_and_of_nodes),
        cmocka_unit_test(equal_links_leave_the_order_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
