/* test_table.c - keys, values and sums in memory. */
#include "store/table.h"

#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void thousands_of_keys_are_found_replaced_and_removed(void **state)
{
    (void)state;
    size_t held = tdmi_memory_held();
    tdmi_table table = {0};
    char key[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3000; i++) {
            snprintf(key, sizeof key, "key/%d", i);
            int value = i + round;
            assert_int_equal(tdmi_table_set(&table, key, &value, sizeof value), TDM_OK);
        }
    assert_int_equal(table.count, 3000);
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "key/%d", i);
        int value;
        memcpy(&value, tdmi_table_find(&table, key)->value, sizeof value);
        assert_int_equal(value, i + 1);
        if (i % 2 == 0)
            tdmi_table_remove(&table, key);
    }
    assert_int_equal(table.count, 1500);
    assert_null(tdmi_table_find(&table, "key/0"));
    assert_non_null(tdmi_table_find(&table, "key/1"));
    tdmi_table_clear(&table);
    assert_int_equal(tdmi_memory_held(), held);
}

static void sums_start_at_zero_and_refuse_text_and_overflow(void **state)
{
    (void)state;
    tdmi_table table = {0};
    int64_t sum;
    assert_int_equal(tdmi_table_add(&table, "n", 5, &sum), TDM_OK);
    assert_int_equal(tdmi_table_add(&table, "n", -7, &sum), TDM_OK);
    assert_int_equal(sum, -2);
    assert_string_equal(tdmi_table_find(&table, "n")->value, "-2");
    assert_int_equal(tdmi_table_set(&table, "t", "12x", 3), TDM_OK);
    assert_int_equal(tdmi_table_add(&table, "t", 1, &sum), TDM_ERR_INVALID);
    assert_int_equal(tdmi_table_add(&table, "big", INT64_MAX, &sum), TDM_OK);
    assert_int_equal(tdmi_table_add(&table, "big", 1, &sum), TDM_ERR_INVALID);
    tdmi_table_clear(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_keys_are_found_replaced_and_removed),
        cmocka_unit_test(sums_start_at_zero_and_refuse_text_and_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
