/* test_amp.c - which tensors become narrow, where casts are put, and what autodiff makes of it. */
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const tdmi_pipeline_options bf16 = {.train = true, .precision = TDM_BF16, .world_size = 1},
                                   f16 = {.train = true, .precision = TDM_F16, .world_size = 1};

static tdm_dtype type_of(const tdmi_graph *g, const char *name)
{
    const tdmi_id t = tdmi_graph_find(g, name);
    if (t < 0)
        fail_msg("there is no %s", name);
    return g->tensor[t].shape.dtype;
}

static int count_of(const tdmi_graph *g, tdmi_op op)
{
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->node[i].op == op;
    return count;
}

/* norm_is_added: the layernorm's result is also a summand, so it may not be narrow. */
static tdmi_graph *block(bool norm_is_added)
{
    tdmi_graph *g = tdmi_graph_create("block");
    const tdmi_id tokens = tdmi_graph_input(g, "tokens", TDM_I32, 2, (const int64_t[]){2, 3});
    const tdmi_id targets = tdmi_graph_input(g, "targets", TDM_I32, 2, (const int64_t[]){2, 3});
    const tdmi_id wte = tdmi_graph_parameter(g, "wte", 2, (const int64_t[]){7, 4}, true);
    const tdmi_id w = tdmi_graph_parameter(g, "w", 2, (const int64_t[]){4, 4}, true);
    const tdmi_id b = tdmi_graph_parameter(g, "b", 1, (const int64_t[]){4}, false);
    const tdmi_id s = tdmi_graph_parameter(g, "s", 1, (const int64_t[]){4}, false);
    const tdmi_id x = tdmi_embedding(g, "embedding", tokens, wte, -1);
    const tdmi_id norm = tdmi_layernorm(g, "norm", x, s, b, 1e-5f);
    const tdmi_id y = tdmi_gelu(g, "gelu", tdmi_linear(g, "linear", norm, w, b));
    const tdmi_id sum = tdmi_residual(g, "sum", y, norm_is_added ? norm : x); /* the branch comes first here */
    (void)tdmi_cross_entropy(g, "loss", tdmi_linear(g, "logits", sum, wte, -1), targets);
    assert_int_equal(tdmi_graph_status(g), TDM_OK);
    return g;
}

static void products_are_narrow_and_the_stream_is_not(void **state)
{
    (void)state;
    tdmi_graph *g = block(false);
    assert_int_equal(tdmi_pass_amp(g, &bf16), TDM_OK);
    assert_int_equal(tdmi_graph_verify(g), TDM_OK);
    static const char *const narrow[] = {"norm", "linear", "gelu", "logits", "w.bf16", "wte.bf16", "sum.bf16"};
    static const char *const wide[] = {"embedding", "sum", "loss", "w", "wte", "b", "s", "norm.mean", "norm.rstd"};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        assert_int_equal(type_of(g, narrow[i]), TDM_BF16);
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        assert_int_equal(type_of(g, wide[i]), TDM_F32);
    assert_int_equal(g->tensor[tdmi_graph_find(g, "w.bf16")].role, TDMI_ROLE_COPY);
    assert_int_equal(count_of(g, TDMI_OP_CAST), 1); /* of the sum, for the logits */
    tdmi_graph_destroy(g);
}

static void a_norm_that_is_added_stays_wide(void **state)
{
    (void)state;
    tdmi_graph *g = block(true);
    assert_int_equal(tdmi_pass_amp(g, &bf16), TDM_OK);
    assert_int_equal(tdmi_graph_verify(g), TDM_OK);
    assert_int_equal(type_of(g, "norm"), TDM_F32);
    assert_int_equal(type_of(g, "norm.bf16"), TDM_BF16);
    assert_int_equal(count_of(g, TDMI_OP_CAST), 2);
    tdmi_graph_destroy(g);
}

static void gradients_have_the_type_of_what_they_are_of(void **state)
{
    (void)state;
    for (int added = 0; added < 2; added++)
        for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
            tdmi_graph *g = block(added);
            tdmi_pipeline_options options = f16;
            options.micro_batches = micro_batches;
            assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK); /* verify asks for the types of op.h */
            assert_int_equal(g->gradient_type, micro_batches > 1 ? TDM_F32 : TDM_F16);
            for (int t = 0; t < g->tensor_count; t++)
                if (g->tensor[t].role == TDMI_ROLE_GRADIENT)
                    assert_int_equal(g->tensor[t].shape.dtype, g->gradient_type);
            assert_true(tdmi_graph_find(g, TDMI_LOSS_SCALE) >= 0);
            assert_int_equal(count_of(g, TDMI_OP_UPDATE), g->bucket_count); /* they wait for the verdict */
            tdmi_graph_destroy(g);
        }
}

static void what_the_caller_reads_stays_float32(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_graph_create("logits");
    const tdmi_id x = tdmi_graph_input(g, "x", TDM_F32, 2, (const int64_t[]){2, 4});
    const tdmi_id w = tdmi_graph_parameter(g, "w", 2, (const int64_t[]){4, 4}, true);
    const tdmi_id hidden = tdmi_linear(g, "hidden", x, w, -1);
    tdmi_graph_output(g, tdmi_linear(g, "logits", hidden, w, -1));
    const tdmi_pipeline_options options = {.precision = TDM_BF16, .world_size = 1};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    assert_int_equal(type_of(g, "hidden"), TDM_BF16);
    assert_int_equal(type_of(g, "logits"), TDM_F32);
    assert_int_equal(g->gradient_type, TDM_F32);
    tdmi_graph_destroy(g);
}

static void a_precision_that_does_not_exist_is_named(void **state)
{
    (void)state;
    tdmi_graph *g = block(false);
    const tdmi_pipeline_options options = {.train = true, .precision = TDM_I8, .world_size = 1};
    assert_int_equal(tdmi_pass_amp(g, &options), TDM_ERR_UNSUPPORTED);
    assert_non_null(strstr(tdm_error_text(), "precision int8 does not exist"));
    tdmi_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_narrow_and_the_stream_is_not),
        cmocka_unit_test(a_norm_that_is_added_stays_wide),
        cmocka_unit_test(gradients_have_the_type_of_what_they_are_of),
        cmocka_unit_test(what_the_caller_reads_stays_float32),
        cmocka_unit_test(a_precision_that_does_not_exist_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
