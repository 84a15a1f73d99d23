/* finish.c - when all of a file was read: names of lanes, what is suspect, and what to say of it. */
#include "kineto/reader.h"

#include "core/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tdmi_note_add(char ***note, size_t *count, const char *format, va_list arguments)
{
    enum { NOTES_MAX = 1000 };
    char text[1024];
    if (*count == NOTES_MAX) /* a folder of strangers; nobody reads more */
        return;
    vsnprintf(text, sizeof text, format, arguments);
    char **grown = tdmi_realloc(*note, (*count + 1) * sizeof *grown, "trace notes");
    if (grown == NULL)
        return;
    *note = grown;
    grown[*count] = tdmi_strdup(text, "trace notes");
    *count += grown[*count] != NULL;
}

void tdmi_notes_free(char **note, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tdmi_free(note[i]);
    tdmi_free(note);
}

void tdmi_reader_note(tdmi_trace *trace, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tdmi_note_add(&trace->note, &trace->note_count, format, arguments);
    va_end(arguments);
}

/* Threads and streams get the names that metadata gave them. */
static void name_lanes(tdmi_reader *r)
{
    for (size_t i = 0; i < r->lanes.count; i++) {
        tdmi_lane *lane = &r->lanes.lane[i];
        const tdmi_lane_id pid = {lane->pid, lane->pid_text}, tid = {lane->tid, lane->tid_text}, whole = {INT64_MIN, TDMI_NONE};
        const uint32_t own = tdmi_lanes_find(&r->named, false, pid, tid), process = tdmi_lanes_find(&r->named, false, pid, whole);
        if (own != TDMI_NONE)
            lane->thread_name = r->named.lane[own].thread_name;
        if (process != TDMI_NONE) {
            lane->process_name = r->named.lane[process].process_name;
            lane->label = r->named.lane[process].label;
        }
    }
}

/* Where the writer lost an event's time, it wrote 0: a long time before everything else. */
static void find_suspects(tdmi_reader *r)
{
    enum { LONG_NS = 1000000000 };
    tdmi_trace *t = r->trace;
    int64_t first_ns = INT64_MAX;
    if (r->zero_starts == 0)
        return;
    for (size_t i = 0; i < t->event_count; i++)
        if (t->event[i].start_ns > 0 && t->event[i].start_ns < first_ns)
            first_ns = t->event[i].start_ns;
    if (first_ns == INT64_MAX)
        return;
    for (size_t i = 0; i < t->event_count; i++)
        if (t->event[i].start_ns == 0 && (first_ns > LONG_NS || (t->event[i].dur_ns == 0 && TDMI_EVENT_IS_ROW(t->event[i].kind)))) {
            t->event[i].flags |= TDMI_EVENT_SUSPECT;
            t->wrong[TDMI_WRONG_AT_ZERO]++;
        }
}

static void find_vendor(tdmi_trace *t)
{
    if (t->vendor != TDMI_VENDOR_UNKNOWN)
        return;
    if (t->cupti_version != 0 || t->cuda_runtime_version != 0 || t->cuda_driver_version != 0)
        t->vendor = TDMI_VENDOR_NVIDIA;
    for (size_t i = 0; i < t->device_count && t->vendor == TDMI_VENDOR_UNKNOWN; i++) {
        const char *name = tdmi_trace_text(t, t->device[i].name);
        if (strstr(name, "AMD") != NULL || strstr(name, "Instinct") != NULL)
            t->vendor = TDMI_VENDOR_AMD;
        else if (strstr(name, "NVIDIA") != NULL || strstr(name, "Tesla") != NULL || strstr(name, "Quadro") != NULL)
            t->vendor = TDMI_VENDOR_NVIDIA;
        else if (t->kind_count[TDMI_EVENT_DEVICE] == 0)
            t->vendor = TDMI_VENDOR_OTHER;
    }
    for (size_t i = 0; i < t->category_count && t->vendor == TDMI_VENDOR_UNKNOWN; i++) {
        const char *category = tdmi_trace_text(t, t->category[i].text);
        if (strncmp(category, "mtia", 4) == 0)
            t->vendor = TDMI_VENDOR_MTIA;
        else if (strncmp(category, "cuda", 4) == 0)
            t->vendor = TDMI_VENDOR_NVIDIA;
    }
}

static void note_source(tdmi_trace *t, const tdmi_source_facts *f)
{
    const unsigned long long at = (unsigned long long)f->file_at;
    switch (f->end) {
    case TDMI_SOURCE_CUT:
        tdmi_reader_note(t, "its gzip stream ends too early, after %llu bytes: it was cut", at);
        break;
    case TDMI_SOURCE_DAMAGED:
        tdmi_reader_note(t, "its gzip stream is damaged near byte %llu: what is before was used", at);
        break;
    case TDMI_SOURCE_UNREADABLE:
        tdmi_reader_note(t, "the system cannot read it on behind byte %llu: %s", at, strerror(f->error_number));
        break;
    case TDMI_SOURCE_WHOLE:
        break;
    }
    t->truncated |= f->end != TDMI_SOURCE_WHOLE;
    if (f->wrong_checksum)
        tdmi_reader_note(t, "its gzip checksum is wrong: bytes may differ from what was written");
    if (f->garbage)
        tdmi_reader_note(t, "behind its gzip stream there is something else, which is left out");
    t->file_bytes = f->file_at;
}

static void note_counts(tdmi_reader *r)
{
    tdmi_trace *t = r->trace;
    for (int i = 0; i < TDMI_WRONG_KINDS; i++) {
        if (t->wrong[i] == 0 || i == TDMI_WRONG_OUTSIDE)
            continue;
        if (i == TDMI_WRONG_DAMAGED)
            tdmi_reader_note(t, "%llu %s; the first is at byte %llu of its text", (unsigned long long)t->wrong[i], tdmi_wrong_text(i),
                             (unsigned long long)r->first_damage);
        else
            tdmi_reader_note(t, "%llu %s", (unsigned long long)t->wrong[i], tdmi_wrong_text(i));
    }
}

/* An array without its unused end. */
static void shrink(void **array, size_t count, size_t size)
{
    void *smaller = count > 0 ? tdmi_realloc(*array, count * size, "trace") : NULL;
    if (smaller != NULL)
        *array = smaller;
}

void tdmi_reader_finish(tdmi_reader *r)
{
    tdmi_trace *t = r->trace;
    const tdmi_source_facts facts = tdmi_source_found(r->scanner.source);
    name_lanes(r);
    find_suspects(r);
    t->wrong[TDMI_WRONG_BAD_TEXT] = r->texts->repaired;
    t->wrong[TDMI_WRONG_TOO_MANY_TEXTS] = r->texts->refused;
    t->text_bytes = r->scanner.text_at + r->scanner.text_count;
    shrink((void **)&t->event, t->event_count, sizeof *t->event);
    shrink((void **)&t->op, t->op_count, sizeof *t->op);
    shrink((void **)&t->kernel, t->kernel_count, sizeof *t->kernel);
    t->lane = r->lanes.lane;
    t->lane_count = r->lanes.count;
    r->lanes.lane = NULL;
    t->text = r->texts->text;
    t->text_count = r->texts->count;
    find_vendor(t);
    note_source(t, &facts);
    note_counts(r);
}
