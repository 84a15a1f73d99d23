/* test_remat.c - which nodes are listed again, what that saves, and the cheapest set for a limit of memory. */
#include "../graph/small.h"
#include "core/memory.h"
#include "models/model.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const tdmi_cost cost = {.flops_per_s = 5e10, .bytes_per_s = 5e9, .alpha_s = 2e-5, .beta_s = 2e-10};

static tdmi_graph *gpt2(void)
{
    const tdmi_model *model = tdmi_model_find("gpt2");
    tdmi_model_config c;
    assert_int_equal(tdmi_model_preset_find(model, "bytes", &c), TDM_OK);
    c.dropout = 0.1;
    return model->build(&c, 4, TDMI_BUILD_LOSS, true);
}

static size_t memory_of(const tdmi_graph *g)
{
    return g->slab_nbytes + g->gradient_nbytes + 1000;
}

static tdm_status forecast(void *arg, const tdmi_graph *g, size_t *nbytes_out)
{
    (void)arg;
    *nbytes_out = memory_of(g);
    return TDM_OK;
}

static tdmi_pipeline_options with(int remat, size_t memory_nbytes)
{
    return (tdmi_pipeline_options){.train = true, .world_size = 2, .shard = 1, .clip = true, .remat = remat, .memory_nbytes = memory_nbytes,
                                   .memory_of = forecast, .cost = cost};
}

static tdmi_graph *made(int remat, size_t memory_nbytes)
{
    tdmi_graph *g = gpt2();
    const tdmi_pipeline_options options = with(remat, memory_nbytes);
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    return g;
}

static int again_of(const tdmi_graph *g, const char *block)
{
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->node[i].attr.again && strncmp(g->node[i].label, block, strlen(block)) == 0;
    return count;
}

static void blocks_keep_their_input_alone(void **state)
{
    (void)state;
    tdmi_graph *kept = made(0, 0), *again = made(1, 0), *second = made(2, 0);
    const size_t logits = tdmi_shape_nbytes(&kept->tensor[tdmi_graph_find(kept, "logits")].shape);
    assert_int_equal(again_of(kept, ""), 0);
    for (int layer = 0; layer < 4; layer++) {
        char block[8];
        snprintf(block, sizeof block, "h.%d.", layer);
        assert_int_equal(again_of(again, block), again_of(again, "h.0."));
        assert_int_equal(again_of(second, block), layer % 2 == 0 ? 0 : again_of(again, "h.0."));
    }
    assert_int_equal(again_of(again, "h."), again_of(again, "")); /* nothing outside */
    assert_true(again->slab_nbytes - logits < (kept->slab_nbytes - logits) / 2);
    assert_true(second->slab_nbytes < kept->slab_nbytes && second->slab_nbytes > again->slab_nbytes);
    tdmi_graph_destroy(kept);
    tdmi_graph_destroy(again);
    tdmi_graph_destroy(second);
}

/* What GPT-2 124M needs inside its blocks: of 146 MiB 10 stay. */
static void a_deep_model_keeps_less_than_a_fifth(void **state)
{
    (void)state;
    size_t slab[2];
    for (int remat = 0; remat < 2; remat++) {
        const tdmi_model *model = tdmi_model_find("gpt2");
        tdmi_model_config c;
        assert_int_equal(tdmi_model_preset_find(model, "gpt2", &c), TDM_OK);
        c.seq = 64;
        tdmi_graph *g = model->build(&c, 4, TDMI_BUILD_LOSS, true);
        const tdmi_pipeline_options options = with(remat, 0);
        assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
        slab[remat] = g->slab_nbytes - tdmi_shape_nbytes(&g->tensor[tdmi_graph_find(g, "logits")].shape);
        tdmi_graph_destroy(g);
    }
    assert_true(slab[1] * 5 < slab[0]);
}

/* Behind the forward nodes, each before the first that reads it, and never twice. */
static void nodes_are_listed_again_where_they_are_needed(void **state)
{
    (void)state;
    tdmi_graph *g = made(1, 0);
    int repeated = 0;
    for (int i = 0; i < g->node_count; i++) {
        const tdmi_node *n = &g->node[i];
        if (!n->attr.again)
            continue;
        assert_int_equal(n->phase, TDMI_PHASE_BACKWARD);
        bool is_read = false;
        for (int j = i + 1; j < g->node_count; j++) {
            for (int k = 0; k < g->node[j].in_count; k++)
                is_read = is_read || (g->node[j].in[k] >= 0 && g->tensor[g->node[j].in[k]].producer == i);
            repeated += g->node[j].attr.again && g->node[j].op == n->op && strcmp(g->node[j].label, n->label) == 0;
        }
        assert_true(is_read);
    }
    assert_int_equal(repeated, 0);
    tdmi_graph_destroy(g);
}

static void as_little_is_computed_again_as_a_limit_needs(void **state)
{
    (void)state;
    tdmi_graph *kept = made(0, 0), *all = made(1, 0);
    const size_t most = memory_of(kept), least = memory_of(all);
    double before_s = tdmi_cost_forecast(kept, &cost).computed_s;
    tdmi_graph *g = made(TDMI_REMAT_AUTO, most);
    assert_int_equal(again_of(g, ""), 0);
    tdmi_graph_destroy(g);
    for (int i = 1; i <= 8; i++) {
        const size_t limit = most - (most - least) * (size_t)i / 8;
        g = made(TDMI_REMAT_AUTO, limit);
        const double seconds = tdmi_cost_forecast(g, &cost).computed_s;
        assert_true(memory_of(g) <= limit);
        assert_true(seconds >= before_s); /* less memory takes longer, */
        assert_true(seconds <= tdmi_cost_forecast(all, &cost).computed_s * 1.0001); /* but never longer than all blocks */
        before_s = seconds;
        tdmi_graph_destroy(g);
    }
    g = made(TDMI_REMAT_AUTO, (most + least) / 2); /* half of it: the cheap ones */
    assert_true(again_of(g, "") > 0 && again_of(g, "") < again_of(all, ""));
    assert_true(tdmi_cost_forecast(g, &cost).computed_s < (tdmi_cost_forecast(kept, &cost).computed_s + tdmi_cost_forecast(all, &cost).computed_s) / 2);
    tdmi_graph_destroy(g);
    tdmi_graph_destroy(kept);
    tdmi_graph_destroy(all);
}

static void expect_error(tdmi_graph *g, tdmi_pipeline_options options, tdm_status st, const char *text)
{
    assert_int_equal(tdmi_pipeline_run(g, &options), st);
    if (strstr(tdm_error_text(), text) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", text, tdm_error_text());
    tdmi_graph_destroy(g);
}

static void what_cannot_be_computed_again_is_an_error(void **state)
{
    (void)state;
    expect_error(gpt2(), with(TDMI_REMAT_AUTO, 1 << 20), TDM_ERR_NO_MEMORY, "with all blocks computed again; the limit is 1.0 MiB");
    expect_error(gpt2(), with(TDMI_REMAT_AUTO, 0), TDM_ERR_INVALID, "chosen by a limit of memory and the costs of nodes");
    expect_error(gpt2(), with(5, 0), TDM_ERR_UNSUPPORTED, "graph gpt2 has 4 blocks, so none is the 5.");
    expect_error(small_graph(0), with(1, 0), TDM_ERR_UNSUPPORTED, "graph small has 0 blocks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_keep_their_input_alone),
        cmocka_unit_test(a_deep_model_keeps_less_than_a_fifth),
        cmocka_unit_test(nodes_are_listed_again_where_they_are_needed),
        cmocka_unit_test(as_little_is_computed_again_as_a_limit_needs),
        cmocka_unit_test(what_cannot_be_computed_again_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
