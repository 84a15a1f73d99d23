/* test_pieces.c - what buckets hold, whole rows and the ends of rows that a cut leaves. */
#include "core/memory.h"
#include "graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Rows of 5, 7 of them, cut at elements 16 and 32 of the buckets' memory: they begin at 3. And a vector in front and behind. */
static void cuts_leave_whole_rows_and_ends(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_graph_create("cut");
    const tdmi_id front = tdmi_graph_parameter(g, "front", 1, (const int64_t[]){3}, false);
    const tdmi_id matrix = tdmi_graph_parameter(g, "matrix", 2, (const int64_t[]){7, 5}, true);
    const tdmi_id behind = tdmi_graph_parameter(g, "behind", 1, (const int64_t[]){4}, false);
    g->bucket = tdmi_calloc(3, sizeof *g->bucket, "graph");
    g->bucket_count = 3;
    for (int b = 0; b < 3; b++)
        g->bucket[b] = (tdmi_bucket){.count = 16, .joined = b > 0};
    const struct {
        tdmi_id t;
        int bucket;
        size_t offset;
    } places[] = {{front, 0, 0}, {matrix, 0, 3}, {behind, 2, 8}};
    for (int i = 0; i < 3; i++) {
        g->tensor[places[i].t].bucket = places[i].bucket;
        g->tensor[places[i].t].offset = places[i].offset;
    }
    const tdmi_piece expected[3][4] = {
        {{front, 0, 0, 3, 0}, {matrix, 0, 3, 10, 2}, {matrix, 10, 13, 3, 0}},
        {{matrix, 13, 0, 2, 0}, {matrix, 15, 2, 10, 2}, {matrix, 25, 12, 4, 0}},
        {{matrix, 29, 0, 1, 0}, {matrix, 30, 1, 5, 1}, {behind, 0, 8, 4, 0}},
    };
    tdmi_piece found[32];
    assert_true(TDMI_PIECES_MAX(g) <= 32);
    for (int b = 0; b < 3; b++) {
        assert_int_equal(tdmi_graph_pieces(g, b, found), 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(found[i].parameter, expected[b][i].parameter);
            assert_int_equal(found[i].within, expected[b][i].within);
            assert_int_equal(found[i].first, expected[b][i].first);
            assert_int_equal(found[i].count, expected[b][i].count);
            assert_int_equal(found[i].rows, expected[b][i].rows);
        }
    }
    tdmi_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_leave_whole_rows_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
