/* test_filter.c - the iteration that HTA drops. */
#include "small_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Two iterations, a kernel each, launched in them. */
static void write_two_steps(small_job *job, int rank)
{
    begin_rank(job, rank);
    add_step(job, 1, "1000", "100");
    add_step(job, 2, "1100", "100");
    add_call(job, "cudaLaunchKernel", "1010", "5", 11);
    add_call(job, "cudaLaunchKernel", "1110", "5", 12);
    add_kernel(job, "before the window", "1000", "5", 7, 10);
    add_kernel(job, "first", "1050", "10", 7, 11);
    add_kernel(job, "second", "1150", "20", 7, 12);
}

static void the_last_iteration_and_what_it_launched_are_dropped(void **state)
{
    (void)state;
    small_job job = {0};
    write_two_steps(&job, 0);
    const tdmi_hta_figures *f = figures_of(&job);
    assert_true(f->rank[0].rows == 3); /* the first step, its call, its kernel */
    assert_int_equal(f->step_count, 1);
    assert_true(f->step[0] == 1);
    assert_us(f->rank[0].temporal.span_ns, 10);
    assert_us(f->rank[0].temporal_with_last.span_ns, 120); /* but a kernel launched before the window stays out */
    assert_true(f->first_ns == 1000000);
    end_job(&job);
}

static void one_iteration_is_kept(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_step(&job, 1, "1000", "100");
    add_kernel(&job, "before the window", "900", "5", 7, 10);
    const tdmi_hta_figures *f = figures_of(&job);
    assert_true(f->rank[0].rows == 2);
    assert_true(f->first_ns == 900000);
    end_job(&job);
}

static void two_names_over_all_ranks_are_enough(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_step(&job, 1, "1000", "100");
    add_op(&job, "early", "990", "5");
    begin_rank(&job, 1);
    add_step(&job, 2, "1000", "100");
    begin_rank(&job, 2);
    add_op(&job, "without a step", "990", "5");
    const tdmi_hta_figures *f = figures_of(&job);
    assert_true(f->rank[0].rows == 1 && f->rank[1].rows == 0 && f->rank[2].rows == 0);
    end_job(&job);
}

static void an_annotation_of_the_gpu_moves_the_limit(void **state)
{
    (void)state;
    small_job job = {0};
    write_two_steps(&job, 0);
    add_event(&job, "\"ph\": \"X\", \"cat\": \"gpu_user_annotation\", \"name\": \"ProfilerStep#2\", \"pid\": 0, \"tid\": 7, \"ts\": 1150, \"dur\": 20, "
                    "\"args\": {}");
    const tdmi_hta_figures *f = figures_of(&job);
    assert_us(f->rank[0].temporal.span_ns, 120); /* first and second: the second call is before 1150 */
    assert_int_equal(f->step_count, 2);
    end_job(&job);
}

static void a_kernel_stays_once_for_each_of_its_calls(void **state)
{
    (void)state;
    small_job job = {0};
    write_two_steps(&job, 0);
    add_call(&job, "cudaGraphLaunch", "1020", "5", 11);
    const tdmi_hta_figures *f = figures_of(&job);
    assert_true(f->rank[0].rows == 5); /* step, two calls, the kernel twice */
    const tdmi_hta_table_row *row = &f->rank[0].kernel[0];
    assert_string_equal(row->name, "first");
    assert_us(row->sum_ns, 20);
    assert_us(row->mean_ns, 10);
    assert_true(f->rank[0].launches.count == 4);
    end_job(&job);
}

static void synchronisations_without_a_stream_are_rows_of_the_device(void **state)
{
    (void)state;
    small_job job = {0};
    write_two_steps(&job, 0);
    add_call(&job, "cudaDeviceSynchronize", "1060", "5", 20);
    add_gpu(&job, "cuda_sync", "Context Sync", "1060", "5", -1, 20); /* kept with its call */
    add_gpu(&job, "cuda_sync", "Event Sync", "1060", "5", -1, 21);   /* without one */
    add_gpu(&job, "cuda_sync", "Context Sync", "1070", "5", -1, -1); /* once for each kept row without a correlation: the step */
    const tdmi_hta_figures *f = figures_of(&job);
    assert_true(f->rank[0].rows == 6);
    end_job(&job);
}

static void many_calls_of_one_correlation_are_refused(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    for (int i = 0; i < 1200; i++) {
        add_call(&job, "cudaLaunchKernel", "10", "5", 1);
        add_kernel(&job, "k", "20", "5", 7, 1);
    }
    assert_int_equal(compute(&job), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "of 1200 kernels"));
    end_job(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_iteration_and_what_it_launched_are_dropped),
        cmocka_unit_test(one_iteration_is_kept),
        cmocka_unit_test(two_names_over_all_ranks_are_enough),
        cmocka_unit_test(an_annotation_of_the_gpu_moves_the_limit),
        cmocka_unit_test(a_kernel_stays_once_for_each_of_its_calls),
        cmocka_unit_test(synchronisations_without_a_stream_are_rows_of_the_device),
        cmocka_unit_test(many_calls_of_one_correlation_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
