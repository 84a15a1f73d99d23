/* test_chrome.c - timeline files, read back by a strict JSON parser. */
#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static char dir[] = "/tmp/test_chrome.XXXXXX";
static char path_buffer[8][128];

static const char *in_dir(int slot, const char *name)
{
    snprintf(path_buffer[slot], sizeof path_buffer[slot], "%s/%s", dir, name);
    return path_buffer[slot];
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        print_error("%s line %d: %s\n", path, error.line, error.text);
    assert_non_null(root);
    return root;
}

/* The i-th complete event, or NULL. */
static json_t *complete_event(json_t *root, int i)
{
    json_t *events = json_object_get(root, "traceEvents"), *event;
    size_t index;
    assert_true(json_is_array(events));
    json_array_foreach(events, index, event)
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") == 0 && i-- == 0)
            return event;
    return NULL;
}

static int named(json_t *root, const char *what, int pid, int tid, const char *key, const char *value)
{
    json_t *event;
    size_t index;
    int found = 0;
    json_array_foreach(json_object_get(root, "traceEvents"), index, event) {
        const char *text = json_string_value(json_object_get(json_object_get(event, "args"), key));
        found += strcmp(json_string_value(json_object_get(event, "name")), what) == 0 &&
                 json_integer_value(json_object_get(event, "pid")) == pid &&
                 json_integer_value(json_object_get(event, "tid")) == tid && text != NULL && strcmp(text, value) == 0;
    }
    return found;
}

static double number(json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

static void times_are_microseconds_with_nanoseconds_kept(void **state)
{
    (void)state;
    tdmi_trace *trace;
    assert_int_equal(tdmi_trace_create(5, 8, &trace), TDM_OK);
    tdmi_trace_add(trace, "bucket 0", TDMI_TRACK_COMMUNICATION, 123456789012345, 123456789012345 + 1007, 12, 4096);
    tdmi_trace_add(trace, "forward", TDMI_TRACK_COMPUTE, 5, 5, 13, -1);
    const char *path = in_dir(0, "times.json");
    assert_int_equal(tdmi_trace_write_chrome(trace, path), TDM_OK);
    json_t *root = load(path), *event = complete_event(root, 0), *args = json_object_get(event, "args");
    assert_string_equal(json_string_value(json_object_get(event, "name")), "bucket 0");
    assert_string_equal(json_string_value(json_object_get(event, "cat")), "communication");
    assert_true(number(event, "ts") == 123456789012.345);
    assert_true(number(event, "dur") == 1.007);
    assert_int_equal(number(event, "pid"), 5);
    assert_int_equal(number(event, "tid"), TDMI_TRACK_COMMUNICATION);
    assert_int_equal(number(args, "step"), 12);
    assert_int_equal(number(args, "bytes"), 4096);
    event = complete_event(root, 1);
    assert_true(number(event, "ts") == 0.005 && number(event, "dur") == 0);
    assert_null(json_object_get(json_object_get(event, "args"), "bytes"));
    assert_null(complete_event(root, 2));
    assert_int_equal(named(root, "process_name", 5, 0, "name", "rank 5"), 1);
    assert_int_equal(named(root, "thread_name", 5, TDMI_TRACK_COMPUTE, "name", "compute"), 1);
    assert_int_equal(named(root, "thread_name", 5, TDMI_TRACK_STEP, "name", "step"), 1);
    json_decref(root);
    tdmi_trace_destroy(trace);
}

static void any_name_gives_valid_json(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"say \"hi\"\\n", "say \"hi\"\\n"},
        {"a\nb\tc\x01\x1f\x7f", "a\nb\tc\x01\x1f\x7f"},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"bad \xff\xfe", "bad \xef\xbf\xbd\xef\xbf\xbd"},
        {"cut \xe2\x82", "cut \xef\xbf\xbd\xef\xbf\xbd"},
        {"long \xc0\x80", "long \xef\xbf\xbd\xef\xbf\xbd"},
        {"surrogate \xed\xa0\x80", "surrogate \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"beyond \xf4\x90\x80\x80", "beyond \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"", ""},
    };
    enum { COUNT = sizeof names / sizeof names[0] };
    tdmi_trace *trace;
    assert_int_equal(tdmi_trace_create(0, 2 * COUNT, &trace), TDM_OK);
    for (int i = 0; i < COUNT; i++)
        tdmi_trace_add(trace, names[i][0], TDMI_TRACK_COMPUTE, i, i + 1, 1, -1);
    const char *path = in_dir(0, "names.json");
    assert_int_equal(tdmi_trace_write_chrome(trace, path), TDM_OK);
    json_t *root = load(path);
    for (int i = 0; i < COUNT; i++)
        assert_string_equal(json_string_value(json_object_get(complete_event(root, i), "name")), names[i][1]);
    json_decref(root);
    tdmi_trace_destroy(trace);
}

static void an_empty_trace_and_a_full_one_are_valid(void **state)
{
    (void)state;
    tdmi_trace *trace;
    assert_int_equal(tdmi_trace_create(0, 2, &trace), TDM_OK);
    const char *path = in_dir(0, "empty.json");
    assert_int_equal(tdmi_trace_write_chrome(trace, path), TDM_OK);
    json_t *root = load(path);
    assert_null(complete_event(root, 0));
    json_decref(root);
    for (int i = 0; i < 5; i++)
        tdmi_trace_add(trace, "x", TDMI_TRACK_DATA, i, i, 1, -1);
    assert_int_equal(tdmi_trace_write_chrome(trace, path), TDM_OK);
    root = load(path);
    assert_int_equal(named(root, "process_labels", 0, 0, "labels", "3 older events were dropped"), 1);
    json_decref(root);
    tdmi_trace_destroy(trace);
}

static void write_part(int rank, int events, const char *path)
{
    tdmi_trace *trace;
    assert_int_equal(tdmi_trace_create(rank, 100, &trace), TDM_OK);
    for (int i = 0; i < events; i++)
        tdmi_trace_add(trace, "]}\n", TDMI_TRACK_COMPUTE, i, i + 1, rank, -1);
    assert_int_equal(tdmi_trace_write_chrome(trace, path), TDM_OK);
    tdmi_trace_destroy(trace);
}

static void parts_of_three_ranks_become_one_file(void **state)
{
    (void)state;
    const char *parts[] = {in_dir(0, "p0"), in_dir(1, "p1"), in_dir(2, "p2")}, *out = in_dir(3, "merged.json");
    for (int rank = 0; rank < 3; rank++)
        write_part(rank, rank * 2, parts[rank]);
    assert_int_equal(tdmi_trace_merge_chrome(parts, 3, out), TDM_OK);
    json_t *root = load(out);
    int count = 0;
    while (complete_event(root, count) != NULL)
        count++;
    assert_int_equal(count, 6);
    assert_int_equal(number(complete_event(root, 0), "pid"), 1);
    assert_int_equal(number(complete_event(root, 5), "pid"), 2);
    assert_int_equal(named(root, "process_name", 0, 0, "name", "rank 0"), 1);
    assert_int_equal(named(root, "process_name", 2, 0, "name", "rank 2"), 1);
    json_decref(root);
    assert_int_equal(tdmi_trace_merge_chrome(parts, 0, out), TDM_OK);
    root = load(out);
    json_decref(root);
}

static void a_cut_or_missing_part_is_named_and_leaves_no_file(void **state)
{
    (void)state;
    const char *parts[] = {in_dir(0, "whole"), in_dir(1, "cut")}, *out = in_dir(2, "none.json");
    write_part(0, 4, parts[0]);
    write_part(1, 4, parts[1]);
    FILE *f = fopen(parts[1], "r");
    char text[4096];
    size_t size = fread(text, 1, sizeof text, f);
    fclose(f);
    for (size_t cut = 0; cut < size; cut += size - cut > 40 ? 13 : 1) {
        f = fopen(parts[1], "w");
        fwrite(text, 1, cut, f);
        fclose(f);
        assert_int_equal(tdmi_trace_merge_chrome(parts, 2, out), TDM_ERR_BAD_FILE);
        assert_non_null(strstr(tdm_error_text(), parts[1]));
        assert_int_not_equal(access(out, F_OK), 0);
    }
    unlink(parts[1]);
    assert_int_equal(tdmi_trace_merge_chrome(parts, 2, out), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), parts[1]));
    char temporary[160];
    snprintf(temporary, sizeof temporary, "%s.tmp", out);
    assert_int_not_equal(access(temporary, F_OK), 0);
}

static void a_place_that_cannot_be_written_is_an_error_with_the_path(void **state)
{
    (void)state;
    tdmi_trace *trace;
    assert_int_equal(tdmi_trace_create(0, 2, &trace), TDM_OK);
    const char *path = in_dir(0, "no/such/dir.json");
    assert_int_equal(tdmi_trace_write_chrome(trace, path), TDM_ERR_SYSTEM);
    assert_non_null(strstr(tdm_error_text(), path));

    const char *full = in_dir(1, "full.json"), *link = in_dir(2, "full.json.tmp");
    assert_int_equal(symlink("/dev/full", link), 0);
    assert_int_equal(tdmi_trace_write_chrome(trace, full), TDM_ERR_NO_SPACE);
    assert_int_not_equal(access(full, F_OK), 0);
    tdmi_trace_destroy(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_microseconds_with_nanoseconds_kept),
        cmocka_unit_test(any_name_gives_valid_json),
        cmocka_unit_test(an_empty_trace_and_a_full_one_are_valid),
        cmocka_unit_test(parts_of_three_ranks_become_one_file),
        cmocka_unit_test(a_cut_or_missing_part_is_named_and_leaves_no_file),
        cmocka_unit_test(a_place_that_cannot_be_written_is_an_error_with_the_path),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir) != 0;
}
