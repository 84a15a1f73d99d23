/* test_onebit.c - signs and scales against their definition, and what error feedback keeps. Run once per instruction set. */
#include <tandem/compress.h>

#include "random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 1037 };

static bool bit(const uint8_t *bits, size_t i)
{
    return (bits[i / 8] >> i % 8 & 1) != 0;
}

static void every_count_gives_signs_scale_and_residual_as_defined(void **state)
{
    (void)state;
    for (size_t count = 0; count <= COUNT; count = count < 70 ? count + 1 : count + 131) {
        float in[COUNT + 1], residual[COUNT + 1], x[COUNT], scale = -1, out[COUNT + 1];
        uint8_t bits[COUNT / 8 + 2];
        memset(bits, 0xa5, sizeof bits);
        fill_values(in, COUNT + 1, 1);
        fill_values(residual, COUNT + 1, 2);
        double squares = 0;
        for (size_t i = 0; i < count; i++) {
            x[i] = in[i] + residual[i];
            squares += (double)x[i] * (double)x[i];
        }
        const float behind = residual[count];
        tdm_onebit_compress(in, residual, bits, &scale, count);
        assert_true(fabs((double)scale - (count == 0 ? 0 : sqrt(squares / (double)count))) <= 1e-7 * (double)scale);
        assert_true(residual[count] == behind && bits[(count + 7) / 8] == 0xa5);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(bit(bits, i), x[i] >= 0);
            assert_true(residual[i] == x[i] - (x[i] >= 0 ? scale : -scale));
        }
        for (size_t i = count; i < (count + 7) / 8 * 8; i++)
            assert_false(bit(bits, i));
        for (size_t i = 0; i <= count; i++)
            out[i] = 1;
        tdm_onebit_add(bits, scale, out, count);
        for (size_t i = 0; i < count; i++)
            assert_true(out[i] == 1 + (x[i] >= 0 ? scale : -scale));
        assert_true(out[count] == 1);
    }
}

static void zeros_count_as_plus_and_stay_zero(void **state)
{
    (void)state;
    const float in[20] = {0.0f, -0.0f};
    float residual[20] = {0}, scale, out[20] = {0};
    uint8_t bits[3];
    tdm_onebit_compress(in, residual, bits, &scale, 20);
    assert_true(scale == 0);
    assert_int_equal(bits[0], 0xff);
    assert_int_equal(bits[2], 0x0f);
    tdm_onebit_add(bits, scale, out, 20);
    for (int i = 0; i < 20; i++)
        assert_true(out[i] == 0 && residual[i] == 0);
}

static void what_was_not_sent_is_sent_later(void **state)
{
    (void)state;
    float in[333], residual[333] = {0}, scale;
    double sent[333] = {0}, given[333] = {0};
    uint8_t bits[42];
    for (uint64_t step = 0; step < 200; step++) {
        fill_values(in, 333, step);
        tdm_onebit_compress(in, residual, bits, &scale, 333);
        for (size_t i = 0; i < 333; i++) {
            given[i] += (double)in[i];
            sent[i] += (double)(bit(bits, i) ? scale : -scale);
        }
    }
    for (size_t i = 0; i < 333; i++)
        assert_true(fabs(given[i] - sent[i] - (double)residual[i]) < 1e-4);
}

static void what_is_not_finite_leaves_nothing_behind(void **state)
{
    (void)state;
    float in[40] = {1, INFINITY, NAN, -2}, residual[40] = {0}, scale;
    uint8_t bits[5];
    tdm_onebit_compress(in, residual, bits, &scale, 40);
    assert_false(isfinite(scale)); /* who gets it sees */
    for (int i = 0; i < 40; i++)
        assert_true(residual[i] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_count_gives_signs_scale_and_residual_as_defined),
        cmocka_unit_test(zeros_count_as_plus_and_stay_zero),
        cmocka_unit_test(what_was_not_sent_is_sent_later),
        cmocka_unit_test(what_is_not_finite_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
