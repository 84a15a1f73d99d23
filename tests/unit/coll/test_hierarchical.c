/* test_hierarchical.c - canonical bits on nodes of any shape, and what crosses the links between them. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS_MAX = 33 };

/* Shapes of n ranks: nodes of `width` neighbours, nodes in turn, one large node and single ranks, sizes 1, 2, 3, ... */
enum { SHAPES = 6 };

static void shape(int kind, int n, int node[RANKS_MAX])
{
    for (int r = 0, end = 1, size = 1, m = 0; r < n; r++) {
        switch (kind) {
        case 0: node[r] = r / 2; break;
        case 1: node[r] = r / 4; break;
        case 2: node[r] = r / 3; break;
        case 3: node[r] = r % 3; break;
        case 4: node[r] = r < n / 2 ? 0 : r - n / 2 + (n / 2 > 0 ? 1 : 0); break;
        default:
            if (r == end)
                m++, size++, end += size;
            node[r] = m;
        }
    }
}

/* One operation on nodes of any shape, for any number of ranks; an eleventh of the cases where there are many. */
static void check_shapes(tdmi_coll coll, bool uneven)
{
    int node[RANKS_MAX];
    for (int kind = 0; kind < SHAPES; kind++)
        for (int n = 1; n <= RANKS_MAX; n++) {
            const size_t several_lanes = (size_t)(tdmi_coll_has_parts(coll) ? 9001 / n + n : 4096 + n);
            const size_t counts[] = {0, 1, (size_t)n, 61, several_lanes};
            shape(kind, n, node);
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                if (coll == TDMI_COLL_BARRIER ? counts[i] == 0 : n <= 8 || (n + kind + (int)i) % 11 == 0)
                    check_collective(&tdmi_hierarchical, coll, TDM_F32, TDM_SUM, n, counts[i],
                                     (check_options){.in_place = (n + (int)i) % 2 == 0, .exact = false, .seed = (unsigned)i,
                                                     .uneven = uneven, .races = n <= 5, .node = node,
                                                     .root = n <= 8 && i == 3 ? 1 + kind % n : 0});
        }
}

static void sums_are_canonical_on_nodes_of_any_shape(void **state)
{
    (void)state;
    check_shapes(TDMI_COLL_ALLREDUCE, false);
    check_shapes(TDMI_COLL_REDUCE, false);
}

static void scattered_sums_are_canonical_on_nodes_of_any_shape(void **state)
{
    (void)state;
    check_shapes(TDMI_COLL_REDUCE_SCATTER, false);
    check_shapes(TDMI_COLL_REDUCE_SCATTER, true);
}

static void parts_reach_everyone_on_nodes_of_any_shape(void **state)
{
    (void)state;
    check_shapes(TDMI_COLL_ALL_GATHER, false);
    check_shapes(TDMI_COLL_ALL_GATHER, true);
}

static void data_reaches_its_ranks_on_nodes_of_any_shape(void **state)
{
    (void)state;
    check_shapes(TDMI_COLL_BROADCAST, false);
    check_shapes(TDMI_COLL_BARRIER, false);
    check_shapes(TDMI_COLL_GATHER, false);
    check_shapes(TDMI_COLL_SCATTER, false);
    check_shapes(TDMI_COLL_ALLTOALL, false);
}

static void every_type_and_operation_is_right(void **state)
{
    (void)state;
    static const tdmi_coll sums[] = {TDMI_COLL_ALLREDUCE, TDMI_COLL_REDUCE, TDMI_COLL_REDUCE_SCATTER};
    static const int nodes[][6] = {{0, 0, 1, 1, 2, 2}, {0, 0, 0, 1, 1, 1}, {0, 1, 1, 1, 2, 0}};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
            for (int op = 0; op < TDM_OP_COUNT; op++)
                for (size_t k = 0; k < sizeof sums / sizeof *sums; k++)
                    if ((size_t)(dtype + op) % 3 == (i + k) % 3 && tdmi_op_check((tdm_dtype)dtype, (tdm_op)op, "test", "native") == TDM_OK)
                        check_collective(&tdmi_hierarchical, sums[k], (tdm_dtype)dtype, (tdm_op)op, 6, k == 0 ? 4999 : 1207,
                                         (check_options){.in_place = op % 2 == 0, .exact = false, .node = nodes[i], .seed = 1});
}

static void long_buffers_go_through_stage_in_segments(void **state)
{
    (void)state;
    static const int even[] = {0, 0, 1, 1}, odd[] = {0, 0, 0, 1, 1}, turns[] = {0, 1, 0, 1, 0};
    for (int coll = 0; coll < TDMI_COLL_BARRIER; coll++) {
        const bool races = coll % 2 == 1;
        const size_t count = tdmi_coll_has_parts((tdmi_coll)coll) ? 60001 : 200001;
        check_collective(&tdmi_hierarchical, (tdmi_coll)coll, TDM_F64, TDM_SUM, 4, count,
                         (check_options){.node = even, .races = races, .seed = 2});
        check_collective(&tdmi_hierarchical, (tdmi_coll)coll, TDM_F32, TDM_SUM, 5, count,
                         (check_options){.node = odd, .races = races, .seed = 4, .in_place = true});
        check_collective(&tdmi_hierarchical, (tdmi_coll)coll, TDM_BF16, TDM_SUM, 5, count,
                         (check_options){.node = turns, .races = races, .seed = 5, .in_place = true, .uneven = true});
    }
}

/* So long that one piece is collected, one under way and one delivered at a time; seeds let the background run early and late. */
static void pieces_follow_each_other_through_the_nodes(void **state)
{
    (void)state;
    static const int pair_and_one[] = {0, 0, 1}, turns[] = {0, 1, 0, 1};
    for (int coll = 0; coll < TDMI_COLL_BARRIER; coll++) {
        const unsigned seed = (unsigned)coll % 2;
        const size_t count = tdmi_coll_has_parts((tdmi_coll)coll) ? 120001 : 450001;
        check_collective(&tdmi_hierarchical, (tdmi_coll)coll, TDM_F64, TDM_SUM, 3, count,
                         (check_options){.node = pair_and_one, .races = true, .seed = seed, .in_place = seed == 0});
        check_collective(&tdmi_hierarchical, (tdmi_coll)coll, TDM_F64, TDM_AVG, 4, count,
                         (check_options){.node = turns, .races = true, .seed = seed, .in_place = seed == 1});
    }
    check_collective(&tdmi_hierarchical_ring, TDMI_COLL_ALLREDUCE, TDM_F64, TDM_SUM, 3, 450001,
                     (check_options){.node = pair_and_one, .exact = true, .seed = 3});
}

static void other_algorithms_go_between_the_nodes(void **state)
{
    (void)state;
    static const tdmi_algorithm *const between[] = {&tdmi_hierarchical_ring, &tdmi_hierarchical_ring2, &tdmi_hierarchical_tree};
    int node[RANKS_MAX];
    for (size_t i = 0; i < sizeof between / sizeof *between; i++)
        for (int kind = 0; kind < SHAPES; kind++)
            for (int n = 1; n <= 13; n++) {
                shape(kind, n, node);
                check_collective(between[i], TDMI_COLL_ALLREDUCE, TDM_BF16, TDM_AVG, n, 5000,
                                 (check_options){.exact = true, .node = node, .seed = 5});
                check_collective(between[i], TDMI_COLL_ALLREDUCE, TDM_F32, TDM_SUM, n, 77,
                                 (check_options){.exact = true, .node = node, .in_place = true});
            }
}

/* Elements that leave `from_node` for `to_node`, -1: for any other. */
static size_t crossing(tdmi_coll coll, const int *node, int n, size_t count, int from_node, int to_node)
{
    const bool has_root = coll == TDMI_COLL_BROADCAST || coll == TDMI_COLL_REDUCE || coll == TDMI_COLL_GATHER || coll == TDMI_COLL_SCATTER;
    const tdmi_call call = {.coll = coll, .dtype = TDM_F32, .op = TDM_SUM, .root = has_root ? 0 : -1, .count = count};
    tdmi_steps list = {0};
    size_t sum = 0;
    for (int rank = 0; rank < n; rank++) {
        tdmi_steps_clear(&list);
        tdmi_hierarchical.steps(&list, &call, &(tdmi_topology){.rank = rank, .n = n, .node = node});
        for (size_t i = 0; i < list.count; i++) {
            const tdmi_step *step = &list.step[i];
            if ((step->kind == TDMI_STEP_EXCHANGE || step->kind == TDMI_STEP_EXCHANGE_REDUCE) && step->to >= 0 && node[rank] == from_node)
                sum += to_node < 0 || node[step->to] == to_node ? step->src.count : 0;
        }
    }
    tdmi_steps_free(&list);
    return sum;
}

static void the_link_between_two_nodes_carries_one_copy(void **state)
{
    (void)state;
    static const int two[] = {0, 0, 1, 1}, eight[] = {0, 0, 0, 0, 1, 1, 1, 1}, uneven[] = {0, 0, 0, 0, 1, 1}, turns[] = {0, 1, 0, 1, 0, 1};
    const size_t count = 100000;
    assert_int_equal(crossing(TDMI_COLL_ALLREDUCE, two, 4, count, 0, 1), count);
    assert_int_equal(crossing(TDMI_COLL_ALLREDUCE, two, 4, count, 1, 0), count);
    assert_int_equal(crossing(TDMI_COLL_ALLREDUCE, eight, 8, count, 0, 1), count);
    assert_int_equal(crossing(TDMI_COLL_ALLREDUCE, uneven, 6, count, 1, 0), count);
    assert_int_equal(crossing(TDMI_COLL_BROADCAST, eight, 8, count, 0, 1), count);
    assert_int_equal(crossing(TDMI_COLL_BROADCAST, eight, 8, count, 1, 0), 0);
    assert_int_equal(crossing(TDMI_COLL_REDUCE, eight, 8, count, 1, 0), count);
    assert_int_equal(crossing(TDMI_COLL_REDUCE, eight, 8, count, 0, 1), 0);
    assert_int_equal(crossing(TDMI_COLL_GATHER, turns, 6, count, 1, 0), 3 * count);
    assert_int_equal(crossing(TDMI_COLL_GATHER, turns, 6, count, 0, 1), 0);
    assert_int_equal(crossing(TDMI_COLL_SCATTER, uneven, 6, count, 0, 1), 2 * count);
    assert_int_equal(crossing(TDMI_COLL_SCATTER, uneven, 6, count, 1, 0), 0);
    assert_int_equal(crossing(TDMI_COLL_ALLTOALL, uneven, 6, count, 0, 1), 4 * 2 * count);
    assert_int_equal(crossing(TDMI_COLL_ALLTOALL, uneven, 6, count, 1, 0), 4 * 2 * count);
}

/* Of all nodes together: what each of them has not, once; a reduce_scatter's sums of each node for the others, once. */
static void every_node_gets_what_it_has_not_once(void **state)
{
    (void)state;
    static const int pairs[] = {0, 0, 1, 1, 2, 2, 3, 3}, fours[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2}, turns[] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
    const struct { const int *node; int n, nodes; } shapes[] = {{pairs, 8, 4}, {fours, 11, 3}, {turns, 9, 3}};
    const size_t count = 9973;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        size_t gathered = 0, scattered = 0;
        for (int m = 0; m < shapes[i].nodes; m++) {
            gathered += crossing(TDMI_COLL_ALL_GATHER, shapes[i].node, shapes[i].n, count, m, -1);
            scattered += crossing(TDMI_COLL_REDUCE_SCATTER, shapes[i].node, shapes[i].n, count, m, -1);
        }
        assert_int_equal(gathered, (size_t)(shapes[i].nodes - 1) * (size_t)shapes[i].n * count);
        assert_int_equal(scattered, (size_t)(shapes[i].nodes - 1) * (size_t)shapes[i].n * count * (shapes[i].node == turns ? 3 : 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_canonical_on_nodes_of_any_shape),
        cmocka_unit_test(scattered_sums_are_canonical_on_nodes_of_any_shape),
        cmocka_unit_test(parts_reach_everyone_on_nodes_of_any_shape),
        cmocka_unit_test(data_reaches_its_ranks_on_nodes_of_any_shape),
        cmocka_unit_test(every_type_and_operation_is_right),
        cmocka_unit_test(long_buffers_go_through_stage_in_segments),
        cmocka_unit_test(pieces_follow_each_other_through_the_nodes),
        cmocka_unit_test(other_algorithms_go_between_the_nodes),
        cmocka_unit_test(the_link_between_two_nodes_carries_one_copy),
        cmocka_unit_test(every_node_gets_what_it_has_not_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
