/* trace.c - the ring: allocated at creation, overwritten from its oldest event when full. */
#include "trace/trace.h"

#include "core/memory.h"

#include <assert.h>

struct tdmi_trace {
    int rank;
    size_t capacity;
    uint64_t added; /* events ever; the next goes to added % capacity */
    tdmi_trace_event ring[];
};

tdm_status tdmi_trace_create(int rank, size_t capacity, tdmi_trace **out)
{
    if (capacity == 0 || capacity > SIZE_MAX / 2 / sizeof(tdmi_trace_event))
        return tdmi_fail(TDM_ERR_INVALID, "a trace cannot keep %zu events", capacity);
    tdmi_trace *trace = tdmi_calloc(1, sizeof *trace + capacity * sizeof trace->ring[0], "trace");
    if (trace == NULL)
        return TDM_ERR_NO_MEMORY;
    trace->rank = rank;
    trace->capacity = capacity;
    *out = trace;
    return TDM_OK;
}

void tdmi_trace_destroy(tdmi_trace *trace)
{
    tdmi_free(trace);
}

void tdmi_trace_add(tdmi_trace *trace, const char *name, tdmi_track track, int64_t begin_ns, int64_t end_ns, int64_t step,
                    int64_t nbytes)
{
    assert(end_ns >= begin_ns && track < TDMI_TRACK_COUNT);
    trace->ring[trace->added++ % trace->capacity] =
        (tdmi_trace_event){.name = name, .begin_ns = begin_ns, .end_ns = end_ns, .step = step, .nbytes = nbytes, .track = track};
}

static uint64_t lost(const tdmi_trace *trace)
{
    return trace->added > trace->capacity ? trace->added - trace->capacity : 0;
}

size_t tdmi_trace_count(const tdmi_trace *trace, uint64_t *dropped)
{
    if (dropped != NULL)
        *dropped = lost(trace);
    return (size_t)(trace->added - lost(trace));
}

tdmi_trace_event tdmi_trace_get(const tdmi_trace *trace, size_t index)
{
    assert(index < tdmi_trace_count(trace, NULL));
    return trace->ring[(lost(trace) + index) % trace->capacity];
}

int tdmi_trace_rank(const tdmi_trace *trace)
{
    return trace->rank;
}
