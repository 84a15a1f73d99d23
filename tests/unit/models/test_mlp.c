/* test_mlp.c - the model without attention: its graph, its first weights, its files. */
#include "models/mlp.h"
#include "passes/passes.h"
#include "weights.h"

static void initial_weights_are_pytorchs(void **state)
{
    (void)state;
    weights_compare(&tdmi_mlp, &golden_mlp);
}

static void a_window_is_laid_side_by_side_and_has_one_target(void **state)
{
    (void)state;
    const tdmi_model_config *c = &golden_mlp.config;
    tdmi_graph *g = tdmi_mlp.build(c, 4, TDMI_BUILD_LOSS, true);
    assert_int_equal(tdmi_graph_status(g), TDM_OK);
    const tdmi_tensor *w = &g->tensor[tdmi_graph_find(g, "hidden.0.weight")], *y = &g->tensor[tdmi_graph_find(g, "targets")];
    assert_int_equal(w->shape.dims[0], c->width);
    assert_int_equal(w->shape.dims[1], c->seq * c->width);
    assert_int_equal(y->shape.ndim, 1);
    assert_int_equal(y->shape.dims[0], 4);
    assert_int_equal(tdmi_mlp.targets(c), 1);
    const tdmi_pipeline_options options = {.train = true, .world_size = 3, .shard = 1};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    tdmi_graph_destroy(g);
}

static void logits_are_one_row_a_window(void **state)
{
    (void)state;
    const tdmi_model_config *c = &golden_mlp.config;
    tdmi_graph *g = tdmi_mlp.build(c, 2, TDMI_BUILD_LOGITS, false);
    const tdmi_tensor *logits = &g->tensor[tdmi_graph_find(g, "logits")];
    assert_int_equal(logits->role, TDMI_ROLE_OUTPUT);
    assert_int_equal(logits->shape.ndim, 2);
    assert_int_equal(logits->shape.dims[0], 2);
    assert_int_equal(logits->shape.dims[1], c->vocab);
    tdmi_graph_destroy(g);
}

static void sizes_it_has_no_use_for_are_errors(void **state)
{
    (void)state;
    tdmi_model_config c = golden_mlp.config;
    c.heads = 4;
    expect_build_error(&tdmi_mlp, c, 1, "mlp: heads is 4, but this model has none");
    c = golden_mlp.config, c.seq = -1;
    expect_build_error(&tdmi_mlp, c, 1, "mlp: seq is -1, expected 1 to 4096");
    expect_build_error(&tdmi_mlp, golden_mlp.config, -3, "mlp: batch is -3");
}

static void dropout_follows_each_hidden_layer_in_training_only(void **state)
{
    (void)state;
    tdmi_model_config c = golden_mlp.config;
    c.dropout = 0.2;
    for (int training = 0; training < 2; training++) {
        tdmi_graph *g = tdmi_mlp.build(&c, 2, TDMI_BUILD_LOSS, training);
        int masks = 0;
        for (int i = 0; i < g->node_count; i++)
            masks += g->node[i].op == TDMI_OP_DRAW_MASK;
        assert_int_equal(masks, training ? c.layers : 0);
        tdmi_graph_destroy(g);
    }
}

static void config_json_reads_back_as_written_and_nothing_else_does(void **state)
{
    (void)state;
    tdmi_model_config c = golden_mlp.config, back = {0};
    c.dropout = 0.25;
    char *json = tdmi_mlp.config_json(&c);
    assert_int_equal(tdmi_mlp.config_parse(json, &back), TDM_OK);
    assert_memory_equal(&c, &back, sizeof c);
    tdmi_free(json);
    expect_config_error(&tdmi_mlp, "{\"model_type\": \"gpt2\"}", "model_type \"gpt2\", expected \"mlp\"");
    expect_config_error(&tdmi_mlp, "{\"model_type\": \"mlp\", \"layers\": 2}", "config.json has no width (width)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_weights_are_pytorchs),
        cmocka_unit_test(a_window_is_laid_side_by_side_and_has_one_target),
        cmocka_unit_test(logits_are_one_row_a_window),
        cmocka_unit_test(sizes_it_has_no_use_for_are_errors),
        cmocka_unit_test(dropout_follows_each_hidden_layer_in_training_only),
        cmocka_unit_test(config_json_reads_back_as_written_and_nothing_else_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
