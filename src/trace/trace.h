/* trace.h - what ran when: a ring of events, written without a lock or an allocation, exported for Perfetto.
 * A trace belongs to one rank. Clocks of different hosts are not aligned. */
#ifndef TDMI_TRACE_TRACE_H
#define TDMI_TRACE_TRACE_H

#include "core/error.h"

typedef struct tdmi_trace tdmi_trace;

/* Rows of the picture. */
typedef enum { TDMI_TRACK_COMPUTE, TDMI_TRACK_COMMUNICATION, TDMI_TRACK_DATA, TDMI_TRACK_STEP, TDMI_TRACK_COUNT } tdmi_track;

/* capacity: events kept, the oldest go first. */
tdm_status tdmi_trace_create(int rank, size_t capacity, tdmi_trace **out);
void tdmi_trace_destroy(tdmi_trace *trace);
/* name is borrowed until the trace is destroyed; nbytes: payload, or -1. One thread adds. */
void tdmi_trace_add(tdmi_trace *trace, const char *name, tdmi_track track, int64_t begin_ns, int64_t end_ns, int64_t step,
                    int64_t nbytes);
/* Chrome trace JSON (traceEvents; pid = rank, tid = track; ts in us with three decimals). */
tdm_status tdmi_trace_write_chrome(const tdmi_trace *trace, const char *path);
/* One file out of those of several ranks, written before by the function above. */
tdm_status tdmi_trace_merge_chrome(const char *const *paths, int count, const char *out_path);

#endif
