/* test_layout.c - lanes, and how nodes cut the canonical tree. */
#include "coll/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void ranks_are_counted_on_uneven_nodes(void **state)
{
    (void)state;
    static const int node[] = {0, 1, 0, 0, 2, 1};
    const tdmi_layout l = tdmi_layout_of(&(tdmi_topology){.rank = 3, .n = 6, .node = node});
    assert_int_equal(l.nodes, 3);
    assert_int_equal(l.node, 0);
    assert_int_equal(l.local, 3);
    assert_int_equal(l.index, 2);
    assert_int_equal(l.smallest, 1);
    assert_int_equal(l.largest, 3);
    assert_int_equal(tdmi_layout_rank(&l, 1, 1), 5);
    assert_int_equal(tdmi_layout_rank(&l, 2, 0), 4);
}

static int partials(const int *node, int n, tdmi_partial *out, bool *regular)
{
    int nodes = 0;
    for (int r = 0; r < n; r++)
        nodes = node[r] >= nodes ? node[r] + 1 : nodes;
    const int count = tdmi_layout_partials(&(tdmi_topology){.n = n, .node = node}, out);
    *regular = tdmi_layout_is_regular(out, count, nodes);
    return count;
}

static void aligned_nodes_give_one_sum_each(void **state)
{
    (void)state;
    static const int even[] = {0, 0, 0, 0, 1, 1, 1, 1}, tail[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2}, single[] = {0, 1, 2, 3, 4};
    static const int wide[] = {0, 0, 0, 0, 1, 1, 2, 2};
    tdmi_partial p[16];
    bool regular;
    assert_int_equal(partials(even, 8, p, &regular), 2);
    assert_true(regular);
    assert_int_equal(partials(tail, 11, p, &regular), 3);
    assert_true(regular && p[2].first == 8 && p[2].end == 11);
    assert_int_equal(partials(single, 5, p, &regular), 5);
    assert_true(regular);
    assert_int_equal(partials(wide, 8, p, &regular), 3); /* N0 + (N1 + N2), which is no tree over 0, 1, 2 */
    assert_false(regular);
}

static void other_nodes_give_the_sums_of_their_largest_subtrees(void **state)
{
    (void)state;
    static const int threes[] = {0, 0, 0, 1, 1, 1}, turns[] = {0, 1, 0, 1};
    static const tdmi_partial expected[] = {{0, 2, 0}, {2, 3, 0}, {3, 4, 1}, {4, 6, 1}};
    tdmi_partial p[8];
    bool regular;
    assert_int_equal(partials(threes, 6, p, &regular), 4);
    assert_memory_equal(p, expected, sizeof expected);
    assert_false(regular);
    assert_int_equal(partials(turns, 4, p, &regular), 4);
    assert_false(regular);
}

static void neighbours_give_few_sums(void **state)
{
    (void)state;
    int node[64];
    tdmi_partial p[64];
    bool regular;
    for (int first = 0; first < 60; first++)
        for (int end = first + 1; end <= 64; end++) {
            int own = 0;
            for (int r = 0; r < 64; r++)
                node[r] = r < first ? 0 : r < end ? (first > 0 ? 1 : 0) : first > 0 ? 2 : 1;
            const int count = partials(node, 64, p, &regular);
            for (int i = 0; i < count; i++)
                own += p[i].first >= first && p[i].end <= end;
            assert_in_range(own, 1, 2 * 6 - 2);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_counted_on_uneven_nodes),
        cmocka_unit_test(aligned_nodes_give_one_sum_each),
        cmocka_unit_test(other_nodes_give_the_sums_of_their_largest_subtrees),
        cmocka_unit_test(neighbours_give_few_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
