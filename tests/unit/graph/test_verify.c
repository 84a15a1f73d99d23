/* test_verify.c - each rule of a graph, broken once: verify must see it and name it. The graph is a whole training step,
 * as the passes write it. */
#include "passes/passes.h"
#include "small.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static tdmi_graph *step_graph(void)
{
    tdmi_graph *g = small_graph(0.25f);
    const tdmi_pipeline_options options = {.train = true, .unfused = true, .world_size = 2, .bucket_cap_mb = 0.0005, .first_bucket_mb = 0.0003,
                                           .clip = true, .shard = 1};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    assert_true(g->bucket_count >= 3);
    return g;
}

static tdmi_tensor *tensor(tdmi_graph *g, const char *name)
{
    const tdmi_id t = tdmi_graph_find(g, name);
    assert_true(t >= 0);
    return &g->tensor[t];
}

static int at(const tdmi_graph *g, tdmi_op op, const char *label)
{
    for (int i = 0; i < g->node_count; i++)
        if (g->node[i].op == op && strcmp(g->node[i].label, label) == 0)
            return i;
    fail_msg("no %s %s", tdmi_op_text(op), label);
    return -1;
}

static int at_bucket(const tdmi_graph *g, tdmi_op op, int bucket)
{
    for (int i = 0; i < g->node_count; i++)
        if (g->node[i].op == op && g->node[i].attr.bucket == bucket)
            return i;
    fail_msg("no %s of bucket %d", tdmi_op_text(op), bucket);
    return -1;
}

/* Takes node `from` out and puts it before the node that was at `to` (as counted without it). */
static void move(tdmi_graph *g, int from, int to)
{
    const tdmi_node n = g->node[from];
    memmove(&g->node[from], &g->node[from + 1], (size_t)(g->node_count - from - 1) * sizeof n);
    memmove(&g->node[to + 1], &g->node[to], (size_t)(g->node_count - to - 1) * sizeof n);
    g->node[to] = n;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->node[i].out_count; k++)
            if (g->node[i].out[k] >= 0)
                g->tensor[g->node[i].out[k]].producer = i;
}

static void drop_last_of(tdmi_graph *g, int node)
{
    move(g, node, g->node_count - 1);
    g->node_count--;
}

/* ---- structure ---- */
static void unknown_op(tdmi_graph *g) { g->node[3].op = TDMI_OP_COUNT; }
static void input_out_of_range(tdmi_graph *g) { g->node[3].in[1] = g->tensor_count; }
static void output_out_of_range(tdmi_graph *g) { g->node[3].out[0] = g->tensor_count + 7; }
static void input_missing(tdmi_graph *g) { g->node[at(g, TDMI_OP_LINEAR, "up")].in[1] = -1; }
static void input_too_few(tdmi_graph *g) { g->node[at(g, TDMI_OP_LINEAR, "up")].in_count = 2; }
static void made_twice(tdmi_graph *g)
{
    g->node[at(g, TDMI_OP_RESIDUAL, "first")].out[0] = tdmi_graph_find(g, "attention");
}
static void producer_makes_it_not(tdmi_graph *g) { tensor(g, "up")->producer = at(g, TDMI_OP_GELU, "gelu"); }
static void nobody_makes_it(tdmi_graph *g) { tensor(g, "up")->producer = -1; }
static void input_is_made(tdmi_graph *g) { tensor(g, "tokens")->producer = 2; }
static void no_name(tdmi_graph *g) { tensor(g, "up")->name[0] = '\0'; }
static void no_size(tdmi_graph *g) { tensor(g, "up")->shape.dims[1] = 0; }
static void no_role(tdmi_graph *g) { tensor(g, "up")->role = (tdmi_role)9; }
static void shapes_differ(tdmi_graph *g) { tensor(g, "wpe")->shape.dims[0] = SMALL_T - 1, tensor(g, "d.wpe")->shape.dims[0] = SMALL_T - 1; }
static void alias_of_later(tdmi_graph *g) { tensor(g, "up")->alias = tdmi_graph_find(g, "gelu"); }
static void alias_of_other_size(tdmi_graph *g) { tensor(g, "gelu")->alias = tdmi_graph_find(g, "ln"); }
static void alias_of_parameter(tdmi_graph *g) { tensor(g, "gelu")->alias = tdmi_graph_find(g, "wte"); }
static void alias_out_of_bucket(tdmi_graph *g) { tensor(g, "d.down.weight")->alias = tdmi_graph_find(g, "gelu"); }
static void gradient_of_nothing(tdmi_graph *g) { tensor(g, "d.wpe")->parameter = tensor(g, "wpe")->gradient = -1; }
static void gradient_of_other_shape(tdmi_graph *g) { tensor(g, "d.wpe")->shape.dims[0]++; }
static void gradient_of_another(tdmi_graph *g) { tensor(g, "wpe")->gradient = tensor(g, "wte")->gradient; }
static void adds_where_op_cannot(tdmi_graph *g) { g->node[at(g, TDMI_OP_GELU, "gelu")].attr.accumulate = 1; }
static void same_draws(tdmi_graph *g) { g->node[at(g, TDMI_OP_DRAW_MASK, "drop2")].attr.counter = 0; }
static void phase_too_late(tdmi_graph *g) { g->node[2].phase = TDMI_PHASE_BACKWARD; }
static void loss_is_no_output(tdmi_graph *g) { g->loss = tdmi_graph_find(g, "up"); }
static void heads_do_not_divide(tdmi_graph *g) { g->node[at(g, TDMI_OP_ATTENTION, "attention")].attr.heads = 3; }

/* ---- values ---- */
static void read_before_made(tdmi_graph *g) { move(g, at(g, TDMI_OP_GELU, "gelu"), at(g, TDMI_OP_LINEAR, "up")); }
static void overwritten_by_alias(tdmi_graph *g)
{
    tensor(g, "first")->alias = tdmi_graph_find(g, "attention"); /* attention_backward reads attention */
    tensor(g, "first")->offset = tensor(g, "attention")->offset;
}
static void adds_to_nothing(tdmi_graph *g) { g->node[at(g, TDMI_OP_LINEAR_BACKWARD_INPUT, "down")].attr.accumulate = 1; }
static void adds_to_what_is_gone(tdmi_graph *g)
{
    tensor(g, "d.down")->alias = tdmi_graph_find(g, "d.second"); /* the residual's other input still adds to d.second */
    tensor(g, "d.down")->offset = tensor(g, "d.second")->offset;
}
static void sum_is_overwritten(tdmi_graph *g) { g->node[at(g, TDMI_OP_EMBEDDING_BACKWARD, "embedding")].attr.accumulate = 0; }
static void in_place_where_op_cannot(tdmi_graph *g)
{
    tensor(g, "ln")->alias = tdmi_graph_find(g, "drop");
    tensor(g, "ln")->offset = tensor(g, "drop")->offset;
}
static void off_the_line(tdmi_graph *g) { tensor(g, "up")->offset += 4; }
static void behind_the_slab(tdmi_graph *g) { tensor(g, "up")->offset = g->slab_nbytes - 64; }
static void alias_lies_apart(tdmi_graph *g) { tensor(g, "drop")->offset += 64; }
static void output_on_input(tdmi_graph *g) { tensor(g, "qkv")->offset = tensor(g, "ln")->offset; }
static void outputs_on_each_other(tdmi_graph *g) { tensor(g, "attention.lse")->offset = tensor(g, "attention")->offset; }

/* Both alone in a new part of the slab. */
static void lie_on_each_other(tdmi_graph *g, const char *a, const char *b)
{
    tensor(g, a)->offset = tensor(g, b)->offset = g->slab_nbytes;
    g->slab_nbytes += 4096;
}
static void overwritten_by_place(tdmi_graph *g) { lie_on_each_other(g, "ln", "gelu"); }
static void loss_is_overwritten(tdmi_graph *g) { lie_on_each_other(g, "loss", "d.ln"); }
static void input_is_overwritten(tdmi_graph *g) { lie_on_each_other(g, "targets", "d.ln"); }

/* ---- buckets and edges across ranks ---- */
static void no_micro_batch(tdmi_graph *g)
{
    g->micro_batches = 0;
}

static void parameter_without_gradient(tdmi_graph *g) { tensor(g, "wpe")->gradient = -1; }
static void buckets_are_gone(tdmi_graph *g) { g->bucket_count = 0; }
static void elements_are_lost(tdmi_graph *g) { g->bucket[1].used--; }
static void gradient_lies_apart(tdmi_graph *g) { tensor(g, "d.wpe")->offset += 16; }
static void in_no_bucket(tdmi_graph *g) { tensor(g, "wpe")->bucket = tensor(g, "d.wpe")->bucket = -1; }
static void behind_the_bucket(tdmi_graph *g)
{
    tensor(g, "wpe")->offset = tensor(g, "d.wpe")->offset = g->bucket[tensor(g, "wpe")->bucket].count - 1;
}
static void on_each_other(tdmi_graph *g)
{
    tensor(g, "ln.weight")->offset = tensor(g, "d.ln.weight")->offset = tensor(g, "ln.bias")->offset;
}
static void never_started(tdmi_graph *g) { drop_last_of(g, at_bucket(g, TDMI_OP_BUCKET_START, 1)); }
static void started_twice(tdmi_graph *g) { g->node[at_bucket(g, TDMI_OP_BUCKET_START, 1)].attr.bucket = 0; }
static void of_a_bucket_too_many(tdmi_graph *g) { g->node[at_bucket(g, TDMI_OP_BUCKET_START, 1)].attr.bucket = 99; }
static void starts_out_of_order(tdmi_graph *g)
{
    move(g, at_bucket(g, TDMI_OP_BUCKET_START, 0), at_bucket(g, TDMI_OP_BUCKET_START, 1));
}
static void starts_before_gradient(tdmi_graph *g)
{
    move(g, at_bucket(g, TDMI_OP_BUCKET_START, 0), at(g, TDMI_OP_LINEAR_BACKWARD_WEIGHT, "down"));
}
static void starts_before_reader(tdmi_graph *g)
{
    move(g, at_bucket(g, TDMI_OP_BUCKET_START, 0), at(g, TDMI_OP_LINEAR_BACKWARD_INPUT, "down"));
}
static void waits_before_start(tdmi_graph *g)
{
    move(g, at_bucket(g, TDMI_OP_BUCKET_WAIT, 0), at(g, TDMI_OP_LINEAR_BACKWARD_WEIGHT, "down"));
}
static void never_waited_for(tdmi_graph *g) { drop_last_of(g, at_bucket(g, TDMI_OP_BUCKET_WAIT, 1)); }
static void never_ready(tdmi_graph *g) { drop_last_of(g, at_bucket(g, TDMI_OP_PARAMETERS_READY, 1)); }
static void never_updated(tdmi_graph *g) { drop_last_of(g, at_bucket(g, TDMI_OP_UPDATE, 1)); }
static void memory_still_needed(tdmi_graph *g) { g->bucket[1].offset = g->bucket[0].offset; }
static void behind_the_gradients(tdmi_graph *g) { g->bucket[1].offset = g->gradient_nbytes; }
static void no_verdict(tdmi_graph *g) { drop_last_of(g, at(g, TDMI_OP_VERDICT, "verdict")); }
static void verdict_too_early(tdmi_graph *g) { move(g, at(g, TDMI_OP_VERDICT, "verdict"), at_bucket(g, TDMI_OP_BUCKET_WAIT, 1)); }
static void two_verdicts(tdmi_graph *g)
{
    const tdmi_node again = g->node[at(g, TDMI_OP_VERDICT, "verdict")];
    assert_true(tdmi_graph_add_node(g, &again) >= 0);
}
static void updated_before_verdict(tdmi_graph *g)
{
    move(g, at_bucket(g, TDMI_OP_UPDATE, 0), at(g, TDMI_OP_VERDICT, "verdict"));
}
static void ready_before_update(tdmi_graph *g)
{
    move(g, at_bucket(g, TDMI_OP_PARAMETERS_READY, 0), at_bucket(g, TDMI_OP_UPDATE, 0));
}
static void read_after_update(tdmi_graph *g) /* a backward node that reads a weight of bucket 0, behind everything */
{
    g->node[at_bucket(g, TDMI_OP_UPDATE, 0)].phase = TDMI_PHASE_COMMUNICATION;
    for (int b = 0; b < g->bucket_count; b++)
        g->node[at_bucket(g, TDMI_OP_UPDATE, b)].phase = TDMI_PHASE_COMMUNICATION;
    tdmi_node reader = g->node[at(g, TDMI_OP_LINEAR_BACKWARD_INPUT, "down")];
    tdmi_tensor again = *tensor(g, "d.gelu");
    strcpy(again.name, "again");
    tdmi_tensor dy = *tensor(g, "d.down");
    strcpy(dy.name, "dy");
    dy.role = TDMI_ROLE_INPUT;
    dy.producer = -1;
    dy.offset = g->slab_nbytes;
    again.offset = dy.offset + 256;
    g->slab_nbytes += 1024;
    reader.in[0] = tdmi_graph_add_tensor(g, &dy);
    reader.out[0] = tdmi_graph_add_tensor(g, &again);
    assert_true(tdmi_graph_add_node(g, &reader) >= 0);
}

static char unknown_op_text[64]; /* has the number of ops, which grows */

static const struct {
    const char *name;
    void (*breaks)(tdmi_graph *g);
    const char *text;
} cases[] = {
    {"unknown_op", unknown_op, unknown_op_text},
    {"input_out_of_range", input_out_of_range, "node 3 (layernorm ln): input w is tensor"},
    {"output_out_of_range", output_out_of_range, "node 3 (layernorm ln): output y is tensor"},
    {"input_missing", input_missing, "(linear up): an input is missing"},
    {"input_too_few", input_too_few, "(linear up): it has 2 inputs and 1 outputs instead of 3 and 1"},
    {"made_twice", made_twice, "(residual first): it makes attention, which is made by node 5"},
    {"producer_makes_it_not", producer_makes_it_not, "(linear up): it makes up, which is made by node 8"},
    {"nobody_makes_it", nobody_makes_it, "no node makes up"},
    {"input_is_made", input_is_made, "tokens (input) cannot be made by node 2"},
    {"no_name", no_name, "has no name"},
    {"no_size", no_size, "the shape of up: each dimension must be 1 or more"},
    {"no_role", no_role, "up has the role 9, which does not exist"},
    {"shapes_differ", shapes_differ, "(embedding embedding): wpe must have at least T rows (positions)"},
    {"alias_of_later", alias_of_later, "up shares the memory of a later tensor"},
    {"alias_of_other_size", alias_of_other_size, "gelu shares the memory of ln but has another size"},
    {"alias_of_parameter", alias_of_parameter, "gelu (activation) shares the memory of wte (parameter)"},
    {"alias_out_of_bucket", alias_out_of_bucket, "d.down.weight shares memory with gelu, but only one of them lies in a bucket"},
    {"gradient_of_nothing", gradient_of_nothing, "d.wpe is the gradient of no parameter"},
    {"gradient_of_other_shape", gradient_of_other_shape, "d.wpe has another shape than its parameter"},
    {"gradient_of_another", gradient_of_another, "the gradient of parameter wpe belongs to something else"},
    {"adds_where_op_cannot", adds_where_op_cannot, "(gelu gelu): it cannot add to this output"},
    {"same_draws", same_draws, "(draw_mask drop2): it draws the same numbers as node 1 (drop)"},
    {"phase_too_late", phase_too_late, "node 3 (layernorm ln): a forward node after a backward node"},
    {"loss_is_no_output", loss_is_no_output, "the loss is no output"},
    {"heads_do_not_divide", heads_do_not_divide, "(attention attention): the width C must be divisible by the number of heads"},

    {"read_before_made", read_before_made, "(gelu gelu): it reads up before node 8 makes it"},
    {"overwritten_by_alias", overwritten_by_alias, "(attention_backward attention): it reads attention, which node 6 (residual) has overwritten"},
    {"adds_to_nothing", adds_to_nothing, "(linear_backward_input down): it adds to d.gelu, which shares no earlier memory"},
    {"adds_to_what_is_gone", adds_to_what_is_gone, "(linear_backward_input up): it adds to d.first, but d.second is not in that memory"},
    {"sum_is_overwritten", sum_is_overwritten, "(embedding_backward embedding): it overwrites d.wte without adding to it"},
    {"in_place_where_op_cannot", in_place_where_op_cannot, "(layernorm ln): it cannot write ln in the memory of its input x"},
    {"off_the_line", off_the_line, "not on a cache line"},
    {"behind_the_slab", behind_the_slab, "up ends behind the slab of"},
    {"alias_lies_apart", alias_lies_apart, "drop lies apart from embedding, whose memory it shares"},
    {"output_on_input", output_on_input, "(linear qkv): its output qkv lies on its input ln"},
    {"outputs_on_each_other", outputs_on_each_other, "(attention attention): its outputs attention.lse and attention lie on each other"},
    {"overwritten_by_place", overwritten_by_place, "(linear_backward_weight qkv): it reads ln, which node 8 (gelu) has overwritten"},
    {"loss_is_overwritten", loss_is_overwritten, "(verdict verdict): it reads loss, which node 28 (linear_backward_input) has overwritten"},
    {"input_is_overwritten", input_is_overwritten, "targets must hold to the end of the step, but is overwritten here"},

    {"no_micro_batch", no_micro_batch, "a step has 0 micro-batches"},
    {"parameter_without_gradient", parameter_without_gradient, "parameter wpe has no gradient"},
    {"buckets_are_gone", buckets_are_gone, "there are no buckets"},
    {"elements_are_lost", elements_are_lost, "the buckets hold 639 elements, the parameters have 640"},
    {"gradient_lies_apart", gradient_lies_apart, "d.wpe does not lie where its parameter does"},
    {"in_no_bucket", in_no_bucket, "parameter wpe is in no bucket"},
    {"behind_the_bucket", behind_the_bucket, "parameter wpe ends behind bucket"},
    {"on_each_other", on_each_other, "parameters ln.weight and ln.bias lie on each other"},
    {"never_started", never_started, "bucket 1 is never started"},
    {"started_twice", started_twice, "(bucket_start of bucket 0): the bucket has one already"},
    {"of_a_bucket_too_many", of_a_bucket_too_many, "bucket 99 of"},
    {"starts_out_of_order", starts_out_of_order, "(bucket_start of bucket 1): it starts before bucket 0"},
    {"starts_before_gradient", starts_before_gradient, "(bucket_start of bucket 0): it starts before node 20 (linear_backward_weight down) has written a gradient of it"},
    {"starts_before_reader", starts_before_reader, "(bucket_start of bucket 0): it starts before node 21 (linear_backward_input down) has read a parameter of it"},
    {"waits_before_start", waits_before_start, "(bucket_wait of bucket 0): it waits for a bucket that starts at node"},
    {"never_waited_for", never_waited_for, "bucket 1 is never waited for"},
    {"never_ready", never_ready, "bucket 1 is never made ready for its readers"},
    {"never_updated", never_updated, "bucket 1 is never updated"},
    {"memory_still_needed", memory_still_needed, "it writes gradients of bucket 1 over bucket 0, which is needed until node"},
    {"behind_the_gradients", behind_the_gradients, "bucket 1 ends behind the gradients' slab"},
    {"no_verdict", no_verdict, "the verdict must know bucket 0"},
    {"verdict_too_early", verdict_too_early, "(verdict verdict): the verdict must know bucket 1"},
    {"two_verdicts", two_verdicts, "a step has one verdict"},
    {"updated_before_verdict", updated_before_verdict, "(update of bucket 0): it updates before the verdict"},
    {"ready_before_update", ready_before_update, "(parameters_ready of bucket 0): its parameters are not new before node"},
    {"read_after_update", read_after_update, "(linear_backward_input down) has read a parameter of it"},
};

static void each_broken_rule_is_seen_and_named(void **state)
{
    (void)state;
    tdmi_graph *whole = step_graph();
    snprintf(unknown_op_text, sizeof unknown_op_text, "node 3 (unknown ln): op %d does not exist", (int)TDMI_OP_COUNT);
    int missed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tdmi_graph *g = tdmi_graph_copy(whole);
        cases[i].breaks(g);
        const tdm_status st = tdmi_graph_verify(g);
        if (st != TDM_ERR_INTERNAL || strstr(tdm_error_text(), cases[i].text) == NULL) {
            print_error("%s: expected \"%s\" in \"%s\"\n", cases[i].name, cases[i].text, st == TDM_OK ? "ok" : tdm_error_text());
            missed++;
        }
        tdmi_graph_destroy(g);
    }
    tdmi_graph_destroy(whole);
    assert_int_equal(missed, 0);
}

/* A parameter that goes on in a second bucket. */
static void parts_of_a_parameter_follow_each_other(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    const tdmi_pipeline_options options = {.train = true, .world_size = 2, .bucket_cap_mb = 0.0002, .shard = 1};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    int b = 1;
    while (!g->bucket[b].joined)
        assert_true(++b < g->bucket_count);
    g->bucket[b].joined = false;
    assert_int_equal(tdmi_graph_verify(g), TDM_ERR_INTERNAL);
    assert_non_null(strstr(tdm_error_text(), " ends behind bucket "));
    g->bucket[b].joined = true;
    assert_int_equal(tdmi_graph_verify(g), TDM_OK);
    g->bucket[b].offset += 128;
    g->gradient_nbytes += 128;
    assert_int_equal(tdmi_graph_verify(g), TDM_ERR_INTERNAL);
    assert_non_null(strstr(tdm_error_text(), ", which holds the beginning of a parameter"));
    tdmi_graph_destroy(g);
}

static void a_builders_error_comes_before_all_rules(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    (void)tdmi_attention(g, "wrong", tdmi_graph_find(g, "qkv"), 5);
    assert_int_equal(tdmi_graph_verify(g), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "wrong"));
    tdmi_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_broken_rule_is_seen_and_named),
        cmocka_unit_test(parts_of_a_parameter_follow_each_other),
        cmocka_unit_test(a_builders_error_comes_before_all_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
