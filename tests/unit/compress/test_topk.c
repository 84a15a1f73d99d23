/* test_topk.c - the largest few against sorting, ties and extremes, and what error feedback keeps. */
#include <tandem/compress.h>

#include "random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 1000 };

typedef struct place {
    float magnitude;
    uint32_t index;
} place;

static int larger_first(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->magnitude != y->magnitude ? (x->magnitude < y->magnitude) - (x->magnitude > y->magnitude)
                                        : (x->index > y->index) - (x->index < y->index);
}

/* Few different values, so that there are ties at every k. */
static void the_largest_are_those_that_sorting_finds(void **state)
{
    (void)state;
    for (int coarse = 0; coarse < 2; coarse++)
        for (size_t k = 0; k <= COUNT; k = k < 5 ? k + 1 : k + 199) {
            float in[COUNT], residual[COUNT], x[COUNT], value[COUNT];
            uint32_t index[COUNT];
            place sorted[COUNT];
            bool travels[COUNT] = {false};
            fill_values(in, COUNT, 5);
            fill_values(residual, COUNT, 6);
            for (uint32_t i = 0; i < COUNT; i++) {
                if (coarse)
                    in[i] = roundf(in[i] * 3) * 1e-20f, residual[i] = 0;
                x[i] = in[i] + residual[i];
                sorted[i] = (place){fabsf(x[i]), i};
            }
            qsort(sorted, COUNT, sizeof *sorted, larger_first);
            for (size_t i = 0; i < k; i++)
                travels[sorted[i].index] = true;
            tdm_topk_compress(in, residual, COUNT, index, value, k);
            for (size_t i = 0; i < k; i++) {
                assert_true(i == 0 || index[i] > index[i - 1]);
                assert_true(travels[index[i]] && value[i] == x[index[i]]);
            }
            for (size_t i = 0; i < COUNT; i++)
                assert_true(residual[i] == (travels[i] ? 0 : x[i]));
        }
}

static void a_nan_travels_first_and_infinities_do_not_stay(void **state)
{
    (void)state;
    float in[6] = {3, INFINITY, -1, NAN, 2, -INFINITY}, residual[6] = {0}, value[2];
    uint32_t index[2];
    tdm_topk_compress(in, residual, 6, index, value, 2);
    assert_int_equal(index[0], 1);
    assert_int_equal(index[1], 3);
    assert_true(isnan(value[1]));
    const float left[6] = {3, 0, -1, 0, 2, 0};
    assert_memory_equal(residual, left, sizeof left);
}

static void values_are_added_where_they_belong(void **state)
{
    (void)state;
    const uint32_t index[3] = {0, 2, 5};
    const float value[3] = {1, -2, 4};
    float out[6] = {1, 1, 1, 1, 1, 1};
    tdm_topk_add(index, value, 3, 0.5f, out);
    const float expected[6] = {1.5f, 1, 0, 1, 1, 3};
    assert_memory_equal(out, expected, sizeof out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_are_those_that_sorting_finds),
        cmocka_unit_test(a_nan_travels_first_and_infinities_do_not_stay),
        cmocka_unit_test(values_are_added_where_they_belong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
