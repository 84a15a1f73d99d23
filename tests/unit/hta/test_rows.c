/* test_rows.c - which rows HTA has, its rounding, and what launched what. */
#include "small_job.h"

#include "hta/rank.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tdmi_hta_rank rank;

static const tdmi_hta_rank *rows_of(small_job *job, bool rounded)
{
    figures_of(job); /* finishes the trace */
    assert_int_equal(tdmi_hta_rank_read(job->trace[0], rounded, &rank), TDM_OK);
    assert_int_equal(tdmi_hta_rank_filter(&rank, TDMI_HTA_KEEP_ALL, 0), TDM_OK);
    return &rank;
}

static void forget(small_job *job)
{
    tdmi_hta_rank_free(&rank);
    end_job(job);
}

static void whole_us_are_left_alone(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "k", "1000", "7", 7, 1);
    assert_false(rows_of(&job, false)->trace->ns_times);
    assert_us(rank.kernel[0].start_ns, 1000);
    assert_us(rank.kernel[0].dur_ns, 7);
    forget(&job);
}

static void one_decimal_anywhere_moves_all_ends_inward(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "first", "1000.001", "5.500", 7, 1);  /* 1000.001 .. 1005.501 -> 1001 .. 1005 */
    add_kernel(&job, "second", "1010.200", "0.300", 7, 2); /* within one us: 1011 .. 1010 */
    add_kernel(&job, "whole", "1020", "3", 7, 3);
    assert_true(rows_of(&job, true)->trace->ns_times);
    assert_us(rank.kernel[0].start_ns, 1001);
    assert_us(rank.kernel[0].dur_ns, 4);
    assert_us(rank.kernel[1].start_ns, 1011);
    assert_us(rank.kernel[1].dur_ns, -1);
    assert_us(rank.kernel[2].start_ns, 1020);
    assert_us(rank.kernel[2].dur_ns, 3);
    forget(&job);
}

static void rounding_is_that_of_doubles(void **state)
{
    (void)state;
    /* at 1.7e15 us a step of doubles is 0.25 us */
    const tdmi_event low = {.start_ns = 1700000000000000100, .dur_ns = 900}, high = {.start_ns = 1700000000000000200, .dur_ns = 2000};
    int64_t start_ns, dur_ns;
    tdmi_hta_row_times(true, &low, &start_ns, &dur_ns);
    assert_true(start_ns == 1700000000000000000 && dur_ns == 1000); /* 0.1 is 0.0, and 0.0 + 0.9 is 1.0 */
    tdmi_hta_row_times(true, &high, &start_ns, &dur_ns);
    assert_true(start_ns == 1700000000000001000 && dur_ns == 1000);
    assert_true(tdmi_hta_row_start(true, &high) == start_ns && tdmi_hta_row_start(false, &high) == 1700000000000000200);
}

static void times_at_the_edge_do_not_overflow(void **state)
{
    (void)state;
    const tdmi_event edge = {.start_ns = INT64_MAX, .dur_ns = INT64_MAX}, other = {.start_ns = INT64_MIN, .dur_ns = INT64_MAX};
    int64_t start_ns, dur_ns;
    for (int rounded = 0; rounded < 2; rounded++) {
        tdmi_hta_row_times(rounded, &edge, &start_ns, &dur_ns);
        assert_true(start_ns == (int64_t)1 << 61 && dur_ns >= 0);
        tdmi_hta_row_times(rounded, &other, &start_ns, &dur_ns);
        assert_true(start_ns == -((int64_t)1 << 61) && dur_ns >= 0);
    }
}

static void call_and_kernel_find_each_other_the_last_ones_win(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_op(&job, "first of the file", "1", "1");
    add_call(&job, "cudaLaunchKernel", "10", "2", 5);
    add_call(&job, "cudaLaunchKernelExC", "20", "2", 5);
    add_kernel(&job, "a", "30", "2", 7, 5);
    add_kernel(&job, "b", "40", "2", 7, 5);
    add_kernel(&job, "orphan", "50", "2", 7, 6);
    add_kernel(&job, "without", "60", "2", 7, -1);
    rows_of(&job, false);
    assert_int_equal(rank.kernel_count, 4);
    assert_int_equal(tdmi_hta_kernel_partner(&rank, &rank.kernel[0]), 2);
    assert_int_equal(tdmi_hta_kernel_partner(&rank, &rank.kernel[1]), 2);
    assert_int_equal(tdmi_hta_kernel_partner(&rank, &rank.kernel[2]), 0); /* HTA's "not found" is the first event of the file */
    assert_true(tdmi_hta_kernel_partner(&rank, &rank.kernel[3]) == TDMI_NONE);
    const uint32_t link = tdmi_hta_link_find(&rank, 5);
    assert_int_equal(rank.link[link].gpu, 4);
    assert_true(tdmi_hta_link_find(&rank, 99) == TDMI_NONE);
    forget(&job);
}

static void a_cpu_operator_with_a_stream_counts_as_kernel(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_gpu(&job, "cpu_op", "triton_poi_fused", "10", "2", 0, -1);
    add_gpu(&job, "cuda_sync", "Context Sync", "20", "5", -1, 3);
    rows_of(&job, false);
    assert_int_equal(rank.kernel_count, 1);
    assert_false(rank.kernel[0].device);
    assert_int_equal(rank.sync_count, 1);
    assert_true(rank.row_count == 2);
    forget(&job);
}

static void minus_one_without_a_sign_is_a_stream(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "k", "10", "2", 7, 1);
    add_event(&job, "\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"Context Sync\", \"pid\": 0, \"tid\": -1, \"ts\": 90, \"dur\": 10, "
                    "\"args\": {\"stream\": 4294967295, \"correlation\": 2}");
    rows_of(&job, false);
    assert_int_equal(rank.kernel_count, 2);
    assert_true(rank.kernel[1].stream == 4294967295);
    assert_us(job.figures.rank[0].temporal.span_ns, 90); /* the synchronisation is the last kernel */
    forget(&job);
}

static void names_are_taken_as_hta_takes_them(void **state)
{
    (void)state;
    const struct {
        const char *name;
        int type;
    } cases[] = {
        {"ncclKernel_AllReduce_RING_LL", TDMI_HTA_COMMUNICATION},
        {"ncclDevKernel_AllGather", TDMI_HTA_COMMUNICATION},
        {"nccl\\nKernel", TDMI_HTA_COMMUNICATION},
        {"nccl\nKernel", TDMI_HTA_COMPUTATION}, /* a dot is no line feed */
        {"rcclKernel", TDMI_HTA_COMPUTATION},
        {"multimem_all_reduce_kernel", TDMI_HTA_COMPUTATION},
        {"Memcpy HtoD", TDMI_HTA_MEMORY},
        {"Memset (Device)", TDMI_HTA_MEMORY},
        {"dma", TDMI_HTA_MEMORY},
        {"my Memcpy kernel", TDMI_HTA_OTHER},
        {"my Memset kernel", TDMI_HTA_COMPUTATION}, /* only at the beginning */
        {"Stream Sync", TDMI_HTA_OTHER},
        {"void SyncBatchNorm", TDMI_HTA_OTHER},
        {"Stream Wait Event", TDMI_HTA_COMPUTATION},
        {"", TDMI_HTA_COMPUTATION},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(tdmi_hta_name_flags(cases[i].name) & TDMI_HTA_NAME_TYPE, cases[i].type);
    assert_true((tdmi_hta_name_flags("ProfilerStep#12") & TDMI_HTA_NAME_STEP_NUMBER) != 0);
    assert_true((tdmi_hta_name_flags("ProfilerStep # 12") & TDMI_HTA_NAME_STEP_NUMBER) != 0);
    assert_true((tdmi_hta_name_flags("ProfilerStep") & (TDMI_HTA_NAME_STEP_NUMBER | TDMI_HTA_NAME_STEP)) == TDMI_HTA_NAME_STEP);
    assert_true((tdmi_hta_name_flags("my ProfilerStep#1") & (TDMI_HTA_NAME_STEP_NUMBER | TDMI_HTA_NAME_STEP)) == TDMI_HTA_NAME_STEP);
    assert_true(tdmi_hta_step_number("ProfilerStep # 12") == 12 && tdmi_hta_step_number("ProfilerStep#99999999999999999999999") > 0);
    assert_true((tdmi_hta_name_flags("cuLaunchKernel") & (TDMI_HTA_NAME_ENQUEUES | TDMI_HTA_NAME_LAUNCHES)) == TDMI_HTA_NAME_ENQUEUES);
    assert_true((tdmi_hta_name_flags("cudaLaunchKernel") & TDMI_HTA_NAME_LAUNCHES) != 0);
    assert_true((tdmi_hta_name_flags("cuLaunchKernelEx") & TDMI_HTA_NAME_ENQUEUES) == 0);
}

static void times_belong_to_the_last_step_that_contains_them(void **state)
{
    (void)state;
    small_job job = {0};
    tdmi_hta_iterations it;
    begin_rank(&job, 0);
    add_step(&job, 3, "100", "100");
    add_step(&job, 4, "200", "100");
    add_event(&job, "\"ph\": \"X\", \"cat\": \"gpu_user_annotation\", \"name\": \"ProfilerStep#3\", \"pid\": 0, \"tid\": 7, \"ts\": 150, \"dur\": 100, "
                    "\"args\": {}");
    rows_of(&job, false);
    assert_int_equal(tdmi_hta_iterations_find(&rank, &it), TDM_OK);
    const struct {
        int64_t us, step;
    } cases[] = {{99, TDMI_NONE}, {100, 0}, {149, 0}, {150, 2}, {249, 2}, {250, 1}, {299, 1}, {300, TDMI_NONE}, {120, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(tdmi_hta_iteration_at(&it, cases[i].us * 1000) == cases[i].step);
    tdmi_hta_iterations_free(&it);
    forget(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_us_are_left_alone),
        cmocka_unit_test(one_decimal_anywhere_moves_all_ends_inward),
        cmocka_unit_test(rounding_is_that_of_doubles),
        cmocka_unit_test(times_at_the_edge_do_not_overflow),
        cmocka_unit_test(call_and_kernel_find_each_other_the_last_ones_win),
        cmocka_unit_test(a_cpu_operator_with_a_stream_counts_as_kernel),
        cmocka_unit_test(minus_one_without_a_sign_is_a_stream),
        cmocka_unit_test(names_are_taken_as_hta_takes_them),
        cmocka_unit_test(times_belong_to_the_last_step_that_contains_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
