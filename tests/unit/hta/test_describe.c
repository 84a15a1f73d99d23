/* test_describe.c - describe() and the sort below it. */
#include "hta/rank.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_sort_is_stable_for_all_keys(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static tdmi_hta_key key[COUNT], scratch[COUNT];
    uint64_t random = 1;
    for (uint32_t i = 0; i < COUNT; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        key[i] = (tdmi_hta_key){tdmi_hta_key_of_time((int64_t)(random >> 40) % 100 * ((random & 1) != 0 ? INT64_C(-1000000007) : INT64_C(90000000000001))), i};
    }
    tdmi_hta_sort(key, scratch, COUNT);
    for (size_t i = 1; i < COUNT; i++)
        assert_true(key[i - 1].key < key[i].key || (key[i - 1].key == key[i].key && key[i - 1].value < key[i].value));
    tdmi_hta_sort(key, scratch, 0);
    tdmi_hta_sort(key, scratch, 1);
    assert_true(tdmi_hta_key_of_time(INT64_MIN) == 0 && tdmi_hta_key_of_time(-1) < tdmi_hta_key_of_time(0));
}

static void quartiles_are_interpolated(void **state)
{
    (void)state;
    double value[] = {4, -1, 2.5, 0};
    tdmi_hta_describe d;
    assert_int_equal(tdmi_hta_describe_values(value, 4, &d), TDM_OK);
    assert_true(d.count == 4 && d.mean == 1.375 && d.min == -1 && d.max == 4);
    assert_true(d.quarter == -0.25 && d.half == 1.25 && d.three_quarters == 2.875);
    assert_true(fabs(d.std - sqrt((2.625 * 2.625 + 2.375 * 2.375 + 1.125 * 1.125 + 1.375 * 1.375) / 3)) < 1e-12);
}

static void one_value_has_no_deviation_and_none_has_nothing(void **state)
{
    (void)state;
    double value[] = {3};
    tdmi_hta_describe d;
    assert_int_equal(tdmi_hta_describe_values(value, 1, &d), TDM_OK);
    assert_true(d.mean == 3 && d.half == 3 && isnan(d.std));
    assert_int_equal(tdmi_hta_describe_values(value, 0, &d), TDM_OK);
    assert_true(d.count == 0 && isnan(d.mean));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sort_is_stable_for_all_keys),
        cmocka_unit_test(quartiles_are_interpolated),
        cmocka_unit_test(one_value_has_no_deviation_and_none_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
