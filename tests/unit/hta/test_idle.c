/* test_idle.c - gaps between kernels, and whom HTA blames. */
#include "small_job.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void gaps_have_causes(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_op(&job, "something", "500", "1");
    add_call(&job, "cudaLaunchKernel", "50", "5", 1);
    add_call(&job, "cudaLaunchKernel", "60", "5", 2);
    add_call(&job, "cudaLaunchKernel", "70", "5", 3);
    add_call(&job, "cudaLaunchKernel", "260", "5", 4);
    add_kernel(&job, "first", "100", "10", 7, 1);
    add_kernel(&job, "soon", "130", "10", 7, 2);       /* 20 us after the end, launched before: kernel wait */
    add_kernel(&job, "later", "200", "10", 7, 3);      /* 60 us: other */
    add_kernel(&job, "late host", "270", "10", 7, 4);  /* launched 50 us after the end before: host wait */
    add_gpu(&job, "cuda_sync", "Stream Wait Event", "275", "50", 7, 1); /* not of a category that counts */
    const tdmi_hta_idle_figures *idle = figures_of(&job)->rank[0].idle;
    assert_int_equal(job.figures.rank[0].idle_count, 1);
    assert_us(idle->ns[TDMI_HTA_KERNEL_WAIT], 20);
    assert_us(idle->ns[TDMI_HTA_OTHER_WAIT], 60);
    assert_us(idle->ns[TDMI_HTA_HOST_WAIT], 60);
    end_job(&job);
}

static void thirty_us_are_no_short_gap(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "a", "100", "10", 7, -1);
    add_kernel(&job, "b", "140", "10", 7, -1);
    add_kernel(&job, "c", "179", "10", 7, -1);
    const tdmi_hta_idle_figures *idle = figures_of(&job)->rank[0].idle;
    assert_us(idle->ns[TDMI_HTA_OTHER_WAIT], 30);
    assert_us(idle->ns[TDMI_HTA_KERNEL_WAIT], 29);
    assert_false(idle->any[TDMI_HTA_HOST_WAIT]);
    end_job(&job);
}

static void the_kernel_before_is_the_one_that_started_before(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "long", "100", "100", 7, -1);
    add_kernel(&job, "inside", "110", "5", 7, -1);  /* a gap of -90 us */
    add_kernel(&job, "behind", "210", "5", 7, -1);  /* 95 us after `inside`, though `long` has just ended */
    const tdmi_hta_idle_figures *idle = figures_of(&job)->rank[0].idle;
    assert_us(idle->ns[TDMI_HTA_KERNEL_WAIT], -90);
    assert_us(idle->ns[TDMI_HTA_OTHER_WAIT], 95);
    end_job(&job);
}

static void a_kernel_without_a_launch_gets_the_first_event_of_the_file(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_op(&job, "first of the file", "120", "1");
    add_kernel(&job, "a", "100", "10", 7, 1);
    add_kernel(&job, "b", "130", "10", 7, 2); /* "launched" at 120, behind the end at 110 */
    const tdmi_hta_idle_figures *idle = figures_of(&job)->rank[0].idle;
    assert_us(idle->ns[TDMI_HTA_HOST_WAIT], 20);
    end_job(&job);
}

static void streams_stand_in_the_order_of_the_file(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "a", "300", "10", 20, -1);
    add_kernel(&job, "b", "100", "10", 7, -1);
    const tdmi_hta_rank_figures *rank = &figures_of(&job)->rank[0];
    assert_int_equal(rank->idle_count, 2);
    assert_int_equal(rank->idle[0].stream, 20);
    assert_true(rank->idle[0].any[TDMI_HTA_OTHER_WAIT] && !rank->idle[0].any[TDMI_HTA_KERNEL_WAIT]); /* one kernel: no gap, but `other` */
    assert_int_equal(rank->idle[1].stream, 7);
    end_job(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_have_causes),
        cmocka_unit_test(thirty_us_are_no_short_gap),
        cmocka_unit_test(the_kernel_before_is_the_one_that_started_before),
        cmocka_unit_test(a_kernel_without_a_launch_gets_the_first_event_of_the_file),
        cmocka_unit_test(streams_stand_in_the_order_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
