/* test_shard.c - the end of a step for each combination of clipping and sharding. */
#include "../graph/small.h"
#include "models/model.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tdmi_graph *sharded(bool clip, int shard)
{
    tdmi_graph *g = small_graph(0);
    const tdmi_pipeline_options options = {.train = true, .world_size = 2, .bucket_cap_mb = 0.0005, .first_bucket_mb = 0.0003,
                                           .clip = clip, .shard = shard};
    assert_int_equal(tdmi_pass_autodiff(g), TDM_OK);
    assert_int_equal(tdmi_pass_bucket(g, &options), TDM_OK);
    assert_true(g->bucket_count >= 2);
    assert_int_equal(tdmi_pass_shard(g, &options), TDM_OK);
    assert_int_equal(tdmi_graph_verify(g), TDM_OK);
    return g;
}

/* The nodes behind the last BUCKET_START are these, in turn, each op once a bucket (the verdict once). */
static void expect_end(const tdmi_graph *g, const tdmi_op *ops, int count)
{
    int at = g->node_count;
    while (g->node[at - 1].op != TDMI_OP_BUCKET_START)
        at--;
    for (int i = 0; i < count; i++)
        for (int b = 0; b < (ops[i] == TDMI_OP_VERDICT ? 1 : g->bucket_count); b++, at++) {
            assert_true(at < g->node_count);
            assert_int_equal(g->node[at].op, ops[i]);
            if (ops[i] != TDMI_OP_VERDICT)
                assert_int_equal(g->node[at].attr.bucket, b);
        }
    assert_int_equal(at, g->node_count);
}

static void with_clipping_updates_follow_the_verdict(void **state)
{
    (void)state;
    const tdmi_op ops[] = {TDMI_OP_BUCKET_WAIT, TDMI_OP_VERDICT, TDMI_OP_UPDATE, TDMI_OP_PARAMETERS_READY};
    for (int shard = 0; shard < 2; shard++) {
        tdmi_graph *g = sharded(true, shard);
        expect_end(g, ops, 4);
        tdmi_graph_destroy(g);
    }
}

static void without_clipping_slices_are_updated_while_they_are_reduced(void **state)
{
    (void)state;
    const tdmi_op ops[] = {TDMI_OP_BUCKET_WAIT, TDMI_OP_VERDICT, TDMI_OP_PARAMETERS_READY};
    tdmi_graph *g = sharded(false, 1);
    expect_end(g, ops, 3);
    tdmi_graph_destroy(g);
}

static void without_sharding_every_rank_updates_after_the_whole_reduction(void **state)
{
    (void)state;
    const tdmi_op ops[] = {TDMI_OP_BUCKET_WAIT, TDMI_OP_VERDICT, TDMI_OP_UPDATE, TDMI_OP_PARAMETERS_READY};
    tdmi_graph *g = sharded(false, 0);
    expect_end(g, ops, 4);
    tdmi_graph_destroy(g);
}

/* From its first gradient to its wait a bucket has its memory alone; its neighbour's reduction has a bucket's time. */
static void stage_two_waits_when_memory_is_wanted(void **state)
{
    (void)state;
    const tdmi_model *model = tdmi_model_find("gpt2");
    for (int clip = 0; clip < 2; clip++) {
        tdmi_model_config c;
        size_t total = 0;
        assert_int_equal(tdmi_model_preset_find(model, "gpt2", &c), TDM_OK);
        c.seq = 64;
        tdmi_graph *g = model->build(&c, 1, TDMI_BUILD_LOSS, true);
        const tdmi_pipeline_options options = {.train = true, .world_size = 2, .bucket_cap_mb = 25, .first_bucket_mb = 1, .clip = clip,
                                               .shard = 2};
        assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
        assert_int_equal(g->slices_kept, clip);
        int start[32], started = 0, waited = 0, early = 0;
        for (int i = 0; i < g->node_count; i++) {
            if (g->node[i].op == TDMI_OP_BUCKET_START)
                start[started++] = i;
            if (g->node[i].op != TDMI_OP_BUCKET_WAIT)
                continue;
            assert_int_equal(g->node[i].attr.bucket, waited);
            if (started < g->bucket_count) {
                assert_true(i - start[waited] > 8); /* enough of backward to reduce it in */
                early++;
            }
            waited++;
        }
        assert_true(early >= g->bucket_count - 8); /* the embedding's parts are ready together, at the end */
        for (int b = 0; b < g->bucket_count; b++)
            total += g->bucket[b].count * sizeof(float);
        const size_t embedding = tdmi_shape_nbytes(&g->tensor[tdmi_graph_find(g, "wte.weight")].shape);
        assert_true(g->gradient_nbytes < embedding + 3 * ((size_t)29 << 20));
        assert_true(g->gradient_nbytes < total / 2);
        tdmi_graph_destroy(g);
    }
}

static void a_lone_rank_that_clips_keeps_its_gradient(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    const tdmi_pipeline_options options = {.train = true, .world_size = 1, .bucket_cap_mb = 0.0005, .first_bucket_mb = 0.0003,
                                           .clip = true, .shard = 2};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    assert_false(g->slices_kept);
    int start = 0, wait = g->node_count;
    for (int i = 0; i < g->node_count; i++) {
        start = g->node[i].op == TDMI_OP_BUCKET_START ? i : start;
        wait = g->node[i].op == TDMI_OP_BUCKET_WAIT && i < wait ? i : wait;
    }
    assert_true(start < wait);
    tdmi_graph_destroy(g);
}

static void the_verdict_reads_the_loss(void **state)
{
    (void)state;
    tdmi_graph *g = sharded(true, 1);
    for (int i = 0; i < g->node_count; i++)
        if (g->node[i].op == TDMI_OP_VERDICT)
            assert_int_equal(g->node[i].in[0], g->loss);
    tdmi_graph_destroy(g);
}

static void other_stages_and_a_graph_without_buckets_are_errors(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    tdmi_pipeline_options options = {.train = true, .world_size = 2, .shard = 4};
    assert_int_equal(tdmi_pass_shard(g, &options), TDM_ERR_UNSUPPORTED);
    assert_non_null(strstr(tdm_error_text(), "sharding stage 4 does not exist"));
    options.shard = 1;
    assert_int_equal(tdmi_pass_shard(g, &options), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "run bucket before shard"));
    tdmi_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_clipping_updates_follow_the_verdict),
        cmocka_unit_test(without_clipping_slices_are_updated_while_they_are_reduced),
        cmocka_unit_test(without_sharding_every_rank_updates_after_the_whole_reduction),
        cmocka_unit_test(stage_two_waits_when_memory_is_wanted),
        cmocka_unit_test(a_lone_rank_that_clips_keeps_its_gradient),
        cmocka_unit_test(the_verdict_reads_the_loss),
        cmocka_unit_test(other_stages_and_a_graph_without_buckets_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
