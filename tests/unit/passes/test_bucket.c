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
    assert_int_equal(g->bucket_count, 18);
    for (int b = 0; b < g->bucket_count; b++)
        assert_true(g->bucket[b].count * sizeof(float) < (size_t)50 << 20); /* the embedding's 154 MB are cut */
    tdmi_graph_destroy(g);

    g = bucketed(gpt2("gpt2"), 2, 1000, 1000); /* one bucket is one collective a step */
    assert_int_equal(g->bucket_count, 1);
    assert_int_equal(g->bucket[0].parameters, 148);
    tdmi_graph_destroy(g);
}

/* Parts follow each other without a gap, from the bucket where the parameter begins to the last that has some of it. */
static void a_parameter_larger_than_the_cap_is_cut_into_parts_of_it(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 3; world_size++) {
        tdmi_graph *g = bucketed(gpt2("bytes"), world_size, 0.05, 0.01); /* c_fc has 1 MiB */
        size_t used = 0, joined = 0;
        for (int b = 0; b < g->bucket_count; b++) {
            used += g->bucket[b].used;
            joined += g->bucket[b].joined;
            assert_true(g->bucket[b].count * sizeof(float) < 2 * 52429 + 4096); /* its cap, and less than one more */
            if (g->bucket[b].joined)
                assert_int_equal(g->bucket[b - 1].count % (64 * (size_t)world_size), 0);
        }
        assert_int_equal(used, tdmi_graph_parameter_count(g));
        assert_true(joined > 100);
        const tdmi_id w = tdmi_graph_find(g, "h.2.mlp.c_fc.weight");
        size_t room = 0;
        for (int b = g->tensor[w].bucket; b <= tdmi_graph_last_bucket(g, w); b++) {
            assert_int_equal(g->bucket[b].joined, b > g->tensor[w].bucket);
            room += g->bucket[b].count;
        }
        assert_true(g->tensor[w].offset + tdmi_shape_count(&g->tensor[w].shape) <= room);
        tdmi_graph_destroy(g);
    }
}

static void sizes_may_be_given_bucket_by_bucket(void **state)
{
    (void)state;
    static const double list[] = {0.25, 2, 0.5};
    const tdmi_pipeline_options options = {.train = true, .world_size = 2, .bucket_list_mb = list, .bucket_list_count = 3};
    tdmi_graph *g = gpt2("bytes");
    assert_int_equal(tdmi_pass_autodiff(g), TDM_OK);
    assert_int_equal(tdmi_pass_bucket(g, &options), TDM_OK);
    assert_int_equal(tdmi_graph_verify(g), TDM_OK);
    for (int b = 0; b + 1 < g->bucket_count; b++) {
        const double mib = (double)g->bucket[b].used * sizeof(float) / (1 << 20), cap = list[b < 3 ? b : 2];
        assert_true(mib >= cap && mib < cap + 0.5);
    }
    tdmi_graph_destroy(g);
}

/* A slow link: the plan's forecast is better than that of any one size, and it is what is laid out. */
static void buckets_may_be_planned_so_that_the_last_reduction_ends_first(void **state)
{
    (void)state;
    const tdmi_cost cost = {.flops_per_s = 5e10, .bytes_per_s = 5e9, .alpha_s = 2e-4, .beta_s = 1e-9};
    tdmi_pipeline_options options = {.train = true, .world_size = 2, .bucket_auto = true, .cost = cost};
    tdmi_graph *g = gpt2("bytes");
    assert_int_equal(tdmi_pass_autodiff(g), TDM_OK);
    assert_int_equal(tdmi_pass_bucket(g, &options), TDM_OK);
    assert_int_equal(tdmi_graph_verify(g), TDM_OK);
    const double planned = tdmi_cost_forecast(g, &cost).reduced_s, computed = tdmi_cost_forecast(g, &cost).computed_s;
    assert_true(g->bucket_count > 1);
    assert_true(planned > computed); /* the last bucket cannot hide */
    tdmi_graph_destroy(g);
    for (double mb = 0.125; mb <= 32; mb *= 2) {
        g = bucketed(gpt2("bytes"), 2, mb, mb);
        assert_true(planned <= tdmi_cost_forecast(g, &cost).reduced_s * 1.000001);
        tdmi_graph_destroy(g);
    }
    options.cost.flops_per_s = 0;
    g = gpt2("bytes");
    assert_int_equal(tdmi_pass_autodiff(g), TDM_OK);
    assert_int_equal(tdmi_pass_bucket(g, &options), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "without costs"));
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
    g = gpt2("gpt2");
    assert_int_equal(tdmi_pass_autodiff(g), TDM_OK);
    const tdmi_pipeline_options tiny = {.train = true, .world_size = 1, .bucket_cap_mb = 1e-6};
    assert_int_equal(tdmi_pass_bucket(g, &tiny), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "too many buckets"));
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
        cmocka_unit_test(a_parameter_larger_than_the_cap_is_cut_into_parts_of_it),
        cmocka_unit_test(sizes_may_be_given_bucket_by_bucket),
        cmocka_unit_test(buckets_may_be_planned_so_that_the_last_reduction_ends_first),
        cmocka_unit_test(both_versions_of_a_tied_gradient_lie_in_one_place),
        cmocka_unit_test(what_cannot_be_bucketed_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
