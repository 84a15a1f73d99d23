/* test_compress.c - which buckets use a codec, what they are said to send, the end of the step, and what is refused. */
#include "../graph/small.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tdmi_pipeline_options options_of(tdm_codec codec)
{
    return (tdmi_pipeline_options){.train = true, .world_size = 2, .bucket_cap_mb = 0.0005, .first_bucket_mb = 0.0003, .shard = 1,
                                   .compress = {.codec = codec, .rank = 1, .min_saving = 1, .warmup = 3, .fraction = 0.1}};
}

static int count_ops(const tdmi_graph *g, tdmi_op op)
{
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->node[i].op == op;
    return count;
}

static void each_bucket_says_how_it_travels_and_updates_wait_for_the_verdict(void **state)
{
    (void)state;
    const tdm_codec codecs[] = {TDM_CODEC_NONE, TDM_CODEC_F16, TDM_CODEC_BF16, TDM_CODEC_POWERSGD, TDM_CODEC_ONEBIT, TDM_CODEC_TOPK};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        for (int shard = 0; shard < 2; shard++) {
            tdmi_graph *g = small_graph(0);
            tdmi_pipeline_options options = options_of(codecs[i]);
            options.shard = shard;
            assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
            assert_int_equal(g->compressed, codecs[i] != TDM_CODEC_NONE);
            assert_int_equal(count_ops(g, TDMI_OP_UPDATE), shard == 0 || g->compressed ? g->bucket_count : 0);
            for (int b = 0; b < g->bucket_count; b++) {
                const tdmi_bucket *bucket = &g->bucket[b];
                assert_true(bucket->compress.codec == codecs[i] || codecs[i] == TDM_CODEC_POWERSGD);
                if (bucket->compress.codec != TDM_CODEC_NONE)
                    assert_in_range(bucket->sends, 1, bucket->count * sizeof(float) - 1);
            }
            tdmi_graph_destroy(g);
        }
}

/* Ten vectors and no matrix large enough: factors would save nothing. */
static void a_bucket_that_would_not_get_smaller_travels_plainly(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    tdmi_pipeline_options options = options_of(TDM_CODEC_POWERSGD);
    options.compress.min_saving = 50;
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    for (int b = 0; b < g->bucket_count; b++)
        assert_int_equal(g->bucket[b].compress.codec, TDM_CODEC_NONE);
    tdmi_graph_destroy(g);
}

static void refused(tdmi_pipeline_options options, const char *says)
{
    tdmi_graph *g = small_graph(0);
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_ERR_UNSUPPORTED);
    if (strstr(tdm_error_text(), says) == NULL || strstr(tdm_error_text(), "compression") == NULL)
        fail_msg("%s", tdm_error_text());
    tdmi_graph_destroy(g);
}

static void what_does_not_go_together_is_refused_by_name(void **state)
{
    (void)state;
    tdmi_pipeline_options options = options_of(TDM_CODEC_TOPK);
    options.shard = 2;
    refused(options, "topk needs whole gradients");
    options = options_of(TDM_CODEC_BF16);
    options.precision = TDM_BF16;
    refused(options, "bf16 takes gradients in float32");
    options.precision = TDM_F16;
    refused(options, "bf16 takes gradients in float32");
    options = options_of(TDM_CODEC_ONEBIT);
    options.uncounted = true;
    refused(options, "onebit sends momentum before");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bucket_says_how_it_travels_and_updates_wait_for_the_verdict),
        cmocka_unit_test(a_bucket_that_would_not_get_smaller_travels_plainly),
        cmocka_unit_test(what_does_not_go_together_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
