/* test_trace.c - traces as small texts: what each kind of event becomes, and what damage costs. */
#include "kineto/trace.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tdmi_trace *trace; /* of the test at hand */

static int drop(void **state)
{
    (void)state;
    tdmi_trace_free(trace);
    trace = NULL;
    return 0;
}

static void read_bytes(const char *text, size_t nbytes)
{
    drop(NULL);
    const tdm_status status = tdmi_trace_read_bytes("t.json", text, nbytes, NULL, &trace);
    if (status != TDM_OK)
        fail_msg("%s", tdm_error_text());
}

static void read_text(const char *text)
{
    read_bytes(text, strlen(text));
}

/* The same with the events in a document. */
static void read_events(const char *events)
{
    char *text = malloc(strlen(events) + 64);
    sprintf(text, "{\"schemaVersion\": 1, \"traceEvents\": [%s]}", events);
    read_text(text);
    free(text);
}

static const char *name_of(size_t event)
{
    return tdmi_trace_text(trace, trace->event[event].name);
}

static bool noted(const char *words)
{
    for (size_t i = 0; i < trace->note_count; i++)
        if (strstr(trace->note[i], words) != NULL)
            return true;
    return false;
}

#define KERNEL(name, ts, dur) \
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"" name "\", \"pid\": 0, \"tid\": 7, \"ts\": " ts ", \"dur\": " dur \
    ", \"args\": {\"stream\": 7, \"device\": 0, \"correlation\": 12}}"

static void a_kernel_has_all_that_its_args_say(void **state)
{
    (void)state;
    read_events("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm<4>\",\"pid\":1,\"tid\":1000007,\"ts\":4200000124477.772,\"dur\":22.152,"
                "\"args\":{\"External id\":8,\"queued\":0,\"device\":1,\"context\":1,\"stream\":7,\"correlation\":5017,\"registers per thread\":128,"
                "\"shared memory\":49152,\"grid\":[8,128,1],\"block\":[256, 1, 1],\"graph id\":3,\"Collective name\":\"allreduce\","
                "\"In msg nelems\":100,\"Out msg nelems\":200,\"Group size\":2,\"dtype\":\"BFloat16\",\"Process Group Name\":\"0\","
                "\"Process Group Description\":\"default_pg\",\"Process Group Ranks\":\"[0, 1]\",\"Seq\":9,\"Comms Id\":18446744073709551615,"
                "\"Is asynchronized op\":true}}");
    assert_int_equal(trace->event_count, 1);
    const tdmi_event *e = trace->event;
    assert_int_equal(e->kind, TDMI_EVENT_KERNEL);
    assert_int_equal(e->start_ns, 4200000124477772);
    assert_int_equal(e->dur_ns, 22152);
    assert_int_equal(e->correlation, 5017);
    assert_int_equal(e->stream, 7);
    assert_string_equal(name_of(0), "gemm<4>");
    assert_true(trace->ns_times);
    const tdmi_lane *lane = &trace->lane[e->lane];
    assert_true(lane->device && lane->pid == 1 && lane->tid == 7); /* the stream of args, not tid */
    const tdmi_kernel_detail *k = &trace->kernel[e->detail];
    assert_int_equal(k->external_id, 8);
    assert_int_equal(k->graph_id, 3);
    assert_int_equal(k->blocks, 1024);
    assert_int_equal(k->threads, 256);
    assert_int_equal(k->registers, 128);
    assert_int_equal(k->shared_bytes, 49152);
    const tdmi_collective *c = &trace->collective[k->collective];
    assert_string_equal(tdmi_trace_text(trace, c->name), "allreduce");
    assert_string_equal(tdmi_trace_text(trace, c->dtype), "BFloat16");
    assert_string_equal(tdmi_trace_text(trace, c->group_desc), "default_pg");
    assert_string_equal(tdmi_trace_text(trace, c->group_ranks), "[0, 1]");
    assert_int_equal(c->in_count, 100);
    assert_int_equal(c->out_count, 200);
    assert_int_equal(c->seq, 9);
    assert_true(c->comms_id == UINT64_MAX);
    assert_int_equal(c->is_async, 1);
    assert_int_equal(c->src, -1);
    assert_int_equal(trace->wrong[TDMI_WRONG_BAD_NUMBER], 0);
}

static void categories_of_all_ages_are_the_same_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *category, *name;
        tdmi_event_kind kind;
    } known[] = {{"Operator", "aten::add", TDMI_EVENT_CPU_OP},
                 {"Operator", "ProfilerStep#5", TDMI_EVENT_ANNOTATION},
                 {"Operator", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", TDMI_EVENT_ANNOTATION},
                 {"Operator", "Optimizer.step#SGD.step", TDMI_EVENT_ANNOTATION},
                 {"cpu_op", "aten::add", TDMI_EVENT_CPU_OP},
                 {"CPU_OP", "aten::add", TDMI_EVENT_CPU_OP},
                 {"user_annotation", "x", TDMI_EVENT_ANNOTATION},
                 {"python_function", "x", TDMI_EVENT_PYTHON},
                 {"Runtime", "cudaLaunchKernel", TDMI_EVENT_RUNTIME},
                 {"cuda_driver", "cuLaunchKernel", TDMI_EVENT_RUNTIME},
                 {"Kernel", "k", TDMI_EVENT_KERNEL},
                 {"Memcpy", "Memcpy HtoD", TDMI_EVENT_COPY},
                 {"gpu_memset", "Memset", TDMI_EVENT_SET},
                 {"gpu_user_annotation", "nccl:all_reduce", TDMI_EVENT_GPU_ANNOTATION},
                 {"cuda_sync", "Stream Sync", TDMI_EVENT_SYNC},
                 {"mtia_ccp_events", "x", TDMI_EVENT_DEVICE},
                 {"overhead", "Buffer Flush", TDMI_EVENT_OVERHEAD},
                 {"Trace", "PyTorch Profiler (0)", TDMI_EVENT_SPAN},
                 {"something new", "x", TDMI_EVENT_OTHER}};
    enum { COUNT = sizeof known / sizeof *known };
    char text[COUNT * 200] = "";
    for (size_t i = 0; i < COUNT; i++)
        sprintf(text + strlen(text), "%s{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":2,\"ts\":%zu,\"dur\":1}", i > 0 ? "," : "",
                known[i].category, known[i].name, 10 + i);
    read_events(text);
    assert_int_equal(trace->event_count, COUNT);
    assert_false(trace->ns_times);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(trace->event[i].kind, known[i].kind);
        assert_int_equal(trace->event[i].place, i);
        assert_string_equal(tdmi_trace_text(trace, trace->category[trace->event[i].category].text), known[i].category);
    }
    assert_int_equal(trace->iterations_seen, 1);
}

static void copies_memory_python_and_sync_have_their_details(void **state)
{
    (void)state;
    read_events(
        "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD (Pinned -> Device)\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":2,"
        "\"args\":{\"bytes\":2097152,\"memory bandwidth (GB/s)\":19.97287619,\"stream\":7,\"correlation\":4}},"
        "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy DtoH\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":0,"
        "\"args\":{\"bytes\":4,\"memory bandwidth (GB/s)\":\"N/A\",\"stream\":\"0x0\"}},"
        "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":5,\"tid\":5,\"ts\":3,\"args\":{\"Total Reserved\":100,"
        "\"Total Allocated\":50,\"Bytes\":-8,\"Addr\":139926520725504,\"Device Id\":1,\"Device Type\":1}},"
        "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"train.py(3): f\",\"pid\":5,\"tid\":5,\"ts\":3,\"dur\":1,"
        "\"args\":{\"Python id\":4,\"Python parent id\":null}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Event Sync\",\"pid\":0,\"tid\":-1,\"ts\":3,\"dur\":1,\"args\":{\"stream\":-1,"
        "\"wait_on_stream\":7,\"wait_on_cuda_event_record_corr_id\":77,\"wait_on_cuda_event_id\":3}}");
    assert_int_equal(trace->event_count, 5);
    const tdmi_copy_detail *copy = &trace->copy[trace->event[0].detail];
    assert_int_equal(copy->nbytes, 2097152);
    assert_true(copy->bandwidth_gbps == 19.97287619);
    assert_true(isnan(trace->copy[trace->event[1].detail].bandwidth_gbps));
    assert_int_equal(trace->event[1].stream, -1); /* as int("0x0") fails in Python */
    const tdmi_memory_point *m = &trace->memory[trace->event[2].detail];
    assert_int_equal(m->nbytes, -8);
    assert_int_equal(m->allocated, 50);
    assert_int_equal(m->reserved, 100);
    assert_int_equal(m->address, 139926520725504);
    assert_int_equal(m->device_type, 1);
    assert_int_equal(trace->python[trace->event[3].detail].id, 4);
    assert_int_equal(trace->python[trace->event[3].detail].parent, -1);
    const tdmi_sync_detail *s = &trace->sync[trace->event[4].detail];
    assert_int_equal(s->wait_on_stream, 7);
    assert_int_equal(s->record_correlation, 77);
    assert_int_equal(trace->event[4].stream, -1);
}

static void rows_alone_have_details_of_copies_alone(void **state)
{
    (void)state;
    static const char text[] =
        "[{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"m\",\"ts\":1,\"dur\":2,\"args\":{\"memory bandwidth (GB/s)\":2.5}},"
        "{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":1,\"args\":{\"Bytes\":1}},{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"t\",\"ts\":1,\"dur\":2}," KERNEL("k", "1", "2") "]";
    assert_int_equal(tdmi_trace_read_bytes("t.json", text, sizeof text - 1, &(tdmi_trace_options){.rows_only = true}, &trace), TDM_OK);
    assert_int_equal(trace->event_count, 2);
    assert_true(trace->copy[trace->event[0].detail].bandwidth_gbps == 2.5);
    assert_int_equal(trace->event[1].detail, TDMI_NONE);
    assert_int_equal(trace->event[1].correlation, 12);
    assert_int_equal(trace->event[1].place, 3);
}

static void an_operator_knows_its_shapes_and_its_forward(void **state)
{
    (void)state;
    read_events("{\"ph\":\"X\",\"args\":{\"External id\":8,\"Input Dims\":[[8, 4],[]],\"Input type\":[\"float\",\"\"],\"Sequence number\":3,"
                "\"Fwd thread id\":1},\"dur\":1,\"ts\":2,\"tid\":3,\"pid\":4,\"name\":\"aten::mm\",\"cat\":\"cpu_op\"}");
    const tdmi_op_detail *op = &trace->op[trace->event[0].detail];
    assert_int_equal(op->external_id, 8);
    assert_int_equal(op->sequence, 3);
    assert_int_equal(op->forward_thread, 1);
    assert_string_equal(tdmi_trace_text(trace, op->dims), "[[8, 4],[]]");
    assert_string_equal(tdmi_trace_text(trace, op->types), "[\"float\",\"\"]");
    assert_int_equal(op->collective, TDMI_NONE);
}

static void lanes_have_the_names_that_metadata_gives_before_or_behind(void **state)
{
    (void)state;
    read_events("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":4,\"tid\":0,\"ts\":1,\"args\":{\"name\":\"python\"}},"
                "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"pid\":4,\"tid\":\"25738\",\"ts\":1,\"dur\":1},"
                "{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\",\"pid\":0,\"tid\":\"stream 7\",\"ts\":1,\"dur\":1},"
                "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"t\",\"pid\":\"Spans\",\"tid\":\"PyTorch\",\"ts\":1,\"dur\":1},"
                "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":4,\"tid\":25738,\"ts\":1,\"args\":{\"name\":\"thread 25738 (python)\"}},"
                "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":7,\"ts\":1,\"args\":{\"name\":\"stream 7 \"}},"
                "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"tid\":0,\"ts\":1,\"args\":{\"labels\":\"GPU 0\"}}");
    assert_int_equal(trace->lane_count, 3);
    const tdmi_lane *cpu = &trace->lane[0], *gpu = &trace->lane[1], *span = &trace->lane[2];
    assert_true(!cpu->device && cpu->pid == 4 && cpu->tid == 25738);
    assert_string_equal(tdmi_trace_text(trace, cpu->thread_name), "thread 25738 (python)");
    assert_string_equal(tdmi_trace_text(trace, cpu->process_name), "python");
    assert_true(gpu->device && gpu->pid == 0 && gpu->tid == 7);
    assert_string_equal(tdmi_trace_text(trace, gpu->thread_name), "stream 7 ");
    assert_string_equal(tdmi_trace_text(trace, gpu->label), "GPU 0");
    assert_int_equal(span->pid, -1);
    assert_string_equal(tdmi_trace_text(trace, span->pid_text), "Spans");
    assert_int_equal(trace->metadata, 4);
}

static void check_head(void)
{
    assert_int_equal(trace->rank, 1);
    assert_int_equal(trace->world_size, 4);
    assert_string_equal(tdmi_trace_text(trace, trace->backend), "nccl");
    assert_int_equal(trace->base_ns, 1767189312000000000);
    assert_int_equal(trace->device_count, 1);
    assert_string_equal(tdmi_trace_text(trace, trace->device[0].name), "NVIDIA A100");
    assert_int_equal(trace->device[0].multiprocessors, 108);
    assert_int_equal(trace->vendor, TDMI_VENDOR_NVIDIA);
    assert_int_equal(trace->group_count, 2);
    assert_string_equal(tdmi_trace_text(trace, trace->group[0].desc), "default_pg");
    assert_int_equal(trace->group[0].rank_count, 4);
    assert_int_equal(trace->group[1].rank_count, 2);
    assert_int_equal(trace->group[1].rank[1], 3);
    assert_true(trace->with_stack && !trace->record_shapes);
    assert_int_equal(trace->event_count, 1);
}

#define HEAD \
    "\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA A100\", \"numSms\": 108, \"computeMajor\": 8, \"computeMinor\": 0}],\n" \
    "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 1, \"world_size\": 4, \"pg_config\": [{\"pg_name\": \"0\", \"pg_desc\": " \
    "\"default_pg\", \"pg_size\": 4, \"ranks\": [0, 1, 2, 3]}, {\"pg_name\": \"1\", \"ranks\": \"[1, 3]\"}]},\n" \
    "\"baseTimeNanoseconds\": 1767189312000000000, \"with_stack\": 1, \"record_shapes\": 0"

static void the_head_may_stand_before_or_behind_the_events(void **state)
{
    (void)state;
    read_text("{" HEAD ", \"traceEvents\": [" KERNEL("k", "1", "2") "]}");
    check_head();
    read_text("\n {\"traceEvents\": [" KERNEL("k", "1", "2") "], " HEAD "}");
    check_head();
    read_text("\xef\xbb\xbf{\"x\": {\"traceEvents\": 3, \"rank\": 9}, \"y\": [[{}]], \"traceEvents\": [" KERNEL("k", "1", "2") "],\n" HEAD "}\n");
    check_head();
    assert_int_equal(trace->note_count, 0);
}

static void the_last_of_two_values_counts(void **state)
{
    (void)state;
    read_text("{\"distributedInfo\": {\"rank\": 0}, \"traceEvents\": [{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":9,\"ts\":5,\"dur\":2}],"
              "\"distributedInfo\": {\"rank\": 1, \"world_size\": 2}}");
    assert_int_equal(trace->rank, 1);
    assert_int_equal(trace->event[0].start_ns, 5000);
    assert_int_equal(trace->event[0].dur_ns, 2000);
    read_text("{\"traceEvents\": [" KERNEL("old", "1", "2") "], \"traceEvents\": [" KERNEL("new", "3", "2") "]}");
    assert_int_equal(trace->event_count, 1);
    assert_string_equal(name_of(0), "new");
}

static void distributed_info_may_be_a_string(void **state)
{
    (void)state;
    read_text("{\"distributedInfo\": \"{\\\"rank\\\": 3, \\\"world_size\\\": 8, \\\"backend\\\": \\\"gloo\\\"}\", \"traceEvents\": []}");
    assert_int_equal(trace->rank, 3);
    assert_int_equal(trace->world_size, 8);
    assert_string_equal(tdmi_trace_text(trace, trace->backend), "gloo");
}

static void a_bare_array_and_events_that_stand_deeper_are_read(void **state)
{
    (void)state;
    read_text("[" KERNEL("a", "1", "2") "," KERNEL("b", "3", "2") "]");
    assert_int_equal(trace->event_count, 2);
    assert_int_equal(trace->rank, -1);
    read_text("{\"traceEvents\": [[" KERNEL("a", "1", "2") "],[[" KERNEL("b", "3", "2") "]]], \"distributedInfo\": {\"rank\": 2}}");
    assert_int_equal(trace->event_count, 2);
    assert_int_equal(trace->rank, 2);
    read_text("{\"job\": {\"traceEvents\": [" KERNEL("a", "1", "2") "]}, \"distributedInfo\": {\"rank\": 2}}");
    assert_int_equal(trace->event_count, 1);
    assert_int_equal(trace->rank, 2);
}

static void things_that_are_no_events_take_their_places(void **state)
{
    (void)state;
    read_events("1, null, \"x\", {}, " KERNEL("a", "1", "2") ", -3.5e7, true," KERNEL("b", "3", "2"));
    assert_int_equal(trace->event_count, 2);
    assert_int_equal(trace->event[0].place, 4);
    assert_int_equal(trace->event[1].place, 7);
    assert_int_equal(trace->wrong[TDMI_WRONG_NOT_OBJECT], 6);
}

static void names_are_decoded_and_repaired(void **state)
{
    (void)state;
    read_events(KERNEL("a\\u0041\\t\\\"\\\\\\/\\ud83d\\ude00", "1", "2") "," KERNEL("\\ud800x", "1", "2") "," KERNEL("C:\\Users\\dir", "1", "2") ","
                KERNEL("line\nbreak\x01", "1", "2") "," KERNEL("caf\xe9", "1", "2") "," KERNEL("aA", "1", "2") "," KERNEL("\\u0061A", "1", "2"));
    assert_string_equal(name_of(0), "aA\t\"\\/\xf0\x9f\x98\x80");
    assert_string_equal(name_of(1), "\xef\xbf\xbdx");
    assert_string_equal(name_of(2), "C:\\Users\\dir");
    assert_string_equal(name_of(3), "line\nbreak\x01");
    assert_string_equal(name_of(4), "caf\xef\xbf\xbd");
    assert_int_equal(trace->event[5].name, trace->event[6].name); /* one text, escaped or not */
    assert_int_equal(trace->wrong[TDMI_WRONG_BAD_TEXT], 4);
    assert_int_equal(tdmi_trace_find_text(trace, "aA"), trace->event[5].name);
    assert_int_equal(tdmi_trace_find_text(trace, "not there"), TDMI_NONE);
}

static void a_nul_byte_in_a_name_does_not_end_it(void **state)
{
    (void)state;
    static const char text[] = "{\"traceEvents\": [" KERNEL("a\0b", "1", "2") "]}";
    read_bytes(text, sizeof text - 1);
    assert_string_equal(name_of(0), "a\xef\xbf\xbd" "b");
}

static void bad_numbers_cost_one_field(void **state)
{
    (void)state;
    read_events("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":\"12.5\",\"dur\":1,\"args\":{\"stream\":NaN,"
                "\"correlation\":99999999999999999999,\"External id\":Infinity,\"grid\":[1,-inf,nan],\"device\":0}},"
                "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":-5},"
                "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1},{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":null},"
                "{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1},{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"dur\":1},"
                "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":9223372036854775808,\"dur\":1},"
                "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":NaN,\"dur\":1},"
                "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":null}");
    assert_int_equal(trace->event_count, 3);
    assert_int_equal(trace->event[0].start_ns, 12500);
    assert_int_equal(trace->event[0].correlation, TDMI_NO_CORRELATION);
    assert_int_equal(trace->event[1].dur_ns, 0);
    assert_true((trace->event[1].flags & TDMI_EVENT_NEGATIVE) != 0);
    assert_int_equal(trace->wrong[TDMI_WRONG_NEGATIVE_DUR], 1);
    assert_int_equal(trace->wrong[TDMI_WRONG_NO_DUR], 2);
    assert_int_equal(trace->wrong[TDMI_WRONG_NO_CATEGORY], 1);
    assert_int_equal(trace->wrong[TDMI_WRONG_NO_TIME], 2);
    assert_int_equal(trace->wrong[TDMI_WRONG_TIME_RANGE], 1);
    assert_true(noted("1 events with a negative duration, taken as 0"));
}

static void events_at_time_zero_are_suspect_where_the_trace_begins_later(void **state)
{
    (void)state;
    read_events(KERNEL("a", "0", "0") "," KERNEL("b", "0", "3") "," KERNEL("c", "4200000000000", "3"));
    assert_int_equal(trace->wrong[TDMI_WRONG_AT_ZERO], 2);
    assert_true((trace->event[1].flags & TDMI_EVENT_SUSPECT) != 0);
    assert_false((trace->event[2].flags & TDMI_EVENT_SUSPECT) != 0);
    read_events(KERNEL("a", "0", "3") "," KERNEL("b", "2", "3"));
    assert_int_equal(trace->wrong[TDMI_WRONG_AT_ZERO], 0);
}

static void an_unescaped_quote_costs_its_event(void **state)
{
    (void)state;
    read_events(KERNEL("a", "1", "2") ",\n" KERNEL("{\"device\": \"cpu\"}(12): run", "2", "2") ",\n" KERNEL("b", "3", "2") "," KERNEL("odd \" quote", "4", "2") ","
                KERNEL("c", "5", "2"));
    assert_int_equal(trace->event_count, 3);
    assert_string_equal(name_of(0), "a");
    assert_string_equal(name_of(1), "b");
    assert_string_equal(name_of(2), "c");
    assert_int_equal(trace->wrong[TDMI_WRONG_DAMAGED], 2);
    assert_true(noted("2 places where the text is no JSON"));
    assert_false(trace->truncated);
}

static void a_broken_head_does_not_hide_the_events(void **state)
{
    (void)state;
    read_text("{\"INFO\": [\"it said \"no\"\"], \"distributedInfo\": {\"rank\": 3}, \"ERROR\": [\"a\" b\"], \"traceEvents\": [" KERNEL("a", "1", "2") "]}");
    assert_int_equal(trace->event_count, 1);
    assert_int_equal(trace->rank, 3);
    read_text("{ {\n \"traceEvents\": [" KERNEL("a", "1", "2") "," KERNEL("b", "1", "2") "] }");
    assert_int_equal(trace->event_count, 2);
    assert_int_equal(trace->wrong[TDMI_WRONG_DAMAGED], 1);
}

static void brackets_that_are_missing_or_too_many(void **state)
{
    (void)state;
    read_text("{\"traceEvents\": [" KERNEL("a", "1", "2") ",\n");
    assert_int_equal(trace->event_count, 1);
    assert_false(trace->truncated);
    assert_true(noted("closing brackets are missing"));
    read_text("{\"traceEvents\": [" KERNEL("a", "1", "2") ",]} trailing");
    assert_int_equal(trace->event_count, 1);
    assert_true(noted("behind its end"));
    read_text("{\"traceEvents\": [" KERNEL("a", "1", "2") "\n" KERNEL("b", "1", "2") "]}");
    assert_int_equal(trace->event_count, 2);
    read_text("{\"traceEvents\": [{\"ph\":\"X\",\"args\":{\"a\":1},\"cat\":\"cpu_op\",\"name\":\"x\",\"ts\":1,\"dur\":1}}, " KERNEL("b", "1", "2") "]}");
    assert_int_equal(trace->event_count, 2);
}

static void commas_and_quotes_that_are_missing_cost_their_events(void **state)
{
    (void)state;
    read_events(KERNEL("a", "1", "2") ",{\"ph\": \"X\" \"cat\": \"kernel\", \"name\": \"x\", \"ts\": 1, \"dur\": 2}," KERNEL("b", "1", "2") ","
                "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"no end, \"ts\": 1, \"dur\": 2}," KERNEL("c", "1", "2") ","
                "{\"ph\": \"X\", \"cat\": \"kernel, \"name\": \"x\", \"ts\" 1, \"dur\": 2}," KERNEL("d", "1", "2"));
    assert_int_equal(trace->event_count, 4);
    assert_string_equal(name_of(3), "d");
    assert_int_equal(trace->wrong[TDMI_WRONG_DAMAGED], 3);
    assert_true(noted("the first is at byte"));
}

/* Report 70: the same events in every shape that a file may have. */
static void every_shape_of_a_file_gives_the_same_events(void **state)
{
    (void)state;
#define TWO(ts) KERNEL("a", ts, "2") ",\n" KERNEL("b", "1200000000000001", "\"2.5\"")
    static const char *const shapes[] = {
        "{\"distributedInfo\": {\"rank\": 0}, \"unknown\": [{\"deep\": [1]}], \"traceEvents\": [" TWO("1200000000000000") "]}",
        "{\"traceEvents\": [" TWO("1.2e15") "], \"distributedInfo\": {\"rank\": 0}}",
        "\xef\xbb\xbf[" TWO("\"1200000000000000\"") "]",
        "[" TWO("\"1.2e15\"") "]",
        "  {\"traceEvents\"\n:\n[ " TWO("1200000000000000.000") " ]\r\n}",
        "{\"wrapper\": {\"traceEvents\": [" TWO("12E14") "]}}",
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        read_text(shapes[i]);
        assert_int_equal(trace->event_count, 2);
        assert_int_equal(trace->event[0].start_ns, 1200000000000000000);
        assert_int_equal(trace->event[1].start_ns, 1200000000000001000);
        assert_int_equal(trace->event[1].dur_ns, 2500);
        assert_int_equal(trace->event[1].place, 1);
        assert_int_equal(trace->note_count, 0);
    }
}

static void nesting_of_100000_is_stepped_over(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    char *text = malloc(2 * DEPTH + 1000), *at = text + sprintf(text, "{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"x\",\"args\":{\"a\":");
    memset(at, '[', DEPTH);
    memset(at + DEPTH, ']', DEPTH);
    sprintf(at + 2 * DEPTH, "},\"ts\":1,\"dur\":1}," KERNEL("b", "1", "2") "]}");
    read_text(text);
    free(text);
    assert_int_equal(trace->event_count, 2);
    assert_int_equal(trace->note_count, 0);
}

/* Cut anywhere: what was whole before the cut is there, and the cut is told. */
static void a_text_cut_anywhere_gives_the_events_before_the_cut(void **state)
{
    (void)state;
    static const char text[] = "{\"distributedInfo\": {\"rank\": 1}, \"traceEvents\": [" KERNEL("a\\u00e9", "1.5", "2") ", " KERNEL("b", "3", "2")
                               ", " KERNEL("c", "5", "2") "], \"traceName\": \"t\"}";
    const char *events = strstr(text, "[{") + 1;
    for (size_t cut = 0; cut < sizeof text - 1; cut++) {
        size_t whole = 0;
        for (const char *at = events; (at = strstr(at, "}}")) != NULL && (size_t)(at + 2 - text) <= cut; at += 2)
            whole++;
        drop(NULL);
        const tdm_status status = tdmi_trace_read_bytes("t.json", text, cut, NULL, &trace);
        if (cut < (size_t)(events - text)) {
            assert_int_equal(status, TDM_ERR_BAD_FILE);
            continue;
        }
        assert_int_equal(status, TDM_OK);
        assert_int_equal(trace->event_count, whole);
        assert_true(trace->note_count > 0);
    }
}

static void what_is_no_trace_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } wrong[] = {{"", "is empty"}, {"hello", "is not JSON"}, {"{\"a\": 1}", "no traceEvents"}, {"[1, 2, 3]", "no trace"}, {"{\"traceEvents\": 3}", "no traceEvents"},
                 {"{\"deviceProperties\": [{\"id\": 0, \"na", "before its traceEvents"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(tdmi_trace_read_bytes("t.json", wrong[i].text, strlen(wrong[i].text), NULL, &trace), TDM_ERR_BAD_FILE);
        if (strstr(tdm_error_text(), wrong[i].words) == NULL)
            fail_msg("'%s' instead of '%s'", tdm_error_text(), wrong[i].words);
    }
    read_text("{\"traceEvents\": [], \"distributedInfo\": {\"rank\": 1, \"world_size\": 2}}");
    assert_int_equal(trace->event_count, 0);
    assert_int_equal(trace->rank, 1);
}

/* prefix, then `count` times `repeated`, then suffix. */
static void read_long(const char *prefix, const char *repeated, size_t count, const char *suffix)
{
    const size_t n = strlen(repeated);
    char *text = malloc(strlen(prefix) + n * count + strlen(suffix) + 1), *at = text + sprintf(text, "%s", prefix);
    for (size_t i = 0; i < count; i++, at += n)
        memcpy(at, repeated, n);
    strcpy(at, suffix);
    read_text(text);
    free(text);
}

static void endless_things_are_skipped(void **state)
{
    (void)state;
    read_long("{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"cpu_op\",\"ts\":1,\"dur\":1,\"args\":{\"a\":", "[", 20000, "");
    assert_int_equal(trace->event_count, 0);
    assert_true(trace->truncated);
    read_long("{\"traceEvents\": [" KERNEL("a", "1", "2") ", {\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"", "0123456789abcdef", 1 << 16,
              "\",\"ts\":1,\"dur\":1}," KERNEL("b", "1", "2") "]}");
    assert_int_equal(trace->event_count, 3);
    assert_int_equal(trace->text[trace->event[1].name].nbytes, 1 << 20);
    read_long("{\"traceEvents\": [" KERNEL("a", "1", "2") ", {\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"", "0123456789abcdef", 1 << 19,
              "\",\"ts\":1,\"dur\":1}," KERNEL("b", "1", "2") "]}");
    assert_int_equal(trace->event_count, 2);
    assert_int_equal(trace->wrong[TDMI_WRONG_TOO_LARGE], 1);
    read_long("{\"traceEvents\": [" KERNEL("a", "1", "2") "], \"ERROR\": [\"", "0123456789abcdef", 1 << 19, "\"], \"distributedInfo\": {\"rank\": 5}}");
    assert_int_equal(trace->event_count, 1);
    assert_int_equal(trace->rank, 5);
    assert_false(trace->truncated);
    read_long("{\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 7, \"pg_config\": [", "{\"pg_name\": \"0\", \"ranks\": [0, 1]},", 1 << 19,
              "], \"world_size\": 9}, \"schemaVersion\": 1, \"traceEvents\": [" KERNEL("a", "1", "2") "], \"rank\": 3}");
    assert_int_equal(trace->event_count, 1);
    assert_int_equal(trace->rank, 7);
    assert_int_equal(trace->world_size, 9);
    assert_int_equal(trace->schema, 1);
    assert_int_equal(trace->wrong[TDMI_WRONG_TOO_LARGE], 1);
    read_long("", "[", 1 << 20, KERNEL("a", "1", "2"));
    assert_int_equal(trace->event_count, 1);
    read_long("{\"traceEvents\": [" KERNEL("a", "1", "2") ",", "        \n", 1 << 20, KERNEL("b", "1", "2") "]}");
    assert_int_equal(trace->event_count, 2);
    assert_int_equal(trace->note_count, 0);
    read_long("{\"traceEvents\": [" KERNEL("a", "1", "2") "], \"x\": [", "1, 23, ", 1 << 20, "4], \"distributedInfo\": {\"rank\": 5}}");
    assert_int_equal(trace->rank, 5);
}

/* Each of these would take minutes if what is damaged were looked through again and again, or more memory than there is. */
static void files_made_to_be_slow_or_large_are_neither(void **state)
{
    (void)state;
    read_long("{\"traceEvents\": [", ",{\"ph\":[", 1 << 20, "");
    read_long("{\"traceEvents\": [", ",{\"ph\":{\"a\":", 1 << 20, "}");
    read_long("{\"traceEvents\": [", ",{\"ph\":\"X\" \"", 1 << 19, "");
    read_long("{\"traceEvents\": [", ",{\"ph\":x", 1 << 19, "");
    assert_in_range(trace->wrong[TDMI_WRONG_DAMAGED], (1 << 19) - 2, 1 << 19);
    read_long("{\"traceEvents\": [", "\"", 1 << 21, "");
    read_long("{", "\"traceEvents\":[],", 1 << 16, "");
    assert_in_range(trace->note_count, 1, 3);
    char *text = malloc((size_t)100 << 17), *at = text + sprintf(text, "[");
    for (int i = 0; i < 1 << 17; i++)
        at += sprintf(at, "{\"ph\":\"X\",\"cat\":\"c%d\",\"name\":\"n\",\"pid\":%d,\"tid\":%d,\"ts\":%d,\"dur\":1},", i, i, i, i);
    read_text(text);
    free(text);
    assert_int_equal(trace->event_count, 1 << 17);
    assert_int_equal(trace->lane_count, 1 << 16);
    assert_int_equal(trace->category_count, 256);
    assert_int_equal(trace->event[trace->event_count - 1].lane, TDMI_NONE);
}

/* Names may take a quarter of the memory allowed; the rest of them is one name. */
static void names_do_not_take_all_memory(void **state)
{
    (void)state;
    enum { NAMES = 20000, LENGTH = 200 };
    char *text = malloc((size_t)NAMES * (LENGTH + 100)), *at = text + sprintf(text, "[");
    for (int i = 0; i < NAMES; i++)
        at += sprintf(at, "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"%0*d\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":1},", LENGTH, i, i);
    drop(NULL);
    assert_int_equal(tdmi_trace_read_bytes("t.json", text, (size_t)(at - text), &(tdmi_trace_options){.memory_bytes = 8 << 20}, &trace), TDM_OK);
    free(text);
    assert_int_equal(trace->event_count, NAMES);
    assert_in_range(trace->text_count, NAMES / 10, NAMES / 2);
    assert_string_equal(name_of(NAMES - 1), "(more names)");
    assert_true(trace->wrong[TDMI_WRONG_TOO_MANY_TEXTS] > 0);
}

/* Over many windows and parts of the index, whatever lies across their ends: every event is exactly what was written. */
static void a_long_text_is_read_event_by_event(void **state)
{
    (void)state;
    enum { EVENTS = 30000 };
    char *text = malloc((size_t)EVENTS * 500), *at = text + sprintf(text, "{\"traceEvents\": [");
    srand(11);
    for (int i = 0; i < EVENTS; i++) {
        const int pad = rand() % 120, spaces = rand() % 40;
        at += sprintf(at, "%s%*s{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k%d \\\"%0*d\\\\\", \"pid\": 0, \"tid\": %d,\n\"ts\": %d.%03d, \"dur\": %d%s,"
                          " \"args\": {\"stream\": %d, \"x\": \"%0*d\", \"correlation\": %d}}",
                      i > 0 ? "," : "", spaces, "", i % 1000, pad, i % 7, i % 5, 1000000 + i, i % 1000, i % 100, i % 3 == 0 ? ".5" : "", i % 5, pad, 0, i * 3);
    }
    strcpy(at, "]}");
    read_text(text);
    free(text);
    assert_int_equal(trace->event_count, EVENTS);
    assert_int_equal(trace->note_count, 0);
    srand(11);
    for (int i = 0; i < EVENTS; i++) {
        const tdmi_event *e = &trace->event[i];
        const int pad = rand() % 120;
        char name[200];
        (void)rand();
        sprintf(name, "k%d \"%0*d\\", i % 1000, pad, i % 7);
        assert_string_equal(name_of((size_t)i), name);
        assert_int_equal(e->start_ns, (int64_t)(1000000 + i) * 1000 + i % 1000);
        assert_int_equal(e->dur_ns, i % 100 * 1000 + (i % 3 == 0 ? 500 : 0));
        assert_int_equal(e->correlation, i * 3);
        assert_int_equal(trace->lane[e->lane].tid, i % 5);
        assert_int_equal(e->place, i);
    }
}

static void begin_end_flows_and_counters_are_counted(void **state)
{
    (void)state;
    read_events("{\"ph\":\"B\",\"ts\":1},{\"ph\":\"E\",\"ts\":1},{\"ph\":\"s\",\"id\":1,\"ts\":1},{\"ph\":\"f\",\"id\":1,\"ts\":1},{\"ph\":\"C\",\"ts\":1},"
                "{\"ph\":\"i\",\"name\":\"Record Window End\",\"ts\":1,\"pid\":\"\",\"tid\":\"\"}");
    assert_int_equal(trace->wrong[TDMI_WRONG_BEGIN_END], 2);
    assert_int_equal(trace->flows, 2);
    assert_int_equal(trace->counters, 1);
    assert_int_equal(trace->event_count, 1);
    assert_int_equal(trace->event[0].kind, TDMI_EVENT_INSTANT);
    assert_int_equal(trace->seen, 6);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, drop)
    const struct CMUnitTest tests[] = {
        TEST(a_kernel_has_all_that_its_args_say),
        TEST(categories_of_all_ages_are_the_same_kinds),
        TEST(copies_memory_python_and_sync_have_their_details),
        TEST(rows_alone_have_details_of_copies_alone),
        TEST(an_operator_knows_its_shapes_and_its_forward),
        TEST(lanes_have_the_names_that_metadata_gives_before_or_behind),
        TEST(the_head_may_stand_before_or_behind_the_events),
        TEST(the_last_of_two_values_counts),
        TEST(distributed_info_may_be_a_string),
        TEST(a_bare_array_and_events_that_stand_deeper_are_read),
        TEST(things_that_are_no_events_take_their_places),
        TEST(names_are_decoded_and_repaired),
        TEST(a_nul_byte_in_a_name_does_not_end_it),
        TEST(bad_numbers_cost_one_field),
        TEST(events_at_time_zero_are_suspect_where_the_trace_begins_later),
        TEST(an_unescaped_quote_costs_its_event),
        TEST(a_broken_head_does_not_hide_the_events),
        TEST(brackets_that_are_missing_or_too_many),
        TEST(commas_and_quotes_that_are_missing_cost_their_events),
        TEST(every_shape_of_a_file_gives_the_same_events),
        TEST(nesting_of_100000_is_stepped_over),
        TEST(a_text_cut_anywhere_gives_the_events_before_the_cut),
        TEST(what_is_no_trace_is_refused_with_a_reason),
        TEST(endless_things_are_skipped),
        TEST(a_long_text_is_read_event_by_event),
        TEST(files_made_to_be_slow_or_large_are_neither),
        TEST(names_do_not_take_all_memory),
        TEST(begin_end_flows_and_counters_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
