/* test_cast.c - halves against rounding one at a time, bit for bit, and what error feedback keeps. Run once per instruction set. */
#include <tandem/compress.h>

#include "core/cpu.h"
#include "core/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { COUNT = 4099, GUARD = 8 };

static const tdm_dtype halves[] = {TDM_BF16, TDM_F16};

static uint32_t next_random(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static uint16_t round_one(tdm_dtype dtype, float value)
{
    return dtype == TDM_BF16 ? tdmi_f32_to_bf16(value) : tdmi_f32_to_f16(value);
}

static float widen_one(tdm_dtype dtype, uint16_t half)
{
    return dtype == TDM_BF16 ? tdmi_bf16_to_f32(half) : tdmi_f16_to_f32(half);
}

/* Any bits: NaNs, infinities, subnormals, ties, and what overflows a half. */
static void fill(float *values, size_t count)
{
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 65504.0f, 65519.9f, 65520.0f, -65536.0f, 3.4e38f, 0x1p-24f,
                                    0x1p-25f, 0x1.8p-25f, 1.00390625f, 1.01171875f, 1.00048828125f, 0x1p-149f, 0x1p-126f};
    for (size_t i = 0; i < count; i++)
        values[i] = tdmi_float_from_bits(next_random());
    for (size_t i = 0; i < count && i < sizeof special / sizeof *special; i++)
        values[i] = special[i];
}

static bool same_float(float a, float b)
{
    return tdmi_float_bits(a) == tdmi_float_bits(b) || (isnan(a) && isnan(b));
}

/* Counts around every vector width, at an odd address. */
static void every_count_is_rounded_and_widened_as_one_at_a_time(void **state)
{
    (void)state;
    static float in[COUNT + 1], out[COUNT + GUARD];
    static uint16_t half[COUNT + GUARD];
    for (size_t t = 0; t < 2; t++)
        for (size_t count = 0; count <= COUNT; count = count < 70 ? count + 1 : count + 1343) {
            fill(in + 1, count);
            half[count] = 0x1234, out[count] = 5;
            assert_int_equal(tdm_cast_compress(halves[t], in + 1, NULL, half, count), TDM_OK);
            assert_int_equal(tdm_cast_decompress(halves[t], half, out, count), TDM_OK);
            for (size_t i = 0; i < count; i++) {
                assert_int_equal(half[i], round_one(halves[t], in[i + 1]));
                assert_true(same_float(out[i], widen_one(halves[t], half[i])));
            }
            assert_int_equal(half[count], 0x1234);
            assert_true(out[count] == 5);
        }
}

/* One value the way compress.h says it. */
static uint16_t feed_one(tdm_dtype dtype, float in, float *residual)
{
    const float value = in + *residual;
    const uint16_t half = round_one(dtype, value);
    const float lost = value - widen_one(dtype, half);
    *residual = isfinite(lost) ? lost : 0.0f;
    return half;
}

static void error_feedback_has_the_bits_of_one_at_a_time(void **state)
{
    (void)state;
    static float in[COUNT], residual[COUNT + GUARD], expected[COUNT];
    static uint16_t half[COUNT + GUARD];
    for (size_t t = 0; t < 2; t++)
        for (size_t count = 0; count <= COUNT; count = count < 70 ? count + 1 : count + 1343) {
            fill(in, count);
            for (size_t i = 0; i < count; i++)
                residual[i] = expected[i] = (float)(int32_t)next_random() * 0x1p-40f;
            half[count] = 0x1234, residual[count] = 5;
            assert_int_equal(tdm_cast_compress(halves[t], in, residual, half, count), TDM_OK);
            for (size_t i = 0; i < count; i++) {
                assert_int_equal(half[i], feed_one(halves[t], in[i], &expected[i]));
                assert_true(same_float(residual[i], expected[i]));
                assert_true(isfinite(residual[i]));
            }
            assert_int_equal(half[count], 0x1234);
            assert_true(residual[count] == 5);
        }
}

/* 1 + 2^-12 rounds to 1 in both types, every time, without feedback. */
static void what_rounding_takes_away_is_sent_later(void **state)
{
    (void)state;
    enum { N = 33, STEPS = 4096 };
    float in[N], residual[N] = {0}, back[N];
    double sent[N] = {0};
    uint16_t half[N];
    for (int i = 0; i < N; i++)
        in[i] = 1.0f + 0x1p-12f;
    for (size_t t = 0; t < 2; t++) {
        for (int step = 0; step < STEPS; step++) {
            assert_int_equal(tdm_cast_compress(halves[t], in, residual, half, N), TDM_OK);
            assert_int_equal(tdm_cast_decompress(halves[t], half, back, N), TDM_OK);
            for (int i = 0; i < N; i++)
                sent[i] += back[i];
        }
        for (int i = 0; i < N; i++) {
            assert_true(fabs(sent[i] + residual[i] - STEPS * (1 + 0x1p-12)) < 1e-9); /* nothing is lost; it is exact */
            assert_true(sent[i] > STEPS);
            sent[i] = residual[i] = 0;
        }
    }
}

static void wrong_arguments_are_refused_with_their_name(void **state)
{
    (void)state;
    float value = 1;
    uint16_t half = 0;
    assert_int_equal(tdm_cast_compress(TDM_F64, &value, NULL, &half, 1), TDM_ERR_UNSUPPORTED);
    assert_non_null(strstr(tdm_error_text(), "float64"));
    assert_int_equal(tdm_cast_compress(TDM_BF16, NULL, NULL, &half, 1), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "in is NULL"));
    assert_int_equal(tdm_cast_decompress(TDM_F16, &half, NULL, 1), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "out is NULL"));
    assert_int_equal(tdm_cast_compress(TDM_BF16, NULL, NULL, NULL, 0), TDM_OK);
}

int main(void)
{
    printf("instruction set %s\n", tdmi_isa_name(tdmi_cpu_isa()));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_count_is_rounded_and_widened_as_one_at_a_time),
        cmocka_unit_test(error_feedback_has_the_bits_of_one_at_a_time),
        cmocka_unit_test(what_rounding_takes_away_is_sent_later),
        cmocka_unit_test(wrong_arguments_are_refused_with_their_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
