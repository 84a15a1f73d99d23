/* test_queue.c - queue lengths, bandwidths and launches. */
#include "small_job.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void a_stream_has_what_was_launched_and_has_not_begun(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_op(&job, "first of the file", "1", "1");
    add_call(&job, "cudaLaunchKernel", "10", "5", 1);
    add_call(&job, "hipMemcpyAsync", "20", "5", 2);
    add_call(&job, "cudaGraphLaunch", "25", "5", 3); /* not one that counts */
    add_call(&job, "cuLaunchKernel", "30", "5", 4);
    add_kernel(&job, "a", "30", "5", 7, 1); /* in the us of a call: the call comes first here */
    add_kernel(&job, "b", "40", "5", 7, 2);
    add_kernel(&job, "c", "45", "5", 7, 3);
    add_kernel(&job, "d", "50", "5", 9, 4);
    add_kernel(&job, "launched before the window", "60", "5", 7, 9);
    const tdmi_hta_rank_figures *rank = &figures_of(&job)->rank[0];
    assert_int_equal(rank->queue_count, 2);
    const tdmi_hta_describe *q = &rank->queue[0].length; /* stream 7: 1 2 1 0 */
    assert_true(rank->queue[0].stream == 7 && q->count == 4 && q->mean == 1 && q->max == 2 && q->min == 0 && q->quarter == 0.75 && q->half == 1);
    assert_true(fabs(q->std - sqrt(2.0 / 3)) < 1e-12 && q->three_quarters == 1.25);
    assert_true(rank->queue[1].stream == 9 && rank->queue[1].length.count == 2);
    assert_false(rank->was_full);
    end_job(&job);
}

static void a_call_that_is_the_first_event_launches_nothing(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "a", "30", "5", 7, 1); /* place 0 is HTA's "not found" for its call */
    add_call(&job, "cudaLaunchKernel", "10", "5", 1);
    assert_int_equal(figures_of(&job)->rank[0].queue_count, 0);
    end_job(&job);
}

static void a_thousand_waiting_block_the_host(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_op(&job, "first of the file", "0", "1");
    for (int i = 0; i < 1030; i++) {
        char ts[16];
        snprintf(ts, sizeof ts, "%d", 1 + i);
        add_call(&job, "cudaLaunchKernel", ts, "1", i);
        snprintf(ts, sizeof ts, "%d", 2000 + i);
        add_kernel(&job, "k", ts, "1", 7, i);
    }
    const tdmi_hta_rank_figures *rank = &figures_of(&job)->rank[0];
    assert_true(rank->was_full && rank->full_stream == 7);
    assert_us(rank->full_ns, 2006 - 1024); /* from the 1024th call until the seventh kernel leaves 1023 */
    assert_true(fabs(rank->full_ratio - 982.0 / 3029) < 1e-12);
    end_job(&job);
}

static void two_calls_of_one_correlation_fail_htas_assertion(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_op(&job, "first of the file", "0", "1");
    add_call(&job, "cudaLaunchKernel", "1", "1", 5);
    add_call(&job, "cudaLaunchKernel", "2", "1", 5);
    add_kernel(&job, "k", "9", "1", 7, 5);
    const tdmi_hta_figures *f = figures_of(&job);
    assert_memory_equal(f->error[TDMI_HTA_METRIC_QUEUE], "AssertionError: rank 0", 22);
    assert_memory_equal(f->error[TDMI_HTA_METRIC_FULL], "AssertionError: rank 0", 22);
    end_job(&job);
}

static void add_copy(small_job *job, const char *name, int ts, int dur, const char *bandwidth)
{
    add_event(job,
              "\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"%s\", \"pid\": 0, \"tid\": 7, \"ts\": %d, \"dur\": %d, "
              "\"args\": {\"stream\": 7, \"correlation\": 1, \"memory bandwidth (GB/s)\": %s}",
              name, ts, dur, bandwidth);
}

static void bandwidths_of_copies_that_run_are_added(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_copy(&job, "Memcpy HtoD (Pinned -> Device)", 100, 10, "4.0");
    add_copy(&job, "Memcpy HtoD (Pageable -> Device)", 105, 10, "2.0");
    add_copy(&job, "Memcpy DtoD", 100, 0, "1.5"); /* 0 us are 1 us */
    add_copy(&job, "Memcpy DtoD", 100, 0, "\"N/A\"");
    add_copy(&job, "Memset (Device)", 100, 5, "8");
    add_copy(&job, "Memcpy \u00e4\u00f6\u00fc\u00df\u00e9 and more", 300, 5, "1");
    const tdmi_hta_rank_figures *rank = &figures_of(&job)->rank[0];
    assert_int_equal(rank->bandwidth_count, 4);
    assert_string_equal(rank->bandwidth[0].name, "Memcpy DtoD");
    assert_true(rank->bandwidth[0].gbps.count == 1 && rank->bandwidth[0].gbps.max == 1.5 && isnan(rank->bandwidth[0].gbps.std));
    const tdmi_hta_describe *h = &rank->bandwidth[1].gbps; /* 4 6 2 */
    assert_string_equal(rank->bandwidth[1].name, "Memcpy HtoD");
    assert_true(h->count == 3 && h->mean == 4 && h->min == 2 && h->max == 6 && h->std == 2);
    assert_string_equal(rank->bandwidth[2].name, "Memcpy \u00e4\u00f6\u00fc\u00df"); /* eleven characters, not bytes */
    assert_string_equal(rank->bandwidth[3].name, "Memset");
    end_job(&job);
}

static void launches_meet_what_they_launched(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_op(&job, "first of the file", "1", "1");
    add_call(&job, "cudaLaunchKernel", "10", "20", 1);  /* kernel shorter than the call */
    add_call(&job, "cudaMemcpyAsync", "40", "51", 2);   /* slow */
    add_call(&job, "cudaLaunchKernel", "100", "5", 3);  /* 101 us late */
    add_call(&job, "cuLaunchKernel", "200", "5", 4);    /* not for HTA */
    add_kernel(&job, "a", "25", "5", 7, 1);             /* before the call's end: a delay of 0 */
    add_kernel(&job, "b", "95", "60", 7, 2);
    add_kernel(&job, "c", "206", "7", 7, 3);
    add_kernel(&job, "d", "300", "1", 7, 4);
    const tdmi_hta_launch_figures *l = &figures_of(&job)->rank[0].launches;
    assert_true(l->count == 3 && l->short_kernels == 1 && l->slow_calls == 1 && l->late_kernels == 1);
    assert_us(l->cpu_ns, 76);
    assert_us(l->gpu_ns, 72);
    assert_us(l->delay_ns, 105);
    assert_us(l->delay_max_ns, 101);
    end_job(&job);
}

static void without_launches_there_is_no_longest_delay(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_op(&job, "alone", "1", "1");
    assert_true(isnan(figures_of(&job)->rank[0].launches.delay_max_ns));
    end_job(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_has_what_was_launched_and_has_not_begun),
        cmocka_unit_test(a_call_that_is_the_first_event_launches_nothing),
        cmocka_unit_test(a_thousand_waiting_block_the_host),
        cmocka_unit_test(two_calls_of_one_correlation_fail_htas_assertion),
        cmocka_unit_test(bandwidths_of_copies_that_run_are_added),
        cmocka_unit_test(launches_meet_what_they_launched),
        cmocka_unit_test(without_launches_there_is_no_longest_delay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
