/* test_build.c - builders infer shapes, and say what is wrong with an operand. */
#include "core/memory.h"
#include "graph/text.h"
#include "small.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void expect_error(tdmi_graph *g, const char *text)
{
    assert_int_equal(tdmi_graph_status(g), TDM_ERR_INVALID);
    if (strstr(tdm_error_text(), text) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", text, tdm_error_text());
    tdmi_graph_destroy(g);
}

static void shapes_are_inferred_and_each_output_is_named(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0.1f);
    assert_int_equal(tdmi_graph_status(g), TDM_OK);
    assert_int_equal(tdmi_graph_verify(g), TDM_OK);
    const struct {
        const char *name, *shape;
    } expected[] = {
        {"embedding", "float32[2,4,8]"}, {"ln", "float32[2,4,8]"},         {"ln.mean", "float32[2,4]"},
        {"qkv", "float32[2,4,24]"},      {"attention", "float32[2,4,8]"}, {"attention.lse", "float32[2,2,4]"},
        {"drop.mask", "uint8[2,4,8]"},   {"gelu", "float32[2,4,16]"},      {"head", "float32[2,4,11]"},
        {"loss", "float32[1]"},          {"loss.lse", "float32[2,4]"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char text[TDMI_SHAPE_TEXT_MAX];
        const tdmi_id t = tdmi_graph_find(g, expected[i].name);
        assert_true(t >= 0);
        assert_string_equal(tdmi_shape_text(&g->tensor[t].shape, text), expected[i].shape);
    }
    assert_int_equal(g->tensor[g->loss].role, TDMI_ROLE_OUTPUT);
    tdmi_graph_destroy(g);
}

static void a_parameter_used_twice_is_counted_once(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    const size_t linears = 24 * 8 + 24 + 16 * 8 + 16 + 8 * 16;
    assert_int_equal(tdmi_graph_parameter_count(g), 11 * 8 + 6 * 8 + 8 + 8 + linears);
    tdmi_graph_destroy(g);
}

static void dropout_of_zero_is_no_node_and_each_mask_draws_its_own_numbers(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    for (int i = 0; i < g->node_count; i++)
        assert_true(g->node[i].op != TDMI_OP_DRAW_MASK && g->node[i].op != TDMI_OP_DROPOUT);
    tdmi_graph_destroy(g);

    g = small_graph(0.5f);
    uint64_t counter = 0;
    for (int i = 0; i < g->node_count; i++)
        if (g->node[i].op == TDMI_OP_DRAW_MASK)
            assert_int_equal(g->node[i].attr.counter, counter++);
    assert_int_equal(counter, 2);
    tdmi_graph_destroy(g);
}

static tdmi_graph *with_rows(int64_t columns, tdmi_id *x)
{
    tdmi_graph *g = tdmi_graph_create("rows");
    const int64_t window[2] = {2, 3};
    const tdmi_id tokens = tdmi_graph_input(g, "tokens", TDM_I32, 2, window);
    *x = tdmi_embedding(g, "embedding", tokens, small_parameter(g, "wte", 5, columns), -1);
    return g;
}

static void a_linear_of_another_width_names_both(void **state)
{
    (void)state;
    tdmi_id x;
    tdmi_graph *g = with_rows(8, &x);
    (void)tdmi_linear(g, "h.0.mlp.c_fc", x, small_parameter(g, "w", 32, 7), -1);
    expect_error(g, "linear h.0.mlp.c_fc: w must be [O,I] of x's type, with I the last dimension of x and O that of y "
                    "(x float32[2,3,8], w float32[32,7])");
}

static void the_first_error_stays_and_later_calls_do_nothing(void **state)
{
    (void)state;
    tdmi_id x;
    tdmi_graph *g = with_rows(8, &x);
    assert_int_equal(tdmi_attention(g, "attention", x, 0), -1);
    const int nodes = g->node_count, tensors = g->tensor_count;
    assert_int_equal(tdmi_gelu(g, "gelu", x), -1);
    assert_int_equal(tdmi_residual(g, "sum", -1, -1), -1);
    assert_int_equal(small_parameter(g, "another", 1, 1), -1);
    assert_int_equal(g->node_count, nodes);
    assert_int_equal(g->tensor_count, tensors);
    expect_error(g, "attention attention");
}

static void a_width_that_heads_do_not_divide_is_named(void **state)
{
    (void)state;
    tdmi_id x;
    tdmi_graph *g = with_rows(30, &x);
    (void)tdmi_attention(g, "h.0.attn", x, 4);
    expect_error(g, "attention h.0.attn: the width 10 is not divisible by 4 heads");
}

static void positions_must_cover_the_window(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_graph_create("positions");
    const int64_t window[2] = {2, 7};
    const tdmi_id tokens = tdmi_graph_input(g, "tokens", TDM_I32, 2, window);
    (void)tdmi_embedding(g, "embedding", tokens, small_parameter(g, "wte", 5, 8), small_parameter(g, "wpe", 6, 8));
    expect_error(g, "wpe must have at least T rows (positions) (tokens int32[2,7], wte float32[5,8], wpe float32[6,8])");
}

static void sizes_that_are_huge_or_not_positive_are_errors(void **state)
{
    (void)state;
    const struct {
        int ndim;
        int64_t dims[4];
        const char *text;
    } bad[] = {
        {2, {4, 0}, "w has the shape float32[4,0]: each dimension must be 1 or more"},
        {2, {-4, 4}, "each dimension must be 1 or more"},
        {2, {(int64_t)1 << 40, (int64_t)1 << 40}, "it is larger than 256 TiB"},
        {1, {INT64_MAX}, "it is larger than 256 TiB"},
        {5, {1, 1, 1, 1}, "0 to 4 dimensions"},
        {-1, {1}, "0 to 4 dimensions"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tdmi_graph *g = tdmi_graph_create("sizes");
        (void)tdmi_graph_parameter(g, "w", bad[i].ndim, bad[i].dims, true);
        expect_error(g, bad[i].text);
    }
    tdmi_graph *g = tdmi_graph_create("product"); /* each operand exists, the result does not */
    const int64_t window[2] = {1 << 22, 1 << 22};
    const tdmi_id tokens = tdmi_graph_input(g, "tokens", TDM_I32, 2, window);
    (void)tdmi_embedding(g, "embedding", tokens, small_parameter(g, "wte", 5, 1 << 20), -1);
    expect_error(g, "embedding embedding: it is larger than 256 TiB");
}

static void names_are_unique_and_fit(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_graph_create("names");
    (void)small_parameter(g, "w", 2, 2);
    (void)small_parameter(g, "w", 2, 2);
    expect_error(g, "graph names has two tensors named w");

    char longest[200];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    g = tdmi_graph_create("names");
    (void)small_parameter(g, longest, 2, 2);
    expect_error(g, "longer than");
    g = tdmi_graph_create("names");
    (void)small_parameter(g, "", 2, 2);
    expect_error(g, "is empty");
}

static void a_reshape_is_an_alias_of_as_many_elements(void **state)
{
    (void)state;
    tdmi_id x;
    tdmi_graph *g = with_rows(8, &x);
    const int nodes = g->node_count;
    const tdmi_id flat = tdmi_reshape(g, x, 2, (const int64_t[]){2, 24});
    assert_int_equal(g->tensor[flat].alias, x);
    assert_int_equal(tdmi_graph_root(g, flat), x);
    assert_int_equal(g->node_count, nodes);
    assert_int_equal(tdmi_graph_verify(g), TDM_OK);
    (void)tdmi_reshape(g, x, 2, (const int64_t[]){2, 25});
    expect_error(g, "float32[2,3,8] cannot be seen as float32[2,25]");
}

static void only_a_computed_tensor_can_be_an_output_and_only_one_loss_exists(void **state)
{
    (void)state;
    tdmi_id x;
    tdmi_graph *g = with_rows(8, &x);
    tdmi_graph_output(g, tdmi_graph_find(g, "wte"));
    expect_error(g, "wte cannot be an output of graph rows");

    g = small_graph(0);
    (void)tdmi_cross_entropy(g, "again", tdmi_graph_find(g, "head"), tdmi_graph_find(g, "targets"));
    expect_error(g, "again: graph small has a loss already, loss");
}

static void a_copy_shares_nothing(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0), *copy = tdmi_graph_copy(g);
    char *text = tdmi_graph_print(g), *same = tdmi_graph_print(copy);
    assert_string_equal(text, same);
    tdmi_free(same);
    (void)tdmi_gelu(g, "more", tdmi_graph_find(g, "head"));
    g->tensor[0].shape.dims[0] = 99;
    tdmi_graph_destroy(g);
    same = tdmi_graph_print(copy);
    assert_string_equal(text, same);
    assert_int_equal(tdmi_graph_verify(copy), TDM_OK);
    tdmi_free(same);
    tdmi_free(text);
    tdmi_graph_destroy(copy);
}

static void a_line_of_the_listing_tells_phase_op_label_and_shapes(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    char *text = tdmi_graph_print(g);
    assert_non_null(strstr(text, "graph small: 11 nodes, 640 parameters, 0 buckets"));
    assert_non_null(strstr(text, "forward       linear                 qkv x=ln float32[2,4,8] w=qkv.weight float32[24,8] "
                                 "b=qkv.bias float32[24] -> y=qkv float32[2,4,24]\n"));
    tdmi_free(text);
    tdmi_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_inferred_and_each_output_is_named),
        cmocka_unit_test(a_parameter_used_twice_is_counted_once),
        cmocka_unit_test(dropout_of_zero_is_no_node_and_each_mask_draws_its_own_numbers),
        cmocka_unit_test(a_linear_of_another_width_names_both),
        cmocka_unit_test(the_first_error_stays_and_later_calls_do_nothing),
        cmocka_unit_test(a_width_that_heads_do_not_divide_is_named),
        cmocka_unit_test(positions_must_cover_the_window),
        cmocka_unit_test(sizes_that_are_huge_or_not_positive_are_errors),
        cmocka_unit_test(names_are_unique_and_fit),
        cmocka_unit_test(a_reshape_is_an_alias_of_as_many_elements),
        cmocka_unit_test(only_a_computed_tensor_can_be_an_output_and_only_one_loss_exists),
        cmocka_unit_test(a_copy_shares_nothing),
        cmocka_unit_test(a_line_of_the_listing_tells_phase_op_label_and_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
