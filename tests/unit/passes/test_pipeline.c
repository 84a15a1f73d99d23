/* test_pipeline.c - the order of the passes, what --explain shows, and that a failure names its pass. */
#include "../graph/small.h"
#include "core/memory.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const tdmi_pipeline_options train = {.train = true, .world_size = 2, .clip = true, .shard = 1};

static void evaluation_has_forward_nodes_and_memory_alone(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    const int nodes = g->node_count;
    const tdmi_pipeline_options options = {.train = false};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    assert_int_equal(g->node_count, nodes);
    assert_int_equal(g->bucket_count, 0);
    assert_true(g->slab_nbytes > 0);
    tdmi_graph_destroy(g);
}

static void the_same_graph_gives_the_same_plan(void **state)
{
    (void)state;
    char *text[2];
    for (int i = 0; i < 2; i++) {
        tdmi_graph *g = small_graph(0.1f);
        assert_int_equal(tdmi_pipeline_run(g, &train), TDM_OK);
        text[i] = tdmi_graph_print(g);
        tdmi_graph_destroy(g);
    }
    assert_string_equal(text[0], text[1]);
    tdmi_free(text[0]);
    tdmi_free(text[1]);
}

static void an_explanation_has_a_line_a_pass_the_nodes_and_the_memory(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    const int nodes = g->node_count;
    char *text = tdmi_pipeline_explain(g, &train);
    const char *parts[] = {"model ", "\naccumulate ", "\nautodiff ", "\nremat ", "\ninplace ", "\nbucket ", "\nshard ", "\nplace ", "\ngraph small: ",
                           "\nbucket 0: 9 parameters, 640 elements", "parameters_ready", "\nmemory of a step: "};
    const char *at = text;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *next = strstr(at, parts[i]);
        if (next == NULL)
            fail_msg("no \"%s\" in its place in:\n%s", parts[i], text);
        at = next;
    }
    assert_int_equal(g->node_count, nodes); /* it works on a copy */
    tdmi_free(text);
    tdmi_graph_destroy(g);
}

static void a_failure_names_its_pass(void **state)
{
    (void)state;
    tdmi_graph *g = small_graph(0);
    (void)small_parameter(g, "forgotten", 2, 2);
    assert_null(tdmi_pipeline_explain(g, &train));
    assert_non_null(strstr(tdm_error_text(), "forgotten"));
    assert_int_equal(tdmi_pipeline_run(g, &train), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "while running pass autodiff"));
    tdmi_graph_destroy(g);

    g = small_graph(0);
    g->node[2].in[0] = g->tensor_count;
    assert_int_equal(tdmi_pipeline_run(g, &train), TDM_ERR_INTERNAL);
    assert_non_null(strstr(tdm_error_text(), "while looking at the model's graph before any pass"));
    tdmi_graph_destroy(g);
}

static void nothing_is_left_behind(void **state)
{
    (void)state;
    const size_t held = tdmi_memory_held();
    tdmi_graph *g = small_graph(0.1f);
    tdmi_free(tdmi_pipeline_explain(g, &train));
    assert_int_equal(tdmi_pipeline_run(g, &train), TDM_OK);
    tdmi_graph_destroy(g);
    assert_int_equal(tdmi_memory_held(), held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluation_has_forward_nodes_and_memory_alone),
        cmocka_unit_test(the_same_graph_gives_the_same_plan),
        cmocka_unit_test(an_explanation_has_a_line_a_pass_the_nodes_and_the_memory),
        cmocka_unit_test(a_failure_names_its_pass),
        cmocka_unit_test(nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
