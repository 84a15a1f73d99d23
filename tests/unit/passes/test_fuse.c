/* test_fuse.c - which pairs of nodes become one, and which must not. */
#include "passes/passes.h"
#include "models/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static int count_of(const tdmi_graph *g, tdmi_op op)
{
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->node[i].op == op;
    return count;
}

static tdmi_graph *gpt(tdm_dtype precision)
{
    const tdmi_model_config config = {.layers = 3, .width = 32, .heads = 2, .seq = 16, .vocab = 61, .positions = 16};
    tdmi_graph *g = tdmi_model_find("gpt2")->build(&config, 2, TDMI_BUILD_LOSS, true);
    const tdmi_pipeline_options options = {.train = true, .precision = precision, .world_size = 1, .clip = true, .shard = 1};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    return g;
}

static void a_block_of_gpt_has_its_pairs_fused(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        tdmi_graph *g = gpt(half ? TDM_BF16 : TDM_F32);
        assert_int_equal(count_of(g, TDMI_OP_LINEAR_GELU), 3);
        assert_int_equal(count_of(g, TDMI_OP_GELU), 0);
        assert_int_equal(count_of(g, TDMI_OP_LINEAR_BACKWARD_INPUT_GELU), 3);
        assert_int_equal(count_of(g, TDMI_OP_GELU_BACKWARD), 0);
        assert_int_equal(count_of(g, TDMI_OP_RESIDUAL_LAYERNORM), 6); /* two a block: its second norm, the next one's first, the last */
        assert_int_equal(count_of(g, TDMI_OP_RESIDUAL), 0);
        assert_int_equal(count_of(g, TDMI_OP_LAYERNORM), 1); /* of the embedding */
        assert_int_equal(count_of(g, TDMI_OP_CAST), 0);      /* gradients of the stream become narrow where they are made */
        tdmi_graph_destroy(g);
    }
}

/* The gelu's gradient and a residual's meet in one tensor: an addition lies between the product and what could be fused. */
static void a_gradient_with_another_reader_stays(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_graph_create("two readers");
    const tdmi_id tokens = tdmi_graph_input(g, "tokens", TDM_I32, 2, (const int64_t[]){2, 3});
    const tdmi_id targets = tdmi_graph_input(g, "targets", TDM_I32, 2, (const int64_t[]){2, 3});
    const tdmi_id wte = tdmi_graph_parameter(g, "wte", 2, (const int64_t[]){7, 4}, true);
    const tdmi_id w = tdmi_graph_parameter(g, "w", 2, (const int64_t[]){4, 4}, true);
    const tdmi_id x = tdmi_linear(g, "x", tdmi_embedding(g, "embedding", tokens, wte, -1), w, -1);
    const tdmi_id gelu = tdmi_gelu(g, "gelu", x);
    const tdmi_id sum = tdmi_residual(g, "sum", gelu, tdmi_linear(g, "branch", gelu, w, -1));
    (void)tdmi_cross_entropy(g, "loss", tdmi_linear(g, "logits", sum, wte, -1), targets);
    const tdmi_pipeline_options options = {.train = true, .world_size = 1, .clip = true, .shard = 1};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    assert_int_equal(count_of(g, TDMI_OP_LINEAR_GELU), 1);
    assert_int_equal(count_of(g, TDMI_OP_LINEAR_BACKWARD_INPUT_GELU), 0);
    assert_int_equal(count_of(g, TDMI_OP_GELU_BACKWARD), 1);
    tdmi_graph_destroy(g);
}

static void unfused_means_unfused(void **state)
{
    (void)state;
    const tdmi_model_config config = {.layers = 1, .width = 32, .heads = 2, .seq = 16, .vocab = 61, .positions = 16};
    tdmi_graph *g = tdmi_model_find("gpt2")->build(&config, 2, TDMI_BUILD_LOSS, true);
    const tdmi_pipeline_options options = {.train = true, .unfused = true, .world_size = 1, .clip = true, .shard = 1};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    assert_int_equal(count_of(g, TDMI_OP_LINEAR_GELU) + count_of(g, TDMI_OP_RESIDUAL_LAYERNORM), 0);
    tdmi_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_of_gpt_has_its_pairs_fused),
        cmocka_unit_test(a_gradient_with_another_reader_stays),
        cmocka_unit_test(unfused_means_unfused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
