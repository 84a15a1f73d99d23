/* test_weights.c - parameters out of files: names, turned shapes, and what does not fit. */
#include "train/weights.h"

#include "core/cpu.h"
#include "core/memory.h"
#include "files.h"
#include "small.h"
#include "train/step_graph.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const tdmi_model *model;
static tdmi_graph *graph;
static tdmi_exec *exec;

static int begin(void **state)
{
    tdmi_exec_options options = {.isa = tdmi_cpu_isa()};
    model = tdmi_model_find("gpt2");
    return files_begin(state) != 0 || tdmi_window_graph(model, &small_config, TDMI_BUILD_LOSS, TDM_F32, NULL, &graph) != TDM_OK ||
           tdmi_exec_create(graph, &options, &exec) != TDM_OK;
}

static int end(void **state)
{
    tdmi_exec_destroy(exec);
    tdmi_graph_destroy(graph);
    return files_end(state);
}

/* How a file may differ from the model. */
typedef struct difference {
    const char *prefix;
    const char *without, *reshaped; /* parameters */
    uint64_t shape[3];
    int ndim;
} difference;

/* Every element of parameter number k is k + its place in the graph's order / 1024. */
static float value_of(int k, size_t i)
{
    return (float)k + (float)i / 1024;
}

static const char *write_weights(const char *name, const difference *d)
{
    tdmi_layout *layout;
    tdmi_safetensors_writer *writer;
    const char *path = files_path(name);
    assert_int_equal(tdmi_layout_create(&layout), TDM_OK);
    assert_int_equal(tdmi_layout_add(layout, "h.0.attn.bias", 4, (uint64_t[]){1, 1, 2, 2}), TDM_OK); /* a mask, not of the graph */
    for (tdmi_id t = 0; t < graph->tensor_count; t++) {
        const tdmi_tensor *p = &graph->tensor[t];
        char as[160];
        uint64_t shape[2];
        if (p->role != TDMI_ROLE_PARAMETER || (d->without != NULL && strcmp(d->without, p->name) == 0))
            continue;
        snprintf(as, sizeof as, "%s%s", d->prefix, p->name);
        tdmi_weights_file_shape(model, p, shape);
        bool other = d->reshaped != NULL && strcmp(d->reshaped, p->name) == 0;
        assert_int_equal(tdmi_layout_add(layout, as, other ? d->ndim : p->shape.ndim, other ? d->shape : shape), TDM_OK);
    }
    assert_int_equal(tdmi_safetensors_create(path, layout, &writer), TDM_OK);
    size_t index = 1;
    int k = 0;
    for (tdmi_id t = 0; t < graph->tensor_count; t++) {
        const tdmi_tensor *p = &graph->tensor[t];
        if (p->role != TDMI_ROLE_PARAMETER || (d->without != NULL && strcmp(d->without, p->name) == 0))
            continue;
        size_t count = tdmi_shape_count(&p->shape);
        float *values = tdmi_calloc(count, sizeof *values, "test");
        for (size_t i = 0; i < count; i++)
            values[i] = value_of(k, i);
        if (d->reshaped == NULL) {
            bool turned = p->shape.ndim == 2 && model->transposed(p->name);
            assert_int_equal(turned ? tdmi_safetensors_write_transposed(writer, index, 0, count, values)
                                    : tdmi_safetensors_write(writer, index, 0, count, values), TDM_OK);
        }
        tdmi_free(values);
        index++;
        k++;
    }
    assert_int_equal(tdmi_safetensors_sync(writer), TDM_OK);
    tdmi_safetensors_end(writer);
    tdmi_layout_destroy(layout);
    return path;
}

static tdm_status read_weights(const char *path)
{
    tdmi_safetensors *file;
    assert_int_equal(tdmi_safetensors_open(path, &file), TDM_OK);
    tdm_status st = tdmi_weights_read(file, path, model, graph, exec);
    tdmi_safetensors_close(file);
    return st;
}

static void names_with_and_without_a_prefix_are_found(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"", "transformer."};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(read_weights(write_weights(i == 0 ? "plain" : "prefix", &(difference){.prefix = prefixes[i]})), TDM_OK);
        int k = 0;
        for (tdmi_id t = 0; t < graph->tensor_count; t++) {
            if (graph->tensor[t].role != TDMI_ROLE_PARAMETER)
                continue;
            float *values = tdmi_exec_memory(exec, t);
            for (size_t n = 0; n < tdmi_shape_count(&graph->tensor[t].shape); n++)
                if (values[n] != value_of(k, n))
                    fail_msg("%s[%zu] is %g", graph->tensor[t].name, n, (double)values[n]);
            memset(values, 0, tdmi_shape_nbytes(&graph->tensor[t].shape));
            k++;
        }
    }
}

static void conv1d_of_hugging_face_is_in_out(void **state)
{
    (void)state;
    uint64_t shape[2];
    tdmi_weights_file_shape(model, &graph->tensor[tdmi_graph_find(graph, "h.0.mlp.c_fc.weight")], shape);
    assert_true(shape[0] == 16 && shape[1] == 64);
    tdmi_weights_file_shape(model, &graph->tensor[tdmi_graph_find(graph, "wte.weight")], shape);
    assert_true(shape[0] == 50 && shape[1] == 16);
    tdmi_weights_file_shape(model, &graph->tensor[tdmi_graph_find(graph, "ln_f.bias")], shape);
    assert_true(shape[0] == 16);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    assert_int_equal(read_weights(write_weights("without", &(difference){.prefix = "", .without = "h.0.ln_2.weight"})), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "/without: there is no tensor h.0.ln_2.weight; it holds another model"));
    static const struct {
        difference d;
        const char *expected;
    } cases[] = {
        {{"", NULL, "h.0.mlp.c_fc.weight", {64, 16}, 2}, "tensor h.0.mlp.c_fc.weight is [64, 16], the model needs [16, 64]"},
        {{"", NULL, "wte.weight", {51, 16}, 2}, "tensor wte.weight is [51, 16], the model needs [50, 16]"},
        {{"", NULL, "wte.weight", {800}, 1}, "tensor wte.weight is [800], the model needs [50, 16]"},
        {{"", NULL, "ln_f.bias", {16, 1}, 2}, "tensor ln_f.bias is [16, 1], the model needs [16]"},
        {{"transformer.", NULL, "ln_f.bias", {1, 1, 16}, 3}, "tensor ln_f.bias is [1, 1, 16], the model needs [16]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_weights(write_weights("wrong", &cases[i].d)), TDM_ERR_BAD_FILE);
        if (strstr(tdm_error_text(), cases[i].expected) == NULL)
            fail_msg("expected \"%s\", got \"%s\"", cases[i].expected, tdm_error_text());
        unlink(files_path("wrong"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_with_and_without_a_prefix_are_found),
        cmocka_unit_test(conv1d_of_hugging_face_is_in_out),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, begin, end) != 0;
}
