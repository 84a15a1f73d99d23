/* test_request.c - what is asked of a rank, and paths that cannot be said. */
#include "live/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void steps_are_asked_for_by_a_multiple(void **state)
{
    (void)state;
    char text[TDMI_REQUEST_MAX];
    const tdmi_request request = {.path = "/tmp/a/rank0.pt.trace.json", .iterations = 4, .multiple = 50, .duration_ms = 100, .stacks = true};
    assert_int_equal(tdmi_request_write(&request, text), TDM_OK);
    assert_string_equal(text, "ACTIVITIES_LOG_FILE=/tmp/a/rank0.pt.trace.json\nACTIVITIES_WARMUP_PERIOD_SECS=0\nACTIVITIES_DURATION_MSECS=100\n"
                              "PROFILE_START_ITERATION=0\nPROFILE_START_ITERATION_ROUNDUP=50\nACTIVITIES_ITERATIONS=4\nACTIVITIES_WARMUP_ITERATIONS=1\n"
                              "PROFILE_REPORT_INPUT_SHAPES=false\nPROFILE_WITH_STACK=true\n");
}

static void without_steps_a_time_is_asked_for(void **state)
{
    (void)state;
    char text[TDMI_REQUEST_MAX];
    const tdmi_request request = {.path = "/tmp/a/rank0.pt.trace.json", .start_ms = 1800000000123, .duration_ms = 500};
    assert_int_equal(tdmi_request_write(&request, text), TDM_OK);
    assert_non_null(strstr(text, "\nPROFILE_START_TIME=1800000000123\n"));
    assert_null(strstr(text, "ITERATION"));
}

static void paths_that_would_be_cut_are_refused(void **state)
{
    (void)state;
    static const char *const paths[] = {"/tmp/a=b/rank0.pt.trace.json", "/tmp/a#b/rank0.pt.trace.json", "/tmp/a\nb/rank0.pt.trace.json",
                                        "/tmp/a b/rank0.pt.trace.json", "/tmp/a.json.d/rank0.pt.trace.json", "/tmp/rank0.json", ".pt.trace.json"};
    char text[TDMI_REQUEST_MAX], longest[TDMI_REQUEST_MAX + 64];
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_int_equal(tdmi_request_write(&(tdmi_request){.path = paths[i]}, text), TDM_ERR_INVALID);
    memset(longest, 'a', sizeof longest);
    strcpy(longest + TDMI_REQUEST_MAX - 64, "/rank0.pt.trace.json");
    assert_int_equal(tdmi_request_write(&(tdmi_request){.path = longest}, text), TDM_ERR_INVALID);
}

static void the_file_has_the_process_in_its_name(void **state)
{
    (void)state;
    char file[64];
    tdmi_request_file(&(tdmi_request){.path = "/tmp/rank3.pt.trace.json"}, 4711, file, sizeof file);
    assert_string_equal(file, "/tmp/rank3_4711.pt.trace.json");
}

static void multiples_are_further_apart_than_requests(void **state)
{
    (void)state;
    assert_int_equal(tdmi_request_multiple(0.1, 0.3), 24);
    assert_int_equal(tdmi_request_multiple(5.0, 0.3), 1);
    assert_int_equal(tdmi_request_multiple(0.1, 0), 1);
    assert_int_equal(tdmi_request_multiple(1e-12, 1), 1000000);
    assert_int_equal(tdmi_request_multiple(0, 1), 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_asked_for_by_a_multiple),
        cmocka_unit_test(without_steps_a_time_is_asked_for),
        cmocka_unit_test(paths_that_would_be_cut_are_refused),
        cmocka_unit_test(the_file_has_the_process_in_its_name),
        cmocka_unit_test(multiples_are_further_apart_than_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
