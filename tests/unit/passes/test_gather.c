/* test_gather.c - stage 3 over several nodes: buckets of one block each, gathered ahead of their readers and released behind. */
#include "../graph/small.h"
#include "models/model.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tdmi_graph *gpt2_in(int prefetch, tdm_dtype precision)
{
    const tdmi_model *model = tdmi_model_find("gpt2");
    tdmi_model_config c;
    assert_int_equal(tdmi_model_preset_find(model, "gpt2", &c), TDM_OK);
    c.seq = 64;
    tdmi_graph *g = model->build(&c, 1, TDMI_BUILD_LOSS, true);
    const tdmi_pipeline_options options = {.train = true, .world_size = 4, .bucket_cap_mb = 25, .first_bucket_mb = 1, .shard = 3,
                                           .parts = 2, .prefetch = prefetch, .precision = precision};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    return g;
}

static tdmi_graph *gpt2(int prefetch)
{
    return gpt2_in(prefetch, TDM_F32);
}

static void no_bucket_mixes_blocks(void **state)
{
    (void)state;
    tdmi_graph *g = gpt2(1);
    int units = 0;
    for (int b = 0; b < g->bucket_count; b++) {
        const char *block = NULL;
        units += b == 0 || g->bucket[b].unit != g->bucket[b - 1].unit;
        for (int t = 0; t < g->tensor_count; t++) {
            if (g->tensor[t].role != TDMI_ROLE_PARAMETER || g->tensor[t].bucket != b)
                continue;
            const char *name = g->tensor[t].name;
            const size_t length = strncmp(name, "h.", 2) == 0 ? strcspn(name + 2, ".") + 2 : 0;
            if (block != NULL)
                assert_int_equal(strncmp(block, name, length), 0);
            block = name;
        }
    }
    assert_int_equal(units, 13); /* blocks, and what belongs to none: tied embedding, positions, last norm */
    tdmi_graph_destroy(g);
}

/* Twice a step for each block, but the embedding, the last block's neighbour in time, and the first round of backward. */
static void each_unit_comes_for_forward_and_for_backward(void **state)
{
    (void)state;
    tdmi_graph *g = gpt2(1);
    int gathers[64] = {0}, here = 0, most = 0;
    for (int i = 0; i < g->node_count; i++) {
        const tdmi_op op = g->node[i].op;
        gathers[g->node[i].attr.bucket < 0 ? 63 : g->node[i].attr.bucket] += op == TDMI_OP_GATHER_START;
        here += (op == TDMI_OP_GATHER_START) - (op == TDMI_OP_RELEASE);
        most = here > most ? here : most;
    }
    const int last = g->tensor[tdmi_graph_find(g, "h.11.ln_1.weight")].bucket;
    for (int b = 0; b < g->bucket_count; b++)
        assert_int_equal(gathers[b], g->bucket[b].unit == g->bucket[last].unit ? 1 : 2);
    assert_int_equal(here, 0);
    tdmi_graph_destroy(g);
}

static void memory_is_that_of_the_units_in_flight(void **state)
{
    (void)state;
    tdmi_graph *one = gpt2(1), *three = gpt2(3);
    const size_t rest = 50257u * 768 * 4 + 1024u * 768 * 4, block = 7087872u * 4, slack = 1 << 16;
    assert_true(one->parameter_nbytes <= rest + 2 * block + slack);
    assert_true(three->parameter_nbytes > one->parameter_nbytes + block);
    assert_true(three->parameter_nbytes <= rest + 6 * block + slack);
    tdmi_graph_destroy(one);
    tdmi_graph_destroy(three);
}

static void a_forward_graph_gathers_from_the_same_buckets(void **state)
{
    (void)state;
    tdmi_graph *g = gpt2(1);
    const tdmi_model *model = tdmi_model_find("gpt2");
    tdmi_model_config c;
    assert_int_equal(tdmi_model_preset_find(model, "gpt2", &c), TDM_OK);
    c.seq = 64;
    tdmi_graph *forward = model->build(&c, 1, TDMI_BUILD_LOGITS, false);
    const tdmi_pipeline_options options = {.world_size = 1, .gather_as = g};
    assert_int_equal(tdmi_pipeline_run(forward, &options), TDM_OK);
    for (int t = 0; t < forward->tensor_count; t++) {
        if (forward->tensor[t].role != TDMI_ROLE_PARAMETER)
            continue;
        const tdmi_id same = tdmi_graph_find(g, forward->tensor[t].name);
        assert_int_equal(forward->tensor[t].bucket, g->tensor[same].bucket);
        assert_int_equal(forward->tensor[t].offset, g->tensor[same].offset);
    }
    assert_true(forward->parameter_nbytes > 0 && forward->parameter_nbytes <= g->parameter_nbytes);
    tdmi_graph_destroy(forward);
    tdmi_graph_destroy(g);
}

/* Without numbered blocks a unit is a bucket, and a node may read two of them. */
static void a_model_without_blocks_gathers_bucket_by_bucket(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    const tdmi_pipeline_options options = {.train = true, .world_size = 2, .bucket_cap_mb = 0.0005, .first_bucket_mb = 0.0003,
                                           .shard = 3, .parts = 2, .prefetch = 1};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    size_t total = 0;
    for (int b = 0; b < g->bucket_count; b++) {
        assert_int_equal(g->bucket[b].unit, b);
        total += g->bucket[b].count * sizeof(float);
    }
    assert_true(g->parameter_nbytes <= total);
    tdmi_graph_destroy(g);
}

static void on_one_node_nothing_is_gathered(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    tdmi_pipeline_options options = {.train = true, .world_size = 2, .bucket_cap_mb = 0.0005, .first_bucket_mb = 0.0003, .shard = 3,
                                     .parts = 1};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    assert_int_equal(g->parameter_nbytes, 0);
    tdmi_graph_destroy(g);
    g = small_graph(0);
    options.parts = 2;
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "prefetch 0"));
    tdmi_graph_destroy(g);
}

/* Matrices of blocks come as copies, what is read in float32 as it is; the tied embedding as both. */
static void what_products_read_comes_in_16_bits(void **state)
{
    (void)state;
    tdmi_graph *g = gpt2_in(1, TDM_BF16);
    for (int t = 0; t < g->tensor_count; t++) {
        const tdmi_tensor *p = &g->tensor[t];
        if (p->role != TDMI_ROLE_PARAMETER)
            continue;
        const tdmi_bucket *b = &g->bucket[p->bucket];
        const bool tied = strcmp(p->name, "wte.weight") == 0, matrix = p->shape.ndim == 2 && strncmp(p->name, "h.", 2) == 0;
        assert_int_equal(b->copied, tied || matrix);
        assert_int_equal(b->whole, !matrix);
    }
    const size_t rest = 50257u * 768 * 6 + 1024u * 768 * 4, block = 7087872u * 2, slack = 1 << 17;
    assert_true(g->parameter_nbytes <= rest + 2 * block + slack);
    assert_true(g->parameter_nbytes > rest);
    tdmi_graph_destroy(g);
}

/* ---- each rule of verify_gather.c, broken once ---- */

static int at(const tdmi_graph *g, tdmi_op op, int bucket)
{
    int i = 0;
    while (g->node[i].op != op || g->node[i].attr.bucket != bucket)
        i++;
    return i;
}

static int unit_of_block(const tdmi_graph *g, const char *parameter)
{
    return g->tensor[tdmi_graph_find(g, parameter)].bucket;
}

static void expect_fault(tdmi_graph *g, const char *text)
{
    assert_int_equal(tdmi_graph_verify(g), TDM_ERR_INTERNAL);
    if (strstr(tdm_error_text(), text) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", text, tdm_error_text());
    tdmi_graph_destroy(g);
}

static void broken_rules_are_seen_and_named(void **state)
{
    (void)state;
    tdmi_graph *g = gpt2(1);
    const int first = unit_of_block(g, "h.0.ln_1.weight"), second = unit_of_block(g, "h.1.ln_1.weight");
    g->node[at(g, TDMI_OP_GATHER_WAIT, first)].op = TDMI_OP_RELEASE;
    expect_fault(g, "it releases parameters that are not there");

    g = gpt2(1);
    tdmi_node *start = &g->node[at(g, TDMI_OP_GATHER_START, first)];
    start->attr.place = g->parameter_nbytes;
    expect_fault(g, "it ends behind the parameters' slab");

    g = gpt2(1);
    g->node[at(g, TDMI_OP_GATHER_START, second)].attr.place = g->node[at(g, TDMI_OP_GATHER_START, first)].attr.place;
    expect_fault(g, "which is in use");

    g = gpt2(1);
    const int release = at(g, TDMI_OP_RELEASE, first);
    g->node[release].attr.bucket = second;
    expect_fault(g, "it releases parameters that are not there");

    g = gpt2(1);
    g->parameter_nbytes = 0;
    expect_fault(g, "whose parameters are gathered");
}

/* What a rank of the node may still be reading is not written over. */
static void nothing_is_gathered_over_a_release_before_the_node_has_met(void **state)
{
    (void)state;
    tdmi_graph *g = gpt2(1);
    const int second = unit_of_block(g, "h.1.ln_1.weight");
    int release = at(g, TDMI_OP_RELEASE, second), start = release;
    while (g->node[start].op != TDMI_OP_GATHER_START || g->node[start].attr.place != g->node[release].attr.place)
        start++;
    const tdmi_node moved = g->node[start]; /* to right behind the release */
    memmove(&g->node[release + 2], &g->node[release + 1], (size_t)(start - release - 1) * sizeof moved);
    g->node[release + 1] = moved;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->node[i].out_count; k++)
            if (g->node[i].out[k] >= 0)
                g->tensor[g->node[i].out[k]].producer = i;
    expect_fault(g, "other ranks of the node may still read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_bucket_mixes_blocks),
        cmocka_unit_test(each_unit_comes_for_forward_and_for_backward),
        cmocka_unit_test(memory_is_that_of_the_units_in_flight),
        cmocka_unit_test(a_forward_graph_gathers_from_the_same_buckets),
        cmocka_unit_test(a_model_without_blocks_gathers_bucket_by_bucket),
        cmocka_unit_test(on_one_node_nothing_is_gathered),
        cmocka_unit_test(what_products_read_comes_in_16_bits),
        cmocka_unit_test(broken_rules_are_seen_and_named),
        cmocka_unit_test(nothing_is_gathered_over_a_release_before_the_node_has_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
