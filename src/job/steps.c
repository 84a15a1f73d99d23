/* steps.c - the iterations of a rank: its ProfilerStep#N spans on the thread that has most of them, in order of time. Without any, or
 * with spans that are none (no length), the whole trace is one iteration. */
#include "job/job.h"

#include "core/memory.h"

#include <stdlib.h>

static int by_start(const void *a, const void *b)
{
    const tdmi_iteration *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* From the first event to the last end. */
static void take_all(tdmi_rank *rank)
{
    tdmi_iteration all = {0, INT64_MAX, INT64_MIN, TDMI_NONE};
    for (uint32_t i = 0; i < rank->trace->event_count; i++) {
        if (rank->role[i] == TDMI_ROLE_NONE)
            continue;
        const int64_t start_ns = tdmi_event_start(rank, i), end_ns = tdmi_event_end(rank, i);
        all.start_ns = start_ns < all.start_ns ? start_ns : all.start_ns;
        all.end_ns = end_ns > all.end_ns ? end_ns : all.end_ns;
    }
    rank->iterations = all.end_ns > all.start_ns;
    rank->iteration[0] = all;
}

tdm_status tdmi_steps_find(tdmi_rank *rank)
{
    const tdmi_trace *trace = rank->trace;
    size_t count = 0;
    for (uint32_t i = 0; i < trace->event_count; i++)
        count += rank->role[i] == TDMI_ROLE_STEP;
    rank->iteration = tdmi_calloc(count + 1, sizeof *rank->iteration, "job");
    if (rank->iteration == NULL)
        return TDM_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        if (rank->role[i] != TDMI_ROLE_STEP || trace->event[i].lane != rank->main_lane || trace->event[i].dur_ns <= 0)
            continue;
        const char *number = tdmi_event_name(rank, i) + sizeof "ProfilerStep#" - 1;
        rank->iteration[rank->iterations++] = (tdmi_iteration){strtoll(number, NULL, 10), tdmi_event_start(rank, i), tdmi_event_end(rank, i), i};
    }
    qsort(rank->iteration, rank->iterations, sizeof *rank->iteration, by_start);
    size_t kept = 0; /* spans that overlap are no steps of one thread: the first stays */
    for (size_t i = 0; i < rank->iterations; i++)
        if (kept == 0 || rank->iteration[i].start_ns >= rank->iteration[kept - 1].end_ns)
            rank->iteration[kept++] = rank->iteration[i];
    rank->iterations = kept;
    rank->has_steps = kept > 0;
    if (kept == 0)
        take_all(rank);
    return TDM_OK;
}

size_t tdmi_iteration_at(const tdmi_rank *rank, int64_t ns)
{
    size_t low = 0, high = rank->iterations;
    while (low + 1 < high) { /* the last that starts at or before ns */
        const size_t middle = low + (high - low) / 2;
        if (rank->iteration[middle].start_ns <= ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}
