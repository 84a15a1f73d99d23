/* steps.c - the iterations of a rank: its ProfilerStep#N spans on the thread that has most of them, in order of time. Without any, or
 * with spans that are none (no length), they are what lies between the ends of an optimizer's steps: traces that a daemon asked for
 * have no ProfilerStep. Without these either the whole trace is one iteration. */
#include "job/job.h"

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- ProfilerStep ---- */

static void take_spans(tdmi_rank *rank)
{
    const tdmi_trace *trace = rank->trace;
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
}

/* ---- the optimizer's steps ---- */

#define OPTIMIZERS_MAX 16       /* different names */
#define WHOLE_SHARE 0.9         /* of the events of the second iteration, that the first must have to be whole */

static bool is_step_of(const tdmi_rank *rank, uint32_t event, uint32_t name)
{
    const tdmi_event *e = &rank->trace->event[event];
    return rank->role[event] == TDMI_ROLE_OPTIMIZER && e->lane == rank->main_lane && (name == TDMI_NONE || e->name == name);
}

/* The name that steps most often; of several the one whose step ends last, which holds the others or comes after them. */
static uint32_t find_optimizer(const tdmi_rank *rank)
{
    struct {
        uint32_t name;
        size_t steps;
        int64_t end_ns;
    } of[OPTIMIZERS_MAX];
    size_t count = 0, best = 0;
    for (uint32_t i = 0; i < rank->trace->event_count; i++) {
        size_t at = 0;
        if (!is_step_of(rank, i, TDMI_NONE))
            continue;
        while (at < count && of[at].name != rank->trace->event[i].name)
            at++;
        if (at == OPTIMIZERS_MAX)
            continue;
        if (at == count) {
            of[count].name = rank->trace->event[i].name;
            of[count].steps = 0;
            of[count++].end_ns = INT64_MIN;
        }
        of[at].steps++;
        of[at].end_ns = tdmi_event_end(rank, i) > of[at].end_ns ? tdmi_event_end(rank, i) : of[at].end_ns;
    }
    for (size_t i = 1; i < count; i++)
        if (of[i].steps > of[best].steps || (of[i].steps == of[best].steps && of[i].end_ns > of[best].end_ns))
            best = i;
    return count > 0 ? of[best].name : TDMI_NONE;
}

static size_t events_of(const tdmi_rank *rank, const tdmi_iteration *iteration)
{
    size_t count = 0;
    for (size_t i = 0; i < rank->host_count; i++) {
        const int64_t start_ns = tdmi_event_start(rank, rank->host[i]);
        count += start_ns >= iteration->start_ns && start_ns < iteration->end_ns;
    }
    return count;
}

/* From one end of a step to the next. What is before the first end is an iteration too if it is whole: a trace that was asked for in steps
 * begins with the end of one. What is behind the last is none. */
static void cut_at_optimizer(tdmi_rank *rank)
{
    const uint32_t name = find_optimizer(rank);
    if (name == TDMI_NONE || rank->host_count == 0)
        return;
    tdmi_iteration *it = rank->iteration;
    for (uint32_t i = 0; i < rank->trace->event_count; i++)
        if (is_step_of(rank, i, name))
            it[rank->iterations++] = (tdmi_iteration){.start_ns = tdmi_event_end(rank, i), .event = TDMI_NONE};
    qsort(it, rank->iterations, sizeof *it, by_start);
    int64_t begin_ns = tdmi_event_start(rank, rank->host[0]);
    for (size_t i = 0; i < rank->iterations; i++) {
        const int64_t end_ns = it[i].start_ns;
        it[i] = (tdmi_iteration){.number = (int64_t)i + 1, .start_ns = begin_ns, .end_ns = end_ns, .event = TDMI_NONE};
        begin_ns = end_ns;
    }
    if (rank->iterations > 1 && (double)events_of(rank, &it[0]) < WHOLE_SHARE * (double)events_of(rank, &it[1]))
        memmove(it, it + 1, --rank->iterations * sizeof *it);
}

tdm_status tdmi_steps_find(tdmi_rank *rank)
{
    size_t count = 0;
    for (uint32_t i = 0; i < rank->trace->event_count; i++)
        count += rank->role[i] == TDMI_ROLE_STEP || rank->role[i] == TDMI_ROLE_OPTIMIZER;
    rank->iteration = tdmi_calloc(count + 1, sizeof *rank->iteration, "job");
    if (rank->iteration == NULL)
        return TDM_ERR_NO_MEMORY;
    take_spans(rank);
    if (rank->iterations == 0)
        cut_at_optimizer(rank);
    rank->has_steps = rank->iterations > 0;
    if (!rank->has_steps)
        take_all(rank);
    return TDM_OK;
}

/* The place of the iteration whose end is nearest. */
static size_t nearest_end(const tdmi_rank *rank, int64_t ns)
{
    size_t best = 0;
    for (size_t i = 1; i < rank->iterations; i++)
        if (llabs(rank->iteration[i].end_ns - ns) < llabs(rank->iteration[best].end_ns - ns))
            best = i;
    return best;
}

void tdmi_steps_agree(tdmi_job *job)
{
    const tdmi_rank *first = NULL;
    for (size_t r = 0; r < job->ranks; r++) {
        tdmi_rank *rank = &job->rank[r];
        if (!tdmi_steps_are_cut(rank))
            continue;
        if (first == NULL) {
            first = rank;
            continue;
        }
        const size_t middle = rank->iterations / 2;
        const int64_t number = first->iteration[nearest_end(first, rank->iteration[middle].end_ns)].number - (int64_t)middle;
        for (size_t i = 0; i < rank->iterations; i++)
            rank->iteration[i].number = number + (int64_t)i;
    }
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
