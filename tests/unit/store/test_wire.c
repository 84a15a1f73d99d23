/* test_wire.c - store frames as bytes. */
#include "store/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void a_frame_has_the_documented_bytes(void **state)
{
    (void)state;
    uint8_t bytes[TDMI_STORE_FRAME_HEADER];
    tdmi_store_frame_header(bytes, &(tdmi_store_frame){.code = TDMI_STORE_SET, .id = 0x0102030405060708, .key_nbytes = 3, .value_nbytes = 0x10203});
    static const uint8_t expected[] = {1, 0, 3, 0, 3, 2, 1, 0, 8, 7, 6, 5, 4, 3, 2, 1};
    assert_memory_equal(bytes, expected, sizeof expected);
}

static void a_frame_is_complete_with_its_last_byte_only(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {1, 0, 1, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 'k', 'v', 'w', 'x'};
    tdmi_store_frame frame;
    for (size_t n = 0; n < 19; n++)
        assert_int_equal(tdmi_store_frame_parse(bytes, n, true, &frame), 0);
    assert_int_equal(tdmi_store_frame_parse(bytes, sizeof bytes, true, &frame), 19);
    assert_int_equal(frame.id, 9);
    assert_memory_equal(frame.key, "k", 1);
    assert_memory_equal(frame.value, "vw", 2);
}

static void frames_that_break_a_rule_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint8_t bytes[TDMI_STORE_FRAME_HEADER + 8];
    } bad[] = {
        {"operation 0", {0, 0, 1, 0}},
        {"operation 9", {9, 0, 1, 0}},
        {"reserved byte", {1, 1, 1, 0}},
        {"set without a key", {1, 0, 0, 0}},
        {"key of 256 bytes", {1, 0, 0, 1}},
        {"value over 1 MiB", {1, 0, 1, 0, 1, 0, 16, 0}},
        {"value of 4 GiB", {1, 0, 1, 0, 255, 255, 255, 255}},
        {"get with a value", {2, 0, 1, 0, 1}},
        {"add of 4 bytes", {3, 0, 1, 0, 4}},
        {"cancel with a key", {8, 0, 1, 0}},
        {"zero byte in the key", {2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'a', 0}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tdmi_store_frame frame;
        assert_int_equal(tdmi_store_frame_parse(bad[i].bytes, sizeof bad[i].bytes, true, &frame), -1);
        assert_non_null(strstr(tdm_error_text(), "no store frame"));
    }
    static const uint8_t answer_with_key[TDMI_STORE_FRAME_HEADER] = {0, 0, 1, 0};
    tdmi_store_frame frame;
    assert_int_equal(tdmi_store_frame_parse(answer_with_key, sizeof answer_with_key, false, &frame), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_has_the_documented_bytes),
        cmocka_unit_test(a_frame_is_complete_with_its_last_byte_only),
        cmocka_unit_test(frames_that_break_a_rule_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
