/* test_gpt2.c - GPT-2: its graph, its first weights, its files. */
#include "models/gpt2.h"
#include "passes/passes.h"
#include "weights.h"

#include <stdio.h>

static tdmi_model_config preset(const char *name)
{
    tdmi_model_config c;
    assert_int_equal(tdmi_model_preset_find(&tdmi_gpt2, name, &c), TDM_OK);
    return c;
}

static size_t parameters_of(const char *name)
{
    const tdmi_model_config c = preset(name);
    tdmi_graph *g = tdmi_gpt2.build(&c, 1, TDMI_BUILD_LOSS, true);
    assert_int_equal(tdmi_graph_status(g), TDM_OK);
    const size_t count = tdmi_graph_parameter_count(g);
    tdmi_graph_destroy(g);
    return count;
}

static void the_tied_matrix_is_counted_once(void **state)
{
    (void)state;
    assert_int_equal(parameters_of("gpt2"), 124439808);
    assert_int_equal(parameters_of("gpt2-medium"), 354823168);
    assert_int_equal(parameters_of("gpt2-large"), 774030080);
    assert_int_equal(parameters_of("gpt2-xl"), 1557611200);
    assert_int_equal(parameters_of("bytes"), 3487232);
}

static void initial_weights_are_pytorchs(void **state)
{
    (void)state;
    weights_compare(&tdmi_gpt2, &golden_gpt2);
    weights_compare(&tdmi_gpt2, &golden_gpt2_tiny);
}

static tdm_status stop_at_third(void *arg, const char *name, const float *values, size_t count)
{
    (void)name, (void)values, (void)count;
    return ++*(int *)arg == 3 ? tdmi_fail(TDM_ERR_NO_SPACE, "enough") : TDM_OK;
}

static void an_error_of_the_taker_ends_initialisation(void **state)
{
    (void)state;
    int taken = 0;
    assert_int_equal(tdmi_gpt2.init(&golden_gpt2.config, 0, NULL, 0, stop_at_third, &taken), TDM_ERR_NO_SPACE);
    assert_int_equal(taken, 3);
    assert_string_equal(tdm_error_text(), "enough");
    const tdmi_model_config bad = {.layers = 1};
    assert_int_equal(tdmi_gpt2.init(&bad, 0, NULL, 0, stop_at_third, &taken), TDM_ERR_INVALID);
}

static void decay_applies_to_matrices_and_embeddings_only(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_gpt2.build(&golden_gpt2.config, 2, TDMI_BUILD_LOSS, true);
    for (int t = 0; t < g->tensor_count; t++)
        if (g->tensor[t].role == TDMI_ROLE_PARAMETER)
            assert_int_equal(g->tensor[t].decay, g->tensor[t].shape.ndim == 2);
    tdmi_graph_destroy(g);
}

static int masks_of(const tdmi_model_config *c, tdmi_build_kind kind, bool training)
{
    tdmi_graph *g = tdmi_gpt2.build(c, 2, kind, training);
    assert_int_equal(tdmi_graph_status(g), TDM_OK);
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->node[i].op == TDMI_OP_DRAW_MASK;
    tdmi_graph_destroy(g);
    return count;
}

static void dropout_follows_the_embedding_and_each_branch_in_training_only(void **state)
{
    (void)state;
    tdmi_model_config c = golden_gpt2.config;
    assert_int_equal(masks_of(&c, TDMI_BUILD_LOSS, true), 0);
    c.dropout = 0.1;
    assert_int_equal(masks_of(&c, TDMI_BUILD_LOSS, true), 1 + 2 * c.layers);
    assert_int_equal(masks_of(&c, TDMI_BUILD_LOSS, false), 0);
    assert_int_equal(masks_of(&c, TDMI_BUILD_LOGITS, true), 0);
}

static void logits_are_an_output_of_a_graph_without_targets(void **state)
{
    (void)state;
    const tdmi_model_config *c = &golden_gpt2.config;
    tdmi_graph *g = tdmi_gpt2.build(c, 1, TDMI_BUILD_LOGITS, false);
    const tdmi_id logits = tdmi_graph_find(g, "logits");
    assert_int_equal(g->tensor[logits].role, TDMI_ROLE_OUTPUT);
    assert_int_equal(g->tensor[logits].shape.dims[1], c->seq);
    assert_int_equal(g->tensor[logits].shape.dims[2], c->vocab);
    assert_int_equal(tdmi_graph_find(g, "targets"), -1);
    assert_int_equal(g->loss, -1);
    const tdmi_pipeline_options options = {.train = false};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    tdmi_graph_destroy(g);
    assert_int_equal(tdmi_gpt2.targets(c), c->seq);
}

static void sizes_out_of_bounds_are_named(void **state)
{
    (void)state;
    const tdmi_model_config good = golden_gpt2.config;
    tdmi_model_config c = good;
    c.width = 25;
    expect_build_error(&tdmi_gpt2, c, 1, "gpt2: width 25 is not divisible by heads 3");
    c = good, c.layers = 0;
    expect_build_error(&tdmi_gpt2, c, 1, "gpt2: layers is 0, expected 1 to 1024");
    c = good, c.layers = 2000000000;
    expect_build_error(&tdmi_gpt2, c, 1, "layers is 2000000000");
    c = good, c.heads = -1;
    expect_build_error(&tdmi_gpt2, c, 1, "heads is -1");
    c = good, c.vocab = 1 << 30;
    expect_build_error(&tdmi_gpt2, c, 1, "vocab is 1073741824, expected 1 to 16777216");
    c = good, c.seq = 41;
    expect_build_error(&tdmi_gpt2, c, 1, "seq 41 is longer than the 40 positions");
    c = good, c.dropout = 1;
    expect_build_error(&tdmi_gpt2, c, 1, "dropout is 1, expected at least 0 and less than 1");
    c = good, c.dropout = -0.5;
    expect_build_error(&tdmi_gpt2, c, 1, "dropout is -0.5");
    expect_build_error(&tdmi_gpt2, good, 0, "batch is 0, expected at least 1");
    c = good, c.vocab = 1 << 24, c.seq = c.positions = 1 << 20; /* each is in bounds, the logits are not */
    expect_build_error(&tdmi_gpt2, c, 1 << 16, "it is larger than 256 TiB");
}

static void hugging_face_holds_four_matrices_transposed(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_gpt2.build(&golden_gpt2.config, 1, TDMI_BUILD_LOSS, true);
    int count = 0;
    for (int t = 0; t < g->tensor_count; t++)
        if (g->tensor[t].role == TDMI_ROLE_PARAMETER && tdmi_gpt2.transposed(g->tensor[t].name)) {
            assert_int_equal(g->tensor[t].shape.ndim, 2);
            count++;
        }
    assert_int_equal(count, 4 * golden_gpt2.config.layers);
    assert_true(tdmi_gpt2.transposed("h.11.mlp.c_fc.weight"));
    assert_false(tdmi_gpt2.transposed("wte.weight"));
    assert_false(tdmi_gpt2.transposed("h.0.attn.c_attn.bias"));
    tdmi_graph_destroy(g);
}

static void config_json_reads_back_as_written(void **state)
{
    (void)state;
    tdmi_model_config c = golden_gpt2.config, back = {0};
    c.dropout = 0.1;
    char *json = tdmi_gpt2.config_json(&c);
    assert_int_equal(tdmi_gpt2.config_parse(json, &back), TDM_OK);
    assert_memory_equal(&c, &back, sizeof c);
    tdmi_free(json);
}

static void a_config_of_hugging_face_is_understood(void **state)
{
    (void)state;
    tdmi_model_config c;
    assert_int_equal(tdmi_gpt2.config_parse("{\"model_type\": \"gpt2\", \"n_layer\": 12, \"n_embd\": 768, \"n_head\": 12, "
                                            "\"n_positions\": 1024, \"n_inner\": null, \"vocab_size\": 50257, "
                                            "\"resid_pdrop\": 0.1, \"task_specific_params\": {\"a\": [1]}}", &c), TDM_OK);
    assert_int_equal(c.seq, 1024);
    assert_int_equal(c.positions, 1024);
    assert_int_equal(c.layers, 12);
    assert_true(c.dropout == 0.1);
}

#define CONFIG(MORE) "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 8, \"n_positions\": 16, \"vocab_size\": 9" MORE "}"

static void a_config_of_something_else_is_refused_with_the_reason(void **state)
{
    (void)state;
    const struct {
        const char *json, *text;
    } bad[] = {
        {"", "config.json, line"},
        {"[1, 2]", "config.json holds no JSON object"},
        {"{\"model_type\": \"gpt2\"", "config.json, line 1"},
        {"{}", "config.json is of model_type \"\", expected \"gpt2\""},
        {"{\"model_type\": \"llama\"}", "config.json is of model_type \"llama\", expected \"gpt2\""},
        {CONFIG(""), "config.json has no n_head (heads)"},
        {CONFIG(", \"n_head\": \"2\""), "n_head of config.json is no whole number"},
        {CONFIG(", \"n_head\": 2.5"), "n_head of config.json is no whole number"},
        {CONFIG(", \"n_head\": 0"), "n_head of config.json is 0, expected 1 to 65536"},
        {CONFIG(", \"n_head\": 4294967298"), "n_head of config.json is 4294967298"},
        {CONFIG(", \"n_head\": 3"), "config.json: width 8 is not divisible by heads 3"},
        {CONFIG(", \"n_head\": 2, \"n_ctx\": 17"), "config.json: seq 17 is longer than the 16 positions"},
        {CONFIG(", \"n_head\": 2, \"activation_function\": \"relu\""), "activation_function of config.json is \"relu\""},
        {CONFIG(", \"n_head\": 2, \"layer_norm_epsilon\": 1e-6"), "layer_norm_epsilon of config.json is 1e-06"},
        {CONFIG(", \"n_head\": 2, \"n_inner\": 31"), "n_inner of config.json is 31; only 4 x n_embd = 32 exists"},
        {CONFIG(", \"n_head\": 2, \"tie_word_embeddings\": false"), "untied embeddings"},
        {CONFIG(", \"n_head\": 2, \"resid_pdrop\": 1.5"), "dropout is 1.5"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_config_error(&tdmi_gpt2, bad[i].json, bad[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tied_matrix_is_counted_once),
        cmocka_unit_test(initial_weights_are_pytorchs),
        cmocka_unit_test(an_error_of_the_taker_ends_initialisation),
        cmocka_unit_test(decay_applies_to_matrices_and_embeddings_only),
        cmocka_unit_test(dropout_follows_the_embedding_and_each_branch_in_training_only),
        cmocka_unit_test(logits_are_an_output_of_a_graph_without_targets),
        cmocka_unit_test(sizes_out_of_bounds_are_named),
        cmocka_unit_test(hugging_face_holds_four_matrices_transposed),
        cmocka_unit_test(config_json_reads_back_as_written),
        cmocka_unit_test(a_config_of_hugging_face_is_understood),
        cmocka_unit_test(a_config_of_something_else_is_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
