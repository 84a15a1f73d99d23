/* test_config.c - TANDEM_* variables, numbers and sizes. */
#include "core/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void an_unset_or_empty_variable_gives_its_default(void **state)
{
    (void)state;
    unsetenv("TANDEM_TRANSPORT");
    assert_string_equal(tdmi_config_text(TDMI_CONFIG_TRANSPORT), "auto");
    setenv("TANDEM_TRANSPORT", "", 1);
    assert_string_equal(tdmi_config_text(TDMI_CONFIG_TRANSPORT), "auto");
    setenv("TANDEM_TRANSPORT", "tcp", 1);
    assert_string_equal(tdmi_config_text(TDMI_CONFIG_TRANSPORT), "tcp");
    unsetenv("TANDEM_TRANSPORT");
}

static void a_number_out_of_range_is_refused_with_its_name(void **state)
{
    (void)state;
    double seconds;
    setenv("TANDEM_TIMEOUT", "-3", 1);
    assert_int_equal(tdmi_config_number(TDMI_CONFIG_TIMEOUT, 0, 1e9, &seconds), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "TANDEM_TIMEOUT=-3"));
    setenv("TANDEM_TIMEOUT", "2.5", 1);
    assert_int_equal(tdmi_config_number(TDMI_CONFIG_TIMEOUT, 0, 1e9, &seconds), TDM_OK);
    assert_true(seconds == 2.5);
    unsetenv("TANDEM_TIMEOUT");
}

static void sizes_take_suffixes_as_powers_of_1024(void **state)
{
    (void)state;
    size_t nbytes;
    static const struct {
        const char *text;
        size_t nbytes;
    } good[] = {{"8", 8}, {"4K", 4096}, {"25M", 25u << 20}, {"1g", 1u << 30}, {"0.5M", 1u << 19}, {"0", 0}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(tdm_parse_size(good[i].text, "-b", &nbytes), TDM_OK);
        assert_int_equal(nbytes, good[i].nbytes);
    }
    static const char *const bad[] = {"", "-1", "x", "4KB", "1.5", "nan", "inf", "1e30", "4 K"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tdm_parse_size(bad[i], "-b", &nbytes), TDM_ERR_INVALID);
        assert_non_null(strstr(tdm_error_text(), "-b"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unset_or_empty_variable_gives_its_default),
        cmocka_unit_test(a_number_out_of_range_is_refused_with_its_name),
        cmocka_unit_test(sizes_take_suffixes_as_powers_of_1024),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
