/* test_stragglers.c - the ranks that HTA takes for late. */
#include "small_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Two kept iterations of 1000 us and one that is dropped; in each an all-reduce that begins at `start` and ends at 900 us. */
static void write_rank(small_job *job, int rank, const char *kernel, int start)
{
    char ts[16], dur[16];
    begin_rank(job, rank);
    add_op(job, "first of the file", "1", "1");
    for (int step = 0; step < 3; step++) {
        const int begin = 10000 + 1000 * step;
        snprintf(ts, sizeof ts, "%d", begin);
        add_step(job, 5 + step, ts, "1000");
        snprintf(ts, sizeof ts, "%d", begin + 10);
        add_call(job, "cudaLaunchKernel", ts, "5", 100 + step);
        snprintf(ts, sizeof ts, "%d", begin + start);
        snprintf(dur, sizeof dur, "%d", 900 - start);
        add_kernel(job, kernel, ts, dur, 20, 100 + step);
    }
}

static void the_two_that_begin_last(void **state)
{
    (void)state;
    small_job job = {0};
    const int start[] = {100, 700, 150, 400};
    for (int rank = 0; rank < 4; rank++)
        write_rank(&job, rank, "ncclKernel_AllReduce_RING", start[rank]);
    const tdmi_hta_figures *f = figures_of(&job);
    assert_null(f->error[TDMI_HTA_METRIC_STRAGGLERS]);
    assert_int_equal(f->straggler_count, 2);
    assert_int_equal(f->straggler[0], 1);
    assert_int_equal(f->straggler[1], 3);
    end_job(&job);
}

static void the_kernel_that_differs_most_decides(void **state)
{
    (void)state;
    small_job job = {0};
    for (int rank = 0; rank < 3; rank++) {
        write_rank(&job, rank, "ncclKernel_AllReduce_RING", rank == 2 ? 200 : 100);
        for (int step = 0; step < 2; step++) { /* another one, on which rank 0 is far behind */
            char ts[16];
            snprintf(ts, sizeof ts, "%d", 10020 + 1000 * step);
            add_call(&job, "cudaLaunchKernel", ts, "5", 200 + step);
            snprintf(ts, sizeof ts, "%d", 10100 + 1000 * step + (rank == 0 ? 500 : rank));
            add_kernel(&job, "ncclKernel_SendRecv", ts, rank == 0 ? "20" : "520", 21, 200 + step);
        }
    }
    const tdmi_hta_figures *f = figures_of(&job);
    assert_int_equal(f->straggler[0], 0);
    assert_int_equal(f->straggler[1], 2);
    end_job(&job);
}

static void short_kernels_do_not_count(void **state)
{
    (void)state;
    small_job job = {0};
    for (int rank = 0; rank < 2; rank++)
        write_rank(&job, rank, "ncclKernel_AllReduce_RING", 895); /* 5 us of 1000 */
    assert_memory_equal(figures_of(&job)->error[TDMI_HTA_METRIC_STRAGGLERS], "ValueError: no kernel", 21);
    end_job(&job);
}

static void current_names_are_not_known(void **state)
{
    (void)state;
    small_job job = {0};
    for (int rank = 0; rank < 2; rank++)
        write_rank(&job, rank, "ncclDevKernel_AllReduce", 100 + 100 * rank);
    assert_memory_equal(figures_of(&job)->error[TDMI_HTA_METRIC_STRAGGLERS], "ValueError: no kernel", 21);
    end_job(&job);
}

static void a_kernel_on_one_rank_alone_raises(void **state)
{
    (void)state;
    small_job job = {0};
    write_rank(&job, 0, "ncclKernel_A", 100);
    write_rank(&job, 1, "ncclKernel_B", 100);
    assert_memory_equal(figures_of(&job)->error[TDMI_HTA_METRIC_STRAGGLERS], "TypeError", 9);
    end_job(&job);
}

static void without_iterations_there_is_nothing_to_compare(void **state)
{
    (void)state;
    small_job job = {0};
    for (int rank = 0; rank < 2; rank++) {
        begin_rank(&job, rank);
        add_kernel(&job, "ncclKernel_A", "10", "10", 7, 1);
    }
    assert_memory_equal(figures_of(&job)->error[TDMI_HTA_METRIC_STRAGGLERS], "ValueError: the traces have no", 30);
    end_job(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_two_that_begin_last),
        cmocka_unit_test(the_kernel_that_differs_most_decides),
        cmocka_unit_test(short_kernels_do_not_count),
        cmocka_unit_test(current_names_are_not_known),
        cmocka_unit_test(a_kernel_on_one_rank_alone_raises),
        cmocka_unit_test(without_iterations_there_is_nothing_to_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
