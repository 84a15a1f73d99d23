/* test_options.c - the launcher's options and lists of ranks. */
#include "launch/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_list_of_ranks_names_ranks_and_ranges(void **state)
{
    (void)state;
    static const int in[] = {0, 2, 3, 4, 17}, out[] = {1, 5, 16, 18};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        assert_true(tdmi_rank_list_has("0,2-4,17", in[i]));
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        assert_false(tdmi_rank_list_has("0,2-4,17", out[i]));
    assert_true(tdmi_rank_list_has(NULL, 5));
}

static void lists_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a", "1,", ",1", "3-1", "1--2", "1-", "-1", "1;2", "1 2"};
    static const char *const argv[] = {"true", NULL};
    tdm_launch_options options;
    tdm_launch_options_init(&options);
    options.argv = argv;
    assert_int_equal(tdmi_launch_options_check(&options), TDM_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options.only_ranks = bad[i];
        assert_int_equal(tdmi_launch_options_check(&options), TDM_ERR_INVALID);
        assert_non_null(strstr(tdm_error_text(), "is not a list of ranks"));
    }
}

static void several_nodes_need_an_address_and_a_secret(void **state)
{
    (void)state;
    tdm_launch_options options;
    tdm_launch_options_init(&options);
    options.nodes = 2;
    unsetenv("TANDEM_JOB_SECRET");
    assert_int_equal(tdmi_launch_options_check(&options), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "--rdzv"));
    options.rendezvous = "10.0.0.1:29400";
    assert_int_equal(tdmi_launch_options_check(&options), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "TANDEM_JOB_SECRET"));
    setenv("TANDEM_JOB_SECRET", "s", 1);
    assert_int_equal(tdmi_launch_options_check(&options), TDM_OK);
    options.port = 29400;
    assert_int_equal(tdmi_launch_options_check(&options), TDM_ERR_INVALID);
    unsetenv("TANDEM_JOB_SECRET");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_ranks_names_ranks_and_ranges),
        cmocka_unit_test(lists_that_are_none_are_refused),
        cmocka_unit_test(several_nodes_need_an_address_and_a_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
