/* test_json.c - the figures as JSON and as text. */
#include "small_job.h"

#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static json_t *json_of(small_job *job)
{
    char *text;
    assert_int_equal(tdmi_hta_json(&job->traces, figures_of(job), &text), TDM_OK);
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    tdmi_free(text);
    return root;
}

static double number(const json_t *rows, size_t row, const char *name)
{
    return json_number_value(json_object_get(json_array_get(rows, row), name));
}

static void rows_have_htas_names_and_its_rounding(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 3);
    add_kernel(&job, "gemm", "100.000", "10.000", 7, 1);
    add_kernel(&job, "ncclKernel_AllReduce", "105.000", "25.000", 8, 2);
    add_kernel(&job, "gemm", "190.500", "9.250", 7, 3); /* 191 .. 199 */
    json_t *root = json_of(&job);
    json_t *t = json_object_get(root, "temporal_breakdown");
    assert_true(number(t, 0, "rank") == 3 && number(t, 0, "kernel_time(us)") == 99 && number(t, 0, "compute_time(us)") == 18);
    assert_true(number(t, 0, "compute_time_pctg") == 18.18 && number(t, 0, "idle_time(us)") == 61);
    assert_true(number(json_object_get(root, "comm_comp_overlap"), 0, "comp_comm_overlap_pctg") == 20);
    t = json_object_get(json_object_get(root, "unrounded"), "temporal_breakdown");
    assert_true(number(t, 0, "compute_time(us)") == 19.25 && number(t, 0, "kernel_time(us)") == 99.75);
    t = json_object_get(json_object_get(root, "kernel_breakdown_with_memory"), "kernel_type");
    assert_string_equal(json_string_value(json_object_get(json_array_get(t, 0), "kernel_type")), "COMMUNICATION");
    assert_true(number(t, 0, "sum") == 20 && number(t, 0, "percentage") == 52.6);
    assert_string_equal(json_string_value(json_object_get(json_array_get(t, 2), "kernel_type")), "COMPUTATION overlapping COMMUNICATION");
    t = json_object_get(json_object_get(root, "kernel_breakdown_with_memory"), "kernels");
    assert_string_equal(json_string_value(json_object_get(json_array_get(t, 0), "kernel_type")), "COMMUNICATION");
    assert_true(number(t, 1, "mean (us)") == 9 && number(t, 1, "rank") == 3);
    assert_true(json_is_null(json_object_get(root, "potential_stragglers"))); /* one rank */
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "files"), "3")), "small");
    assert_int_equal(json_object_size(json_object_get(root, "errors")), 0);
    json_decref(root);
    end_job(&job);
}

static void what_hta_cannot_compute_is_null_and_has_a_reason(void **state)
{
    (void)state;
    small_job job = {0};
    for (int rank = 0; rank < 2; rank++) {
        begin_rank(&job, rank);
        add_op(&job, "aten::mm", "10", "5");
    }
    json_t *root = json_of(&job);
    json_t *errors = json_object_get(root, "errors");
    assert_true(json_is_null(json_object_get(root, "temporal_breakdown")) && json_is_null(json_object_get(root, "temporal_breakdown_incl_last")));
    assert_non_null(strstr(json_string_value(json_object_get(errors, "temporal_breakdown")), "IndexError"));
    assert_non_null(strstr(json_string_value(json_object_get(errors, "incl_last")), "IndexError"));
    assert_non_null(strstr(json_string_value(json_object_get(errors, "potential_stragglers")), "ValueError"));
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(root, "comm_comp_overlap"), 1), "comp_comm_overlap_pctg")));
    assert_true(json_is_null(json_object_get(root, "unrounded"))); /* whole us: nothing is rounded */
    json_decref(root);
    end_job(&job);
}

static void text_fits_a_terminal(void **state)
{
    (void)state;
    small_job job = {0};
    char *text;
    for (int rank = 0; rank < 2; rank++) {
        begin_rank(&job, rank);
        add_step(&job, 1, "1", "1000");
        add_call(&job, "cudaLaunchKernel", "10", "5", 1);
        add_kernel(&job, "a kernel with a name that is so long that no table has room for all of it, whatever its width", "123456789", "98765432", 7, 1);
        add_event(&job, "\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy HtoD \\u0007\", \"pid\": 0, \"tid\": 7, \"ts\": 4, \"dur\": 5, "
                        "\"args\": {\"stream\": 7, \"correlation\": 2, \"memory bandwidth (GB/s)\": 12.5}");
    }
    assert_int_equal(tdmi_hta_text(&job.traces, figures_of(&job), &text), TDM_OK);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        assert_true(strlen(line) <= 100);
        for (const char *c = line; *c != '\0'; c++)
            assert_true(*c >= ' ' && *c <= '~');
    }
    tdmi_free(text);
    end_job(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_htas_names_and_its_rounding),
        cmocka_unit_test(what_hta_cannot_compute_is_null_and_has_a_reason),
        cmocka_unit_test(text_fits_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
