/* test_inplace.c - which results take an input's memory, and that none does while somebody still reads it. */
#include "../graph/small.h"
#include "interpret.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *memory_of(const tdmi_graph *g, const char *name)
{
    return g->tensor[tdmi_graph_root(g, tdmi_graph_find(g, name))].name;
}

static tdmi_graph *placed(tdmi_graph *g, bool train)
{
    const tdmi_pipeline_options options = {.train = train, .unfused = true, .world_size = 1, .clip = true, .shard = 1};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    return g;
}

static void in_training_only_what_backward_does_not_read_is_overwritten(void **state)
{
    (void)state;
    tdmi_graph *g = placed(small_graph(0.1f), true);
    assert_string_equal(memory_of(g, "drop"), "embedding"); /* dropout's backward needs the mask alone */
    assert_string_equal(memory_of(g, "second"), "down");    /* branch, its dropout, and the sum in one memory */
    assert_string_equal(memory_of(g, "gelu"), "gelu");      /* up is read by gelu's backward */
    assert_string_equal(memory_of(g, "first"), "first");    /* both of its inputs are read later */
    assert_string_equal(memory_of(g, "d.head"), "head");    /* dlogits in logits' memory */
    assert_string_equal(memory_of(g, "d.up"), "d.gelu");
    assert_string_equal(memory_of(g, "d.down"), "d.down"); /* d.second goes on to the residual's other input */
    tdmi_graph_destroy(g);
}

static void without_backward_a_stream_stays_in_one_memory(void **state)
{
    (void)state;
    tdmi_graph *g = placed(small_graph(0), false);
    assert_string_equal(memory_of(g, "first"), "embedding");
    assert_string_equal(memory_of(g, "second"), "embedding");
    assert_string_equal(memory_of(g, "gelu"), "up");
    tdmi_graph_destroy(g);
}

static void outputs_inputs_and_parameters_are_never_overwritten(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_graph_create("kept");
    const tdmi_id x = tdmi_graph_input(g, "x", TDM_F32, 2, (const int64_t[]){2, 3});
    const tdmi_id w = small_parameter(g, "w", 2, 3);
    const tdmi_id a = tdmi_residual(g, "a", x, w), b = tdmi_gelu(g, "b", a);
    tdmi_graph_output(g, a);
    tdmi_graph_output(g, tdmi_gelu(g, "c", b));
    (void)placed(g, false);
    assert_string_equal(memory_of(g, "a"), "a");
    assert_string_equal(memory_of(g, "b"), "b");
    assert_string_equal(memory_of(g, "c"), "b"); /* an output may itself take memory */
    tdmi_graph_destroy(g);
}

static void a_view_keeps_what_it_views_alive(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_graph_create("view");
    const tdmi_id x = tdmi_graph_input(g, "x", TDM_F32, 2, (const int64_t[]){2, 6});
    const tdmi_id y = tdmi_gelu(g, "y", x), view = tdmi_reshape(g, y, 2, (const int64_t[]){3, 4});
    tdmi_graph_output(g, tdmi_gelu(g, "z", y));
    tdmi_graph_output(g, tdmi_gelu(g, "late", view));
    (void)placed(g, false);
    assert_string_equal(memory_of(g, "z"), "z");
    assert_string_equal(memory_of(g, "late"), "y");
    tdmi_graph_destroy(g);
}

static void results_are_the_same_in_place_or_not(void **state)
{
    (void)state;
    tdmi_graph *g = odd_graph();
    assert_int_equal(tdmi_pass_place(g), TDM_OK); /* forward without aliases */
    machine plain = machine_create(g);
    const double loss = machine_run(&plain);
    tdmi_graph *train = placed(odd_graph(), true), *eval = placed(odd_graph(), false);
    machine a = machine_create(train), b = machine_create(eval);
    assert_true(machine_run(&a) == loss);
    assert_true(machine_run(&b) == loss);
    machine_destroy(&a);
    machine_destroy(&b);
    machine_destroy(&plain);
    tdmi_graph_destroy(train);
    tdmi_graph_destroy(eval);
    tdmi_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_training_only_what_backward_does_not_read_is_overwritten),
        cmocka_unit_test(without_backward_a_stream_stays_in_one_memory),
        cmocka_unit_test(outputs_inputs_and_parameters_are_never_overwritten),
        cmocka_unit_test(a_view_keeps_what_it_views_alive),
        cmocka_unit_test(results_are_the_same_in_place_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
