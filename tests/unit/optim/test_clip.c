/* test_clip.c - norm and clip factor. */
#include "optim/clip.h"

#include "optim/isa.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "golden.h"

static void clipped_gradients_are_pytorchs(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof golden_clips / sizeof golden_clips[0]; c++) {
        const float *gradient = golden_gradient[golden_clips[c].gradient];
        double norm = sqrt(tdmi_sum_of_squares(gradient, GOLDEN_COUNT));
        assert_true(fabs(norm - golden_clips[c].norm) <= 1e-6 * norm);
        float factor = tdmi_clip_factor(norm, golden_clips[c].max_norm);
        for (int i = 0; i < GOLDEN_COUNT; i++)
            assert_true(fabsf(gradient[i] * factor - golden_clips[c].clipped[i]) <= 1e-6f * fabsf(golden_clips[c].clipped[i]));
    }
    (void)golden_start; /* of the other tests */
    (void)golden_cases;
}

static void the_factor_never_enlarges_and_keeps_what_is_not_finite(void **state)
{
    (void)state;
    assert_true(tdmi_clip_factor(0, 1) == 1);
    assert_true(tdmi_clip_factor(0.5, 1) == 1);
    assert_true(tdmi_clip_factor(4, 1) == (float)(1 / (4 + 1e-6)));
    assert_true(tdmi_clip_factor(1e30, 0) == 1);
    assert_true(tdmi_clip_factor(INFINITY, 1) == 0);
    assert_true(isnan(tdmi_clip_factor(NAN, 1)));
}

static void the_sum_is_exact_where_doubles_are_and_equal_on_all_instruction_sets(void **state)
{
    (void)state;
    enum { MOST = 3 * 4096 + 77 };
    float *values = malloc((MOST + 1) * sizeof *values), *rough = malloc((MOST + 1) * sizeof *rough);
    srandom(3);
    for (int i = 0; i <= MOST; i++) {
        values[i] = (float)(random() % 2001 - 1000);
        rough[i] = (float)random() / 3e6f - 300;
    }
    for (size_t count = 0; count <= MOST; count += count < 70 ? 1 : 1013)
        for (size_t first = 0; first < 2; first++) {
            double sum = 0;
            for (size_t i = first; i < first + count; i++)
                sum += (double)values[i] * values[i];
            assert_true(tdmi_sum_of_squares(values + first, count) == sum);
            double expected = tdmi_optim_kernels_plain.squares(rough + first, count);
            for (int isa = TDMI_ISA_PLAIN; isa <= (int)tdmi_cpu_isa(); isa++)
                assert_true(tdmi_optim_kernels_of((tdmi_isa)isa)->squares(rough + first, count) == expected);
        }
    free(values);
    free(rough);
}

static void large_values_do_not_overflow_and_bad_ones_show(void **state)
{
    (void)state;
    float values[40] = {0};
    values[3] = values[39] = 3e38f;
    assert_true(tdmi_sum_of_squares(values, 40) == 2 * ((double)3e38f * 3e38f));
    values[39] = INFINITY;
    assert_true(isinf(tdmi_sum_of_squares(values, 40)));
    values[5] = NAN;
    assert_true(isnan(tdmi_sum_of_squares(values, 40)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clipped_gradients_are_pytorchs),
        cmocka_unit_test(the_factor_never_enlarges_and_keeps_what_is_not_finite),
        cmocka_unit_test(the_sum_is_exact_where_doubles_are_and_equal_on_all_instruction_sets),
        cmocka_unit_test(large_values_do_not_overflow_and_bad_ones_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
