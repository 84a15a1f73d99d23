/* test_line.c - heads of records, whatever stands before them. */
#include "nccl_log/line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static bool is_node(const void *arg, tdmi_span name)
{
    (void)arg;
    return tdmi_span_starts(name, "node") && name.nbytes == 5;
}

static const tdmi_nccl_known_hosts known = {.has = is_node};

static bool next(const char *line, size_t *at, tdmi_nccl_record *record)
{
    return tdmi_nccl_next_record(tdmi_span_of(line), at, &known, record);
}

static void a_head_is_found_behind_any_prefix(void **state)
{
    (void)state;
    const struct {
        const char *line;
        int rank;
        bool has_time;
    } cases[] = {
        {"node1:17:18 [3] NCCL INFO hello", -1, false},
        {"[rank3]:node1:17:18 [3] NCCL INFO hello", 3, false},
        {"[rank12]: node1:17:18 [3] NCCL INFO hello", 12, false},
        {"[default3]:node1:17:18 [3] NCCL INFO hello", 3, false},
        {"[1,7]<stdout>:node1:17:18 [3] NCCL INFO hello", 7, false},
        {"3: node1:17:18 [3] NCCL INFO hello", 3, false},
        {"[2025-11-30 12:34:56] node1:17:18 [3] NCCL INFO hello", -1, true},
        {"2025-11-30T12:34:56.789Z stdout F node1:17:18 [3] NCCL INFO hello", -1, true},
        {"[rank3]:[2025-11-30 12:34:56] node1:17:18 [3] NCCL INFO hello", 3, true},
    };
    tdmi_nccl_record hidden;
    size_t start = 0;
    assert_true(next("<cluster_name>:919:1150 [0] NCCL INFO hello", &start, &hidden)); /* as reports have it */
    assert_true(tdmi_span_is(hidden.host, "<cluster_name>"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tdmi_nccl_record record;
        size_t at = 0;
        if (!next(cases[i].line, &at, &record))
            fail_msg("no record in %s", cases[i].line);
        assert_true(tdmi_span_is(record.host, "node1"));
        assert_int_equal(record.pid, 17);
        assert_int_equal(record.tid, 18);
        assert_int_equal(record.device, 3);
        assert_false(record.warning);
        assert_true(tdmi_span_is(record.text, "hello"));
        assert_int_equal(record.rank, cases[i].rank);
        assert_int_equal(record.time_s >= 0, cases[i].has_time);
        assert_false(next(cases[i].line, &at, &record));
    }
}

static void a_warning_names_its_source(void **state)
{
    (void)state;
    tdmi_nccl_record record;
    size_t at = 0;
    assert_true(next("node1:17:18 [0] transport/net_ib.cc:1298 NCCL WARN NET/IB : oh", &at, &record));
    assert_true(record.warning);
    assert_true(tdmi_span_is(record.source, "transport/net_ib.cc:1298"));
    assert_true(tdmi_span_is(record.text, "NET/IB : oh"));
}

static void two_records_of_a_line_are_two(void **state)
{
    (void)state;
    const char *lines[] = {"node1:1:2 [0] NCCL INFO onenode2:3:4 [1] NCCL INFO two", "node1:1:2 [0] NCCL INFO one [rank1]:node2:3:4 [1] NCCL INFO two"};
    for (size_t i = 0; i < 2; i++) {
        tdmi_nccl_record record;
        size_t at = 0;
        assert_true(next(lines[i], &at, &record));
        assert_true(tdmi_span_starts(record.text, "one"));
        assert_false(tdmi_span_has(record.text, "node2"));
        assert_true(next(lines[i], &at, &record));
        assert_true(tdmi_span_is(record.host, "node2"));
        assert_true(tdmi_span_is(record.text, "two"));
    }
}

static void damaged_heads_are_no_records(void **state)
{
    (void)state;
    const char *lines[] = {"", "NCCL INFO ", "NCCL INFO hello", "[0] NCCL INFO hello", ":1:2 [0] NCCL INFO hello", "node1:1 [0] NCCL INFO hello",
                           "node1:x:2 [0] NCCL INFO hello", "node1:1:2 [x] NCCL INFO hello", "node1:1:2 [0] NCCL INF", "node1:12345678901:2 [0] NCCL INFO hello"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        tdmi_nccl_record record;
        size_t at = 0;
        if (next(lines[i], &at, &record))
            fail_msg("a record in '%s'", lines[i]);
    }
}

static void patterns_take_lines_apart(void **state)
{
    (void)state;
    int64_t a, b;
    uint64_t x;
    tdmi_span word, rest;
    assert_true(tdmi_match(tdmi_span_of("comm 0x7fA0 rank  3 of 4: tail end"), "comm %x rank %d of %d: %w %r", &x, &a, &b, &word, &rest));
    assert_int_equal(x, 0x7fa0);
    assert_int_equal(a, 3);
    assert_true(tdmi_span_is(word, "tail") && tdmi_span_is(rest, "end"));
    assert_true(tdmi_match(tdmi_span_of("99999999999999999999999"), "%d", &a));
    assert_true(a == INT64_MAX);
    assert_true(tdmi_match(tdmi_span_of("-7"), "%d", &a));
    assert_int_equal(a, -7);
    assert_false(tdmi_match(tdmi_span_of("comm"), "comm %d", &a));
    assert_false(tdmi_match(tdmi_span_of(""), "x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_found_behind_any_prefix), cmocka_unit_test(a_warning_names_its_source), cmocka_unit_test(two_records_of_a_line_are_two),
        cmocka_unit_test(damaged_heads_are_no_records),      cmocka_unit_test(patterns_take_lines_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
