/* test_bucket.c - buckets in the order gradients become ready, and where each starts. */
#include "../graph/small.h"
#include "core/memory.h"
#include "ddp/plan.h"
#include "models/model.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tdmi_graph *bucketed(tdmi_graph *g, int world_size, double cap_mb, double first_mb)
{
    const tdmi_pipeline_options options = {.train = true, .world_size = world_size, .bucket_cap_mb = cap_mb, .first_bucket_mb = first_mb};
    assert_int_equal(tdmi_graph_status(g), TDM_OK);
    assert_int_equal(tdmi_pass_autodiff(g), TDM_OK);
    assert_int_equal(tdmi_pass_bucket(g, &options), TDM_OK);
    assert_int_equal(tdmi_graph_verify(g), TDM_OK);
    return g;
}

static tdmi_graph *gpt2(const char *preset)
{
    const tdmi_model *model = tdmi_model_find("gpt2");
    tdmi_model_config c;
    assert_int_equal(tdmi_model_preset_find(model, preset, &c), TDM_OK);
    c.seq = 64;
    return model->build(&c, 1, TDMI_BUILD_LOSS, true);
}

/* The parameter whose place in the buckets follows that of `after` (-1: the first). */
static tdmi_id next_in_buckets(const tdmi_graph *g, tdmi_id after)
{
    tdmi_id best = -1;
    for (int t = 0; t < g->tensor_count; t++) {
        const tdmi_tensor *p = &g->tensor[t];
        if (p->role != TDMI_ROLE_PARAMETER)
            continue;
        const tdmi_tensor *a = after >= 0 ? &g->tensor[after] : NULL, *b = best >= 0 ? &g->tensor[best] : NULL;
        if (a != NULL && (p->bucket < a->bucket || (p->bucket == a->bucket && p->offset <= a->offset)))
            continue;
        if (b == NULL || p->bucket < b->bucket || (p->bucket == b->bucket && p->offset < b->offset))
            best = t;
    }
    return best;
}

static void the_order_in_buckets_is_the_order_gradients_become_ready(void **state)
{
    (void)state;
    tdmi_graph *graphs[] = {bucketed(small_graph(0.1f), 2, 0.0005, 0.0003), bucketed(gpt2("bytes"), 4, 1, 0.5)};
    for (int i = 0; i < 2; i++) {
        tdmi_graph *g = graphs[i];
        int ready = -1, count = 0, parameters = 0;
        for (tdmi_id p = next_in_buckets(g, -1); p >= 0; p = next_in_buckets(g, p), count++) {
            const int node = g->tensor[g->tensor[p].gradient].producer;
            assert_true(node >= ready);
            ready = node;
        }
        for (int t = 0; t < g->tensor_count; t++)
            parameters += g->tensor[t].role == TDMI_ROLE_PARAMETER;
        assert_int_equal(count, parameters);
        tdmi_graph_destroy(g);
    }
}

/* Each bucket starts right behind the last node that writes a gradient or reads a parameter of it, or behind the one before. */
static void a_bucket_starts_as_early_as_its_rule_allows(void **state)
{
    (void)state;
    tdmi_graph *g = bucketed(gpt2("bytes"), 2, 1, 0.5);
    assert_true(g->bucket_count > 5);
    int before = -1;
    for (int b = 0; b < g->bucket_count; b++) {
        int start = -1, last = -1;
        for (int i = 0; i < g->node_count; i++) {
            const tdmi_node *n = &g->node[i];
            if (n->op == TDMI_OP_BUCKET_START && n->attr.bucket == b)
                start = i;
            for (int k = 0; k < n->in_count; k++)
                if (n->in[k] >= 0 && g->tensor[n->in[k]].role == TDMI_ROLE_PARAMETER && g->tensor[n->in[k]].bucket == b)
                    last = i;
            for (int k = 0; k < n->out_count; k++)
                if (n->out[k] >= 0 && g->tensor[n->out[k]].role == TDMI_ROLE_GRADIENT && g->tensor[n->out[k]].bucket == b)
                    last = i;
        }
        assert_int_equal(start, (last > before ? last : before) + 1);
        before = start;
    }
    tdmi_graph_destroy(g);
}

static void every_parameter_lies_on_a_cache_line_and_slices_are_equal(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 5; world_size += 2) {
        tdmi_graph *g = bucketed(small_graph(0), world_size, 0.0005, 0.0003);
        size_t used = 0;
        for (int b = 0; b < g->bucket_count; b++) {
            assert_int_equal(g->bucket[b].count % (16 * (size_t)world_size), 0);
            used += g->bucket[b].used;
        }
        for (int t = 0; t < g->tensor_count; t++)
            if (g->tensor[t].bucket >= 0)
                assert_int_equal(g->tensor[t].offset % 16, 0);
        assert_int_equal(used, tdmi_graph_parameter_count(g));
        tdmi_graph_destroy(g);
    }
}

static void sizes_obey_the_planner_and_add_up_to_the_parameters(void **state)
{
    (void)state;
    tdmi_graph *g = bucketed(gpt2("gpt2"), 2, 25, 1);
    size_t used = 0;
    for (int b = 0; b < g->bucket_count; b++) {
        used += g->bucket[b].used;
        if (b + 1 < g->bucket_count) /* a bucket closes once it holds its cap */
            assert_true(g->bucket[b].used * sizeof(float) >= (b == 0 ? (size_t)1 << 20 : (size_t)25 << 20));
    }
    assert_int_equal(used, 124439808);
    assert_int_equal(g->bucket_count, 14);
    tdmi_graph_destroy(g);

    g = bucketed(gpt2("gpt2"), 2, 1000, 1000); /* one bucket is one collective a step */
    assert_int_equal(g->bucket_count, 1);
    assert_int_equal(g->bucket[0].parameters, 148);
    tdmi_graph_destroy(g);
}

static void both_versions_of_a_tied_gradient_lie_in_one_place(void **state)
{
    (void)state;
    tdmi_graph *g = bucketed(small_graph(0), 2, 0.0005, 0.0003);
    const tdmi_id wte = tdmi_graph_find(g, "wte");
    int versions = 0;
    for (int t = 0; t < g->tensor_count; t++)
        if (g->tensor[t].role == TDMI_ROLE_GRADIENT && g->tensor[t].parameter == wte) {
            assert_int_equal(g->tensor[t].bucket, g->tensor[wte].bucket);
            assert_int_equal(g->tensor[t].offset, g->tensor[wte].offset);
            versions++;
        }
    assert_int_equal(versions, 2);
    assert_int_equal(g->tensor[wte].bucket, g->bucket_count - 1); /* the embedding completes it last */
    tdmi_graph_destroy(g);
}

static void what_cannot_be_bucketed_is_an_error(void **state)
{
    (void)state;
    const tdmi_pipeline_options options = {.train = true, .world_size = 0};
    tdmi_graph *g = small_graph(0);
    assert_int_equal(tdmi_pass_bucket(g, &options), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "buckets for 0 ranks"));
    const tdmi_pipeline_options one = {.train = true, .world_size = 1};
    assert_int_equal(tdmi_pass_bucket(g, &one), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "run autodiff before bucket"));
    tdmi_graph_destroy(g);
    g = bucketed(small_graph(0), 1, 1, 1);
    assert_int_equal(tdmi_pass_bucket(g, &one), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "buckets already"));
    tdmi_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_in_buckets_is_the_order_gradients_become_ready),
        cmocka_unit_test(a_bucket_starts_as_early_as_its_rule_allows),
        cmocka_unit_test(every_parameter_lies_on_a_cache_line_and_slices_are_equal),
        cmocka_unit_test(sizes_obey_the_planner_and_add_up_to_the_parameters),
        cmocka_unit_test(both_versions_of_a_tied_gradient_lie_in_one_place),
        cmocka_unit_test(what_cannot_be_bucketed_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
