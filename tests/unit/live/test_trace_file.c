/* test_trace_file.c - traces that say which rank they are of once they have been moved. */
#include "live/trace_file.h"

#include "kineto/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], from[96], to[96];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test-trace-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(from, sizeof from, "%s/a_1.pt.trace.json", folder);
    snprintf(to, sizeof to, "%s/b.pt.trace.json", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(to);
    unlink(from);
    return rmdir(folder);
}

static void write_trace(const char *text)
{
    FILE *file = fopen(from, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void the_rank_is_in_front_and_the_rest_as_it_was(void **state)
{
    (void)state;
    tdmi_trace *trace;
    write_trace("\n{\n  \"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"pid\": 1, \"tid\": 1, \"ts\": 5, \"dur\": 2}]}");
    assert_int_equal(tdmi_trace_file_move(from, to, 3, 8), TDM_OK);
    assert_int_equal(access(from, F_OK), -1);
    assert_int_equal(tdmi_trace_read(to, &(tdmi_trace_options){0}, &trace), TDM_OK);
    assert_int_equal(trace->rank, 3);
    assert_int_equal(trace->world_size, 8);
    assert_int_equal(trace->event_count, 1);
    assert_int_equal(trace->wrong[TDMI_WRONG_DAMAGED], 0);
    tdmi_trace_free(trace);
}

static void what_the_trace_says_itself_counts(void **state)
{
    (void)state;
    tdmi_trace *trace;
    write_trace("{\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 5, \"world_size\": 16}, \"traceEvents\": []}");
    assert_int_equal(tdmi_trace_file_move(from, to, 3, -1), TDM_OK);
    assert_int_equal(tdmi_trace_read(to, &(tdmi_trace_options){0}, &trace), TDM_OK);
    assert_int_equal(trace->rank, 5);
    assert_int_equal(trace->world_size, 16);
    tdmi_trace_free(trace);
}

static void without_a_rank_and_without_a_brace_it_stays_as_it_is(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"traceEvents\": []}", "[]", ""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char seen[64] = "";
        write_trace(texts[i]);
        assert_int_equal(tdmi_trace_file_move(from, to, i == 0 ? -1 : 3, 8), TDM_OK);
        FILE *file = fopen(to, "r");
        const size_t got = fread(seen, 1, sizeof seen - 1, file);
        fclose(file);
        assert_int_equal(got, strlen(texts[i]));
        assert_string_equal(seen, texts[i]);
    }
}

static void a_link_is_no_trace(void **state)
{
    (void)state;
    assert_int_equal(symlink("/etc/passwd", from), 0);
    assert_int_equal(tdmi_trace_file_move(from, to, 3, 8), TDM_ERR_SYSTEM);
    assert_non_null(strstr(tdm_error_text(), "rank 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_rank_is_in_front_and_the_rest_as_it_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_trace_says_itself_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_rank_and_without_a_brace_it_stays_as_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_link_is_no_trace, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
