/* trace.h - what ran when: a ring of events, written without a lock or an allocation, exported for Perfetto.
 * A trace belongs to one rank. Times are core/clock.h's, one clock for all ranks of a machine; clocks of different machines
 * are not aligned, so compare only ranks of one machine. */
#ifndef TDMI_TRACE_TRACE_H
#define TDMI_TRACE_TRACE_H

#include "core/error.h"

typedef struct tdmi_trace tdmi_trace;

/* Rows of the picture. */
typedef enum { TDMI_TRACK_COMPUTE, TDMI_TRACK_COMMUNICATION, TDMI_TRACK_DATA, TDMI_TRACK_STEP, TDMI_TRACK_COUNT } tdmi_track;

/* capacity: events kept, the oldest go first. */
tdm_status tdmi_trace_create(int rank, size_t capacity, tdmi_trace **out);
void tdmi_trace_destroy(tdmi_trace *trace);
/* name is borrowed until the trace is destroyed; nbytes: payload, or -1; end_ns >= begin_ns. One thread adds. */
void tdmi_trace_add(tdmi_trace *trace, const char *name, tdmi_track track, int64_t begin_ns, int64_t end_ns, int64_t step,
                    int64_t nbytes);

typedef struct tdmi_trace_event {
    const char *name;
    int64_t begin_ns, end_ns, step, nbytes;
    tdmi_track track;
} tdmi_trace_event;
/* Events in the ring, and the one with this index, 0 the oldest; *dropped (may be NULL): how many older ones were lost. */
size_t tdmi_trace_count(const tdmi_trace *trace, uint64_t *dropped);
tdmi_trace_event tdmi_trace_get(const tdmi_trace *trace, size_t index);
int tdmi_trace_rank(const tdmi_trace *trace);

/* chrome.c - the format of chrome://tracing and ui.perfetto.dev (traceEvents; pid = rank, tid = track; ts in us with three
 * decimals). Always valid JSON, whatever the names hold; the file appears whole or not at all. Called by the thread that
 * adds. */
tdm_status tdmi_trace_write_chrome(const tdmi_trace *trace, const char *path);
/* One file out of those of several ranks, written before by the function above. A part that is missing or cut is
 * TDM_ERR_BAD_FILE with its name, and nothing is written. The parts stay. */
tdm_status tdmi_trace_merge_chrome(const char *const *paths, int count, const char *out_path);

#endif
