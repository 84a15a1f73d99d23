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

static void results_are_canonical_on_nodes_of_any_shape(void **state)
{
    (void)state;
    static const tdmi_coll colls[] = {TDMI_COLL_ALLREDUCE, TDMI_COLL_BROADCAST, TDMI_COLL_BARRIER};
    int node[RANKS_MAX];
    for (int kind = 0; kind < SHAPES; kind++)
        for (int n = 1; n <= RANKS_MAX; n++) {
            const size_t counts[] = {0, 1, (size_t)n, 61, 4096 + (size_t)n};
            shape(kind, n, node);
            for (size_t c = 0; c < sizeof colls / sizeof *colls; c++)
                for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                    if (colls[c] == TDMI_COLL_BARRIER ? counts[i] == 0 : n <= 9 || (n + (int)(c + i)) % 3 == 0)
                        check_collective(&tdmi_hierarchical, colls[c], TDM_F32, TDM_SUM, n, counts[i],
                                         (check_options){.in_place = (n + (int)i) % 2 == 0, .exact = false, .seed = (unsigned)i,
                                                         .races = n <= 6, .node = node});
        }
}

static void every_type_and_operation_is_right(void **state)
{
    (void)state;
    static const int nodes[][6] = {{0, 0, 1, 1, 2, 2}, {0, 0, 0, 1, 1, 1}, {0, 1, 1, 1, 2, 0}};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
            for (int op = 0; op < TDM_OP_COUNT; op++)
                if (tdmi_op_check((tdm_dtype)dtype, (tdm_op)op, "test", "native") == TDM_OK)
                    check_collective(&tdmi_hierarchical, TDMI_COLL_ALLREDUCE, (tdm_dtype)dtype, (tdm_op)op, 6, 4999,
                                     (check_options){.in_place = op % 2 == 0, .exact = false, .node = nodes[i], .seed = 1});
}

static void long_buffers_go_through_stage_in_segments(void **state)
{
    (void)state;
    static const int even[] = {0, 0, 1, 1}, odd[] = {0, 0, 0, 1, 1};
    for (int races = 0; races < 2; races++) {
        check_collective(&tdmi_hierarchical, TDMI_COLL_ALLREDUCE, TDM_F64, TDM_SUM, 4, 300001,
                         (check_options){.node = even, .races = races == 1, .seed = 2});
        check_collective(&tdmi_hierarchical, TDMI_COLL_BROADCAST, TDM_F64, TDM_SUM, 4, 300001,
                         (check_options){.node = even, .races = races == 1, .seed = 3});
        check_collective(&tdmi_hierarchical, TDMI_COLL_ALLREDUCE, TDM_F32, TDM_SUM, 5, 200001,
                         (check_options){.node = odd, .races = races == 1, .seed = 4, .in_place = true});
    }
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

/* Elements that leave `from_node` for `to_node`. */
static size_t crossing(tdmi_coll coll, const int *node, int n, size_t count, int from_node, int to_node)
{
    const tdmi_call call = {.coll = coll, .dtype = TDM_F32, .op = TDM_SUM, .root = coll == TDMI_COLL_BROADCAST ? 0 : -1, .count = count};
    tdmi_steps list = {0};
    size_t sum = 0;
    for (int rank = 0; rank < n; rank++) {
        tdmi_steps_clear(&list);
        tdmi_hierarchical.steps(&list, &call, &(tdmi_topology){.rank = rank, .n = n, .node = node});
        for (size_t i = 0; i < list.count; i++) {
            const tdmi_step *step = &list.step[i];
            if ((step->kind == TDMI_STEP_EXCHANGE || step->kind == TDMI_STEP_EXCHANGE_REDUCE) && step->to >= 0)
                sum += node[rank] == from_node && node[step->to] == to_node ? step->src.count : 0;
        }
    }
    tdmi_steps_free(&list);
    return sum;
}

static void the_link_between_two_nodes_carries_one_copy(void **state)
{
    (void)state;
    static const int two[] = {0, 0, 1, 1}, eight[] = {0, 0, 0, 0, 1, 1, 1, 1}, uneven[] = {0, 0, 0, 0, 1, 1};
    const size_t count = 100000;
    assert_int_equal(crossing(TDMI_COLL_ALLREDUCE, two, 4, count, 0, 1), count);
    assert_int_equal(crossing(TDMI_COLL_ALLREDUCE, two, 4, count, 1, 0), count);
    assert_int_equal(crossing(TDMI_COLL_ALLREDUCE, eight, 8, count, 0, 1), count);
    assert_int_equal(crossing(TDMI_COLL_ALLREDUCE, uneven, 6, count, 1, 0), count);
    assert_int_equal(crossing(TDMI_COLL_BROADCAST, eight, 8, count, 0, 1), count);
    assert_int_equal(crossing(TDMI_COLL_BROADCAST, eight, 8, count, 1, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_canonical_on_nodes_of_any_shape),
        cmocka_unit_test(every_type_and_operation_is_right),
        cmocka_unit_test(long_buffers_go_through_stage_in_segments),
        cmocka_unit_test(other_algorithms_go_between_the_nodes),
        cmocka_unit_test(the_link_between_two_nodes_carries_one_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
