/* test_autodiff.c - the structure of backward, and its numbers against differences of the loss. */
#include "../graph/small.h"
#include "interpret.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const tdmi_pipeline_options options = {.train = true, .world_size = 1, .clip = true, .shard = 1};

static int nodes_of(const tdmi_graph *g, tdmi_op op)
{
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->node[i].op == op;
    return count;
}

static int at(const tdmi_graph *g, tdmi_op op, const char *label)
{
    for (int i = 0; i < g->node_count; i++)
        if (g->node[i].op == op && strcmp(g->node[i].label, label) == 0)
            return i;
    fail_msg("no %s %s", tdmi_op_text(op), label);
    return -1;
}

static tdmi_graph *derived(tdmi_graph *g)
{
    assert_int_equal(tdmi_graph_status(g), TDM_OK);
    assert_int_equal(tdmi_pass_autodiff(g), TDM_OK);
    assert_int_equal(tdmi_graph_verify(g), TDM_OK);
    return g;
}

static void a_tied_weight_is_written_by_the_head_and_added_to_by_the_embedding_last(void **state)
{
    (void)state;
    tdmi_graph *g = derived(small_graph(0));
    const int head = at(g, TDMI_OP_LINEAR_BACKWARD_WEIGHT, "head"), last = g->node_count - 1;
    assert_int_equal(g->node[last].op, TDMI_OP_EMBEDDING_BACKWARD);
    const tdmi_id first = g->node[head].out[0], sum = g->node[last].out[0], wte = tdmi_graph_find(g, "wte");
    assert_int_equal(g->node[head].attr.accumulate, 0);
    assert_int_equal(g->node[last].attr.accumulate, 1); /* dwte is added to, dwpe is written */
    assert_int_equal(g->tensor[sum].alias, first);
    assert_int_equal(g->tensor[wte].gradient, sum);
    assert_int_equal(g->tensor[first].parameter, wte);
    tdmi_graph_destroy(g);
}

static void a_residual_hands_its_gradient_on_without_a_node(void **state)
{
    (void)state;
    tdmi_graph *g = derived(small_graph(0));
    assert_int_equal(nodes_of(g, TDMI_OP_ADD), 0);
    const tdmi_node *up = &g->node[at(g, TDMI_OP_LINEAR_BACKWARD_INPUT, "up")];
    const tdmi_node *norm = &g->node[at(g, TDMI_OP_LAYERNORM_BACKWARD, "ln")];
    const tdmi_id stream = g->node[at(g, TDMI_OP_LINEAR_BACKWARD_INPUT, "head")].out[0];
    assert_int_equal(tdmi_graph_root(g, up->out[0]), stream); /* one memory for the gradient of the stream, all the way */
    assert_int_equal(tdmi_graph_root(g, norm->out[0]), stream);
    assert_int_equal(up->attr.accumulate, 1);
    assert_int_equal(norm->attr.accumulate, 1);
    tdmi_graph_destroy(g);
}

static void a_gradient_is_not_added_to_while_another_needs_it(void **state)
{
    (void)state;
    tdmi_graph *g = derived(odd_graph());
    const tdmi_node *linear = &g->node[at(g, TDMI_OP_LINEAR_BACKWARD_INPUT, "linear")];
    const tdmi_node *norm = &g->node[at(g, TDMI_OP_LAYERNORM_BACKWARD, "norm")];
    assert_int_equal(linear->attr.accumulate, 0); /* its dy is the memory it would add to */
    assert_int_equal(norm->attr.accumulate, 0);
    (void)at(g, TDMI_OP_ADD, "linear");
    (void)at(g, TDMI_OP_ADD, "norm");
    (void)at(g, TDMI_OP_ADD, "twice"); /* x + x: dy + dy */
    tdmi_graph_destroy(g);
}

static void weights_come_before_inputs_and_tokens_get_no_gradient(void **state)
{
    (void)state;
    tdmi_graph *g = derived(small_graph(0));
    for (int i = 0; i < g->node_count; i++)
        if (g->node[i].op == TDMI_OP_LINEAR_BACKWARD_INPUT) {
            assert_int_equal(g->node[i - 1].op, TDMI_OP_LINEAR_BACKWARD_WEIGHT);
            assert_string_equal(g->node[i - 1].label, g->node[i].label);
        }
    assert_int_equal(tdmi_graph_find(g, "d.tokens"), -1);
    assert_int_equal(nodes_of(g, TDMI_OP_EMBEDDING_BACKWARD), 1);
    tdmi_graph_destroy(g);
}

static void a_linear_on_data_has_no_input_gradient(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_graph_create("data");
    const tdmi_id x = tdmi_graph_input(g, "x", TDM_F32, 2, (const int64_t[]){3, 4});
    const tdmi_id targets = tdmi_graph_input(g, "targets", TDM_I32, 1, (const int64_t[]){3});
    (void)tdmi_cross_entropy(g, "loss", small_linear(g, "linear", x, 4, 5, true), targets);
    (void)derived(g);
    assert_int_equal(nodes_of(g, TDMI_OP_LINEAR_BACKWARD_INPUT), 0);
    assert_int_equal(nodes_of(g, TDMI_OP_LINEAR_BACKWARD_WEIGHT), 1);
    tdmi_graph_destroy(g);
}

static double sign(size_t i)
{
    return i * i % 7 < 3 ? -1.0 : 1.0;
}

/* (loss(p + h v) - loss(p - h v)) / 2h against g.v, for one parameter's v of fixed signs. */
static void compare_with_differences(machine *m, tdmi_id p)
{
    const double h = 2e-3;
    const size_t count = tdmi_shape_count(&m->g->tensor[p].shape);
    float kept[256];
    assert_true(count <= 256);
    memcpy(kept, m->parameters[p], count * sizeof(float));
    (void)machine_run(m);
    double expected = 0, loss[2];
    for (size_t i = 0; i < count; i++) {
        assert_true(isfinite(machine_gradient(m, p)[i]));
        expected += machine_gradient(m, p)[i] * sign(i);
    }
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < count; i++)
            m->parameters[p][i] = kept[i] + (float)((side == 0 ? h : -h) * sign(i));
        loss[side] = machine_run(m);
    }
    memcpy(m->parameters[p], kept, count * sizeof(float));
    const double found = (loss[0] - loss[1]) / (2 * h);
    if (fabs(found - expected) > 5e-4 * (1 + fabs(expected))) /* h^2 of the difference, float32 of the loss */
        fail_msg("%s: gradient %g, difference %g", m->g->tensor[p].name, expected, found);
}

static void gradients_are_those_of_the_loss(void **state)
{
    (void)state;
    tdmi_graph *graphs[] = {small_graph(0), small_graph(0.25f), odd_graph()};
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        tdmi_graph *g = graphs[i];
        assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
        machine m = machine_create(g);
        for (int t = 0; t < g->tensor_count; t++)
            if (g->tensor[t].role == TDMI_ROLE_PARAMETER)
                compare_with_differences(&m, t);
        machine_destroy(&m);
        tdmi_graph_destroy(g);
    }
}

static void expect_error(tdmi_graph *g, tdm_status status, const char *text)
{
    assert_int_equal(tdmi_graph_status(g), TDM_OK);
    assert_int_equal(tdmi_pass_autodiff(g), status);
    if (strstr(tdm_error_text(), text) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", text, tdm_error_text());
    tdmi_graph_destroy(g);
}

static void what_has_no_gradient_is_an_error(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_graph_create("empty");
    expect_error(g, TDM_ERR_INVALID, "graph empty has no loss to derive");

    g = small_graph(0);
    (void)small_parameter(g, "forgotten", 3, 3);
    expect_error(g, TDM_ERR_INVALID, "the loss does not depend on parameter forgotten, so it would never learn");

    g = derived(small_graph(0));
    expect_error(g, TDM_ERR_INVALID, "graph small has backward nodes already");

    g = tdmi_graph_create("sum");
    const tdmi_id x = small_parameter(g, "logits", 3, 5);
    const tdmi_id targets = tdmi_graph_input(g, "targets", TDM_I32, 1, (const int64_t[]){3});
    (void)tdmi_cross_entropy(g, "loss", tdmi_residual(g, "twice", x, x), targets);
    expect_error(g, TDM_ERR_UNSUPPORTED, "parameter logits cannot be used by residual twice");
}

/* gelu cannot add to its input's gradient: fine where it is written once a step. */
static tdmi_graph *gelu_of_a_parameter(int micro_batches)
{
    tdmi_graph *g = tdmi_graph_create("bent");
    const tdmi_id targets = tdmi_graph_input(g, "targets", TDM_I32, 1, (const int64_t[]){3});
    (void)tdmi_cross_entropy(g, "loss", tdmi_gelu(g, "bend", small_parameter(g, "logits", 3, 5)), targets);
    assert_int_equal(tdmi_pass_accumulate(g, &(tdmi_pipeline_options){.micro_batches = micro_batches}), TDM_OK);
    return g;
}

static void a_gradient_that_cannot_be_added_to_allows_one_micro_batch(void **state)
{
    (void)state;
    expect_error(gelu_of_a_parameter(2), TDM_ERR_UNSUPPORTED, "parameter logits cannot be used by gelu bend");
    tdmi_graph *g = derived(gelu_of_a_parameter(0));
    assert_int_equal(tdmi_graph_verify(g), TDM_OK);
    g->micro_batches = 2; /* a later pass must not come to this */
    assert_int_equal(tdmi_graph_verify(g), TDM_ERR_INTERNAL);
    assert_non_null(strstr(tdm_error_text(), "(gelu_backward bend): it cannot add to d.logits, as a step of 2 micro-batches must"));
    tdmi_graph_destroy(g);
}

static void the_mean_of_the_loss_is_over_all_micro_batches(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    assert_int_equal(tdmi_pass_accumulate(g, &(tdmi_pipeline_options){.micro_batches = 3}), TDM_OK);
    assert_int_equal(g->micro_batches, 3);
    g = derived(g);
    int losses = 0;
    for (int i = 0; i < g->node_count; i++)
        if (g->node[i].op == TDMI_OP_CROSS_ENTROPY || g->node[i].op == TDMI_OP_CROSS_ENTROPY_BACKWARD) {
            assert_int_equal(g->node[i].attr.micro_batches, 3);
            losses++;
        }
    assert_int_equal(losses, 2);
    tdmi_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tied_weight_is_written_by_the_head_and_added_to_by_the_embedding_last),
        cmocka_unit_test(a_residual_hands_its_gradient_on_without_a_node),
        cmocka_unit_test(a_gradient_is_not_added_to_while_another_needs_it),
        cmocka_unit_test(weights_come_before_inputs_and_tokens_get_no_gradient),
        cmocka_unit_test(a_linear_on_data_has_no_input_gradient),
        cmocka_unit_test(gradients_are_those_of_the_loss),
        cmocka_unit_test(a_gradient_that_cannot_be_added_to_allows_one_micro_batch),
        cmocka_unit_test(the_mean_of_the_loss_is_over_all_micro_batches),
        cmocka_unit_test(what_has_no_gradient_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
