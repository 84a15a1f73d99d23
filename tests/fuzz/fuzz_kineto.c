/* fuzz_kineto.c - any bytes, plain or gzip, as a profiler trace: refused, or read into tables whose every reference is sound. */
#include "kineto/trace.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static bool is_text(const tdmi_trace *t, uint32_t text)
{
    return text == TDMI_NONE || text < t->text_count;
}

static void check_texts(const tdmi_trace *t)
{
    for (size_t i = 0; i < t->text_count; i++) {
        const tdmi_text *text = &t->text[i];
        check(strlen(text->text) == text->nbytes);
        for (uint32_t k = 0; k < text->nbytes; k++) /* a lead byte has what follows it */
            check((text->text[k] & 0xc0) != 0xc0 || (text->text[k + 1] & 0xc0) == 0x80);
    }
}

static void check_event(const tdmi_trace *t, const tdmi_event *e)
{
    const size_t details[TDMI_EVENT_KINDS] = {
        [TDMI_EVENT_CPU_OP] = t->op_count,     [TDMI_EVENT_ANNOTATION] = t->op_count, [TDMI_EVENT_KERNEL] = t->kernel_count,
        [TDMI_EVENT_DEVICE] = t->kernel_count, [TDMI_EVENT_COPY] = t->copy_count,     [TDMI_EVENT_SET] = t->copy_count,
        [TDMI_EVENT_MEMORY] = t->memory_count, [TDMI_EVENT_PYTHON] = t->python_count, [TDMI_EVENT_SYNC] = t->sync_count};
    check(e->kind < TDMI_EVENT_KINDS && e->dur_ns >= 0 && e->place < t->seen && is_text(t, e->name));
    check(e->start_ns <= 0 || e->dur_ns <= INT64_MAX - e->start_ns);
    check(e->lane == TDMI_NONE || (e->lane < t->lane_count && t->lane[e->lane].events > 0));
    check(e->category == UINT16_MAX || (e->category < t->category_count && is_text(t, t->category[e->category].text)));
    check(e->detail == TDMI_NONE || e->detail < details[e->kind]);
}

static void check_details(const tdmi_trace *t)
{
    for (size_t i = 0; i < t->op_count; i++)
        check(is_text(t, t->op[i].dims) && is_text(t, t->op[i].types) && is_text(t, t->op[i].call_stack) &&
              (t->op[i].collective == TDMI_NONE || t->op[i].collective < t->collective_count));
    for (size_t i = 0; i < t->kernel_count; i++)
        check(t->kernel[i].collective == TDMI_NONE || t->kernel[i].collective < t->collective_count);
    for (size_t i = 0; i < t->collective_count; i++)
        check(is_text(t, t->collective[i].name) && is_text(t, t->collective[i].group_ranks) && is_text(t, t->collective[i].dtype));
    for (size_t i = 0; i < t->lane_count; i++)
        check(is_text(t, t->lane[i].pid_text) && is_text(t, t->lane[i].thread_name) && is_text(t, t->lane[i].process_name) && is_text(t, t->lane[i].label));
    for (size_t i = 0; i < t->group_count; i++)
        check(is_text(t, t->group[i].name) && (t->group[i].rank_count == 0) == (t->group[i].rank == NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tdmi_trace *t;
    const size_t memory = size > 0 && data[size - 1] % 2 == 0 ? (size_t)4 << 10 : (size_t)8 << 20; /* little: iterations are left out */
    if (tdmi_trace_read_bytes("fuzz", data, size, &(tdmi_trace_options){.memory_bytes = memory}, &t) != TDM_OK)
        return 0;
    size_t kinds = 0;
    for (int i = 0; i < TDMI_EVENT_KINDS; i++)
        kinds += t->kind_count[i];
    check(kinds == t->event_count && t->iterations_kept <= t->iterations_seen && t->rank >= -1);
    check_texts(t);
    for (size_t i = 0; i < t->event_count; i++)
        check_event(t, &t->event[i]);
    check_details(t);
    tdmi_trace_free(t);
    return 0;
}
