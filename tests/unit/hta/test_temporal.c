/* test_temporal.c - temporal breakdown, overlap, and which types ran together. */
#include "small_job.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void busy_idle_and_the_rest(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_op(&job, "aten::mm", "0", "1000");
    add_kernel(&job, "gemm", "100", "50", 7, 1);       /* 100..150 */
    add_kernel(&job, "gemm", "140", "20", 8, 2);       /* to 160 */
    add_kernel(&job, "gemm", "160", "10", 7, 3);       /* touches: one group to 170 */
    add_kernel(&job, "Memcpy HtoD", "200", "30", 7, 4);
    add_kernel(&job, "Stream Sync", "300", "10", 7, 5); /* other: neither computation nor memory */
    const tdmi_hta_temporal_figures *t = &figures_of(&job)->rank[0].temporal;
    assert_us(t->span_ns, 210);
    assert_us(t->compute_ns, 70);
    assert_us(t->idle_ns, 100);
    assert_us(t->non_compute_ns, 40);
    assert_true(isnan(job.figures.rank[0].overlap_pct)); /* no communication */
    assert_us(job.figures.rank[0].with_memory.ns[1], 70);
    assert_us(job.figures.rank[0].with_memory.ns[4], 30);
    assert_false(job.figures.rank[0].without_memory.any[4]);
    end_job(&job);
}

static void communication_beside_computation(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "gemm", "100", "100", 7, 1);
    add_kernel(&job, "ncclDevKernel_AllReduce", "150", "200", 8, 2);
    add_kernel(&job, "Memset (Device)", "340", "20", 7, 3);
    const tdmi_hta_rank_figures *rank = &figures_of(&job)->rank[0];
    assert_true(fabs(rank->overlap_pct - 25) < 1e-9);
    assert_us(rank->with_memory.ns[1], 50);  /* computation alone */
    assert_us(rank->with_memory.ns[3], 50);  /* both */
    assert_us(rank->with_memory.ns[2], 140); /* communication alone */
    assert_us(rank->with_memory.ns[6], 10);  /* with the memset */
    assert_us(rank->with_memory.ns[4], 10);
    assert_us(rank->without_memory.ns[2], 150);
    end_job(&job);
}

static void what_only_touches_does_not_overlap(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "gemm", "100", "50", 7, 1);
    add_kernel(&job, "ncclKernel_AllReduce", "150", "50", 8, 2);
    const tdmi_hta_rank_figures *rank = &figures_of(&job)->rank[0];
    assert_true(rank->overlap_pct == 0);
    assert_false(rank->with_memory.any[3]);
    end_job(&job);
}

static void without_kernels_hta_raises(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_op(&job, "aten::mm", "0", "1000");
    const tdmi_hta_figures *f = figures_of(&job);
    assert_memory_equal(f->error[TDMI_HTA_METRIC_TEMPORAL], "IndexError: rank 0", 18);
    assert_memory_equal(f->error[TDMI_HTA_METRIC_IDLE], "ValueError: rank 0", 18);
    assert_memory_equal(f->error[TDMI_HTA_METRIC_WITH_LAST], "IndexError", 10);
    assert_null(f->error[TDMI_HTA_METRIC_OVERLAP]);
    end_job(&job);
}

static void negative_lengths_break_htas_sums_and_the_exact_ones_stand_beside(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "gemm", "100.000", "10.000", 7, 1);
    for (int i = 0; i < 5; i++) { /* each of 0.5 us within one us: -1 us for HTA */
        char ts[16];
        snprintf(ts, sizeof ts, "%d.250", 120 + 10 * i);
        add_kernel(&job, "Memset", ts, "0.500", 7, 2 + i);
    }
    const tdmi_hta_figures *f = figures_of(&job);
    const tdmi_hta_temporal_figures *t = &f->rank[0].temporal;
    assert_int_equal(t->negative, 5);
    assert_us(t->span_ns, 60); /* 100 .. 160 */
    assert_us(t->idle_ns, 55); /* 60 - (10 - 5) */
    assert_us(t->compute_ns, 10);
    assert_us(t->non_compute_ns, -5);
    assert_memory_equal(f->error[TDMI_HTA_METRIC_TEMPORAL], "AssertionError: rank 0: 55 us idle and 10 us", 44);
    assert_us(f->rank[0].temporal_exact.span_ns, 60.75);
    assert_us(f->rank[0].temporal_exact.idle_ns, 48.25);
    assert_us(f->rank[0].temporal_exact.non_compute_ns, 2.5);
    end_job(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_idle_and_the_rest),
        cmocka_unit_test(communication_beside_computation),
        cmocka_unit_test(what_only_touches_does_not_overlap),
        cmocka_unit_test(without_kernels_hta_raises),
        cmocka_unit_test(negative_lengths_break_htas_sums_and_the_exact_ones_stand_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
