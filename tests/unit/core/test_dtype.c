/* test_dtype.c - names, sizes and half precision. */
#include "core/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void every_dtype_is_found_by_its_name(void **state)
{
    (void)state;
    for (int i = 0; i < TDM_DTYPE_COUNT; i++) {
        tdm_dtype found;
        assert_true(tdm_dtype_parse(tdm_dtype_name((tdm_dtype)i), &found));
        assert_int_equal(found, i);
        assert_true(tdm_dtype_size((tdm_dtype)i) >= 1);
    }
    tdm_dtype none;
    assert_false(tdm_dtype_parse("float31", &none));
    assert_int_equal(tdm_dtype_size((tdm_dtype)99), 0);
}

static void every_float16_survives_the_way_through_float32(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = tdmi_f16_to_f32((uint16_t)bits);
        if (isnan(value))
            assert_true(isnan(tdmi_f16_to_f32(tdmi_f32_to_f16(value))));
        else
            assert_int_equal(tdmi_f32_to_f16(value), bits);
    }
}

static void float16_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(tdmi_f32_to_f16(2049.0f), 0x6800);  /* between 2048 and 2050: the even one */
    assert_int_equal(tdmi_f32_to_f16(2051.0f), 0x6802);
    assert_int_equal(tdmi_f32_to_f16(65519.0f), 0x7bff); /* the largest that stays finite */
    assert_int_equal(tdmi_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(tdmi_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(tdmi_f32_to_f16(0x1.8p-24f), 2);
}

static void bfloat16_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(tdmi_f32_to_bf16(257.0f), 0x4380);
    assert_int_equal(tdmi_f32_to_bf16(259.0f), 0x4382);
    assert_int_equal(tdmi_f32_to_bf16(NAN), 0x7fc0);
    assert_true(tdmi_bf16_to_f32(0x4380) == 256.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_is_found_by_its_name),
        cmocka_unit_test(every_float16_survives_the_way_through_float32),
        cmocka_unit_test(float16_rounds_to_nearest_even),
        cmocka_unit_test(bfloat16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
