/* test_kernels.c - tables of durations by name. */
#include "small_job.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const tdmi_hta_table_row *find(const tdmi_hta_table_row *rows, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static void a_few_names_are_listed_with_their_calls(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "b", "100", "10", 7, 1);
    add_kernel(&job, "b", "200", "20", 7, 2);
    add_kernel(&job, "b", "300", "60", 7, 3);
    add_kernel(&job, "a", "400", "1", 7, 4);
    add_kernel(&job, "Memset (Device)", "500", "2", 7, 5);
    add_kernel(&job, "Stream Sync", "600", "2", 7, 6); /* of no type that is listed */
    const tdmi_hta_rank_figures *rank = &figures_of(&job)->rank[0];
    assert_int_equal(rank->kernel_count, 3);
    const tdmi_hta_table_row *b = find(rank->kernel, 3, "b"), *a = find(rank->kernel, 3, "a");
    assert_us(b->sum_ns, 90);
    assert_us(b->max_ns, 60);
    assert_us(b->min_ns, 10);
    assert_us(b->mean_ns, 30);
    assert_true(fabs(b->std_ns - 1000 * sqrt(700)) < 1e-6); /* of a sample: (400 + 100 + 900) / 2 */
    assert_true(a->std_ns == 0);
    assert_int_equal(find(rank->kernel, 3, "Memset (Device)")->type, TDMI_HTA_MEMORY);
    end_job(&job);
}

static void more_than_ten_are_cut_and_all_figures_are_of_sums(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    for (int i = 0; i < 11; i++) { /* k00: 2 x 100 us, k01: 2 x 99 us, ... */
        char name[8], dur[8];
        snprintf(name, sizeof name, "k%02d", i);
        snprintf(dur, sizeof dur, "%d", 100 - i);
        for (int n = 0; n < 2; n++)
            add_kernel(&job, name, "100", dur, 7, 1 + 2 * i + n);
    }
    const tdmi_hta_rank_figures *rank = &figures_of(&job)->rank[0];
    /* the 0.8 quantile of 11 cumulated sums is the ninth: k09 and k10 are above it */
    assert_int_equal(rank->kernel_count, 10);
    const tdmi_hta_table_row *others = find(rank->kernel, 10, "others"), *first = find(rank->kernel, 10, "k00");
    assert_us(others->sum_ns, 2 * 91 + 2 * 90);
    assert_us(others->max_ns, 182);
    assert_us(others->min_ns, 180);
    assert_us(others->mean_ns, 181);
    assert_true(fabs(others->std_ns - 1000 * sqrt(2)) < 1e-6);
    assert_us(first->mean_ns, 200); /* HTA's mean of the one sum */
    assert_true(first->std_ns == 0);
    assert_null(find(rank->kernel, 10, "k09"));
    end_job(&job);
}

static void behind_the_tenth_everything_is_other(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    for (int i = 0; i < 30; i++) {
        char name[8], dur[8];
        snprintf(name, sizeof name, "k%02d", i);
        snprintf(dur, sizeof dur, "%d", 100 - i);
        add_kernel(&job, name, "100", dur, 7, 1 + i);
    }
    const tdmi_hta_rank_figures *rank = &figures_of(&job)->rank[0];
    assert_int_equal(rank->kernel_count, 11);
    double sum = 0;
    for (int i = 10; i < 30; i++)
        sum += 100 - i;
    assert_us(find(rank->kernel, 11, "others")->sum_ns, sum);
    assert_non_null(find(rank->kernel, 11, "k09"));
    end_job(&job);
}

static void a_kernel_named_others_is_one_of_them(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    add_kernel(&job, "others", "100", "500", 7, 1);
    for (int i = 0; i < 12; i++) {
        char name[8];
        snprintf(name, sizeof name, "k%02d", i);
        add_kernel(&job, name, "100", "10", 7, 2 + i);
    }
    const tdmi_hta_rank_figures *rank = &figures_of(&job)->rank[0];
    assert_us(find(rank->kernel, rank->kernel_count, "others")->max_ns, 500);
    end_job(&job);
}

static void annotations_of_the_gpu_have_a_table(void **state)
{
    (void)state;
    small_job job = {0};
    begin_rank(&job, 0);
    for (int i = 0; i < 2; i++)
        add_event(&job, "\"ph\": \"X\", \"cat\": \"gpu_user_annotation\", \"name\": \"nccl:all_reduce\", \"pid\": 0, \"tid\": 7, \"ts\": %d, \"dur\": %d, "
                        "\"args\": {}",
                  100 * i, 10 + i);
    const tdmi_hta_rank_figures *rank = &figures_of(&job)->rank[0];
    assert_int_equal(rank->annotation_count, 1);
    assert_us(rank->annotation[0].sum_ns, 21);
    assert_int_equal(rank->kernel_count, 0); /* no stream: no kernel */
    end_job(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_names_are_listed_with_their_calls),
        cmocka_unit_test(more_than_ten_are_cut_and_all_figures_are_of_sums),
        cmocka_unit_test(behind_the_tenth_everything_is_other),
        cmocka_unit_test(a_kernel_named_others_is_one_of_them),
        cmocka_unit_test(annotations_of_the_gpu_have_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
