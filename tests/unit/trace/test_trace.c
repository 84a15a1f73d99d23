/* test_trace.c - the ring of events. */
#include "trace/trace.h"

#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void events_come_back_oldest_first(void **state)
{
    (void)state;
    tdmi_trace *trace;
    assert_int_equal(tdmi_trace_create(3, 8, &trace), TDM_OK);
    assert_int_equal(tdmi_trace_rank(trace), 3);
    tdmi_trace_add(trace, "a", TDMI_TRACK_COMPUTE, 10, 20, 1, -1);
    tdmi_trace_add(trace, "b", TDMI_TRACK_COMMUNICATION, 15, 15, 2, 4096);
    uint64_t dropped = 99;
    assert_int_equal(tdmi_trace_count(trace, &dropped), 2);
    assert_int_equal(dropped, 0);
    tdmi_trace_event b = tdmi_trace_get(trace, 1);
    assert_string_equal(tdmi_trace_get(trace, 0).name, "a");
    assert_string_equal(b.name, "b");
    assert_int_equal(b.track, TDMI_TRACK_COMMUNICATION);
    assert_int_equal(b.begin_ns, 15);
    assert_int_equal(b.end_ns, 15);
    assert_int_equal(b.step, 2);
    assert_int_equal(b.nbytes, 4096);
    tdmi_trace_destroy(trace);
}

static void a_full_ring_loses_its_oldest_events_and_counts_them(void **state)
{
    (void)state;
    tdmi_trace *trace;
    assert_int_equal(tdmi_trace_create(0, 4, &trace), TDM_OK);
    for (int64_t i = 0; i < 11; i++)
        tdmi_trace_add(trace, "x", TDMI_TRACK_STEP, i, i + 1, i, -1);
    uint64_t dropped;
    assert_int_equal(tdmi_trace_count(trace, &dropped), 4);
    assert_int_equal(dropped, 7);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(tdmi_trace_get(trace, i).step, 7 + i);
    tdmi_trace_destroy(trace);
}

static void recording_allocates_nothing(void **state)
{
    (void)state;
    tdmi_trace *trace;
    assert_int_equal(tdmi_trace_create(0, 16, &trace), TDM_OK);
    uint64_t before = tdmi_memory_allocations();
    for (int64_t i = 0; i < 100; i++)
        tdmi_trace_add(trace, "x", TDMI_TRACK_DATA, i, i, i, i);
    assert_int_equal(tdmi_memory_allocations(), before);
    tdmi_trace_destroy(trace);
}

static void a_ring_of_no_events_is_refused(void **state)
{
    (void)state;
    tdmi_trace *trace;
    assert_int_equal(tdmi_trace_create(0, 0, &trace), TDM_ERR_INVALID);
    assert_int_equal(tdmi_trace_create(0, SIZE_MAX / 8, &trace), TDM_ERR_INVALID);
    tdmi_trace_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_back_oldest_first),
        cmocka_unit_test(a_full_ring_loses_its_oldest_events_and_counts_them),
        cmocka_unit_test(recording_allocates_nothing),
        cmocka_unit_test(a_ring_of_no_events_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
