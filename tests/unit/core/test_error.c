/* test_error.c - codes and texts. */
#include "core/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void a_text_may_be_built_from_the_text_before_it(void **state)
{
    (void)state;
    assert_int_equal(tdmi_fail(TDM_ERR_INVALID, "width %d", 7), TDM_ERR_INVALID);
    assert_int_equal(tdmi_fail(TDM_ERR_SYSTEM, "outer (%s)", tdm_error_text()), TDM_ERR_SYSTEM);
    assert_string_equal(tdm_error_text(), "outer (width 7)");
    assert_int_equal(tdmi_fail_while(TDM_ERR_SYSTEM, "loading"), TDM_ERR_SYSTEM);
    assert_string_equal(tdm_error_text(), "outer (width 7); while loading");
}

static void errno_picks_the_code_that_says_who_can_act(void **state)
{
    (void)state;
    assert_int_equal(tdmi_fail_errno(TDM_ERR_SYSTEM, ENOSPC, "write"), TDM_ERR_NO_SPACE);
    assert_int_equal(tdmi_fail_errno(TDM_ERR_SYSTEM, EADDRINUSE, "bind"), TDM_ERR_ADDRESS_IN_USE);
    assert_int_equal(tdmi_fail_errno(TDM_ERR_BAD_FILE, EACCES, "open x"), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "open x: Permission denied"));
}

static void every_code_has_a_name_and_a_text(void **state)
{
    (void)state;
    assert_string_equal(tdm_status_name(TDM_ERR_TIMEOUT), "TDM_ERR_TIMEOUT");
    assert_string_equal(tdm_status_name((tdm_status)999), "TDM_ERR_UNKNOWN");
    assert_true(strlen(tdm_status_text(TDM_ERR_PEER_LOST)) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_may_be_built_from_the_text_before_it),
        cmocka_unit_test(errno_picks_the_code_that_says_who_can_act),
        cmocka_unit_test(every_code_has_a_name_and_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
