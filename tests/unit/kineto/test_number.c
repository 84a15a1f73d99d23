/* test_number.c - decimal numbers, exact to the last digit. */
#include "kineto/number.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t *bytes(const char *text)
{
    static uint8_t padded[256];
    memset(padded, 0, sizeof padded);
    memcpy(padded, text, strlen(text));
    return padded;
}

static void check_ns(const char *text, tdmi_number expected, int64_t ns, bool whole)
{
    int64_t out;
    bool is_whole;
    assert_int_equal(tdmi_number_ns(bytes(text), &out, &is_whole), expected);
    if (expected != TDMI_NUMBER_GOOD)
        return;
    assert_int_equal(out, ns);
    assert_int_equal(is_whole, whole);
}

static void microseconds_become_ns_without_a_double(void **state)
{
    (void)state;
    check_ns("5113483586846.034,", TDMI_NUMBER_GOOD, 5113483586846034, false);
    check_ns("1669783687505483,", TDMI_NUMBER_GOOD, 1669783687505483000, true);
    check_ns("1711234567890123.25}", TDMI_NUMBER_GOOD, 1711234567890123250, false);
    check_ns("9223372036854775.807", TDMI_NUMBER_GOOD, INT64_MAX, false);
    check_ns("0.0005", TDMI_NUMBER_GOOD, 1, false);
    check_ns("0.0004999999999999999999999", TDMI_NUMBER_GOOD, 0, false);
    check_ns("1.2e15", TDMI_NUMBER_GOOD, 1200000000000000000, false);
    check_ns("12E-3,", TDMI_NUMBER_GOOD, 12, false);
    check_ns("-7.5", TDMI_NUMBER_GOOD, -7500, false);
    check_ns("-0", TDMI_NUMBER_GOOD, 0, true);
    check_ns("0.1234567890123456789012345", TDMI_NUMBER_GOOD, 123, false);
    check_ns("1e-999999999999", TDMI_NUMBER_GOOD, 0, false);
}

static void what_is_no_time_is_told(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "null", "NaN", "nan", "-Infinity", "inf", "-", ".", "}", "\"12\"", "true"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_ns(bad[i], TDMI_NUMBER_BAD, 0, false);
    static const char *const large[] = {"9223372036854775.808", "9223372036854776", "18446744073709551615", "1e300", "-1e19", "99999999999999999999999999"};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        check_ns(large[i], TDMI_NUMBER_RANGE, 0, false);
}

static void whole_numbers_up_to_64_bits(void **state)
{
    (void)state;
    int64_t i;
    uint64_t u;
    assert_int_equal(tdmi_number_int(bytes("9223372036854775807"), &i), TDMI_NUMBER_GOOD);
    assert_true(i == INT64_MAX);
    assert_int_equal(tdmi_number_int(bytes("9223372036854775808"), &i), TDMI_NUMBER_RANGE);
    assert_true(i == INT64_MAX);
    assert_int_equal(tdmi_number_int(bytes("-123456789012"), &i), TDMI_NUMBER_GOOD);
    assert_true(i == -123456789012);
    assert_int_equal(tdmi_number_int(bytes("7.9"), &i), TDMI_NUMBER_GOOD);
    assert_true(i == 7);
    assert_int_equal(tdmi_number_uint(bytes("18446744073709551615"), &u), TDMI_NUMBER_GOOD);
    assert_true(u == UINT64_MAX);
    assert_int_equal(tdmi_number_uint(bytes("18446744073709551616"), &u), TDMI_NUMBER_RANGE);
    assert_int_equal(tdmi_number_uint(bytes("-1"), &u), TDMI_NUMBER_RANGE);
}

static void doubles_are_those_of_a_correct_reader(void **state)
{
    (void)state;
    srand(3);
    for (int round = 0; round < 20000; round++) {
        char text[64];
        double value;
        if (round % 2 == 0)
            snprintf(text, sizeof text, "%d.%d", rand() % 1000, rand());
        else
            snprintf(text, sizeof text, "%.*g", 1 + rand() % 20, ldexp(rand(), rand() % 400 - 200));
        assert_int_equal(tdmi_number_double(bytes(text), &value), TDMI_NUMBER_GOOD);
        assert_true(value == strtod(text, NULL));
    }
    double value;
    assert_int_equal(tdmi_number_double(bytes("1e999"), &value), TDMI_NUMBER_RANGE);
    assert_int_equal(tdmi_number_double(bytes("NaN"), &value), TDMI_NUMBER_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(microseconds_become_ns_without_a_double),
        cmocka_unit_test(what_is_no_time_is_told),
        cmocka_unit_test(whole_numbers_up_to_64_bits),
        cmocka_unit_test(doubles_are_those_of_a_correct_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
