/* breakdown.c - the time of each iteration, cut into parts. */
#include "job/breakdown.h"

#include "core/cpu.h"
#include "core/memory.h"
#include "job/ahead.h"
#include "job/intervals.h"
#include "job/syncs.h"
#include "kineto/each.h"

#include <string.h>

/* What is busy when, of one rank. */
typedef struct busy {
    tdmi_spans compute, comm, copy;
    tdmi_spans data, sync; /* on the host; sync, with copies that their calls wait for, without data */
    tdmi_spans collective; /* calls of collectives on the threads */
    tdmi_spans optimizer;
    tdmi_spans scratch;
} busy;

static void free_busy(busy *b)
{
    tdmi_spans *const all[] = {&b->compute, &b->comm, &b->copy, &b->data, &b->sync, &b->collective, &b->optimizer, &b->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tdmi_spans_free(all[i]);
}

static tdmi_spans *list_of(busy *b, const tdmi_rank *rank, uint32_t event)
{
    switch ((tdmi_role)rank->role[event]) {
    case TDMI_ROLE_COMPUTE:
        return &b->compute;
    case TDMI_ROLE_OP:
    case TDMI_ROLE_BACKWARD:
    case TDMI_ROLE_ITEM:
        return rank->on_device ? NULL : &b->compute;
    case TDMI_ROLE_COMM:
        return &b->comm;
    case TDMI_ROLE_HOST_COMM:
        return rank->on_device ? NULL : &b->comm;
    case TDMI_ROLE_COPY:
        return &b->copy;
    case TDMI_ROLE_COMM_CALL:
        return &b->collective;
    case TDMI_ROLE_DATA:
        return rank->trace->event[event].lane == rank->main_lane ? &b->data : NULL;
    case TDMI_ROLE_SYNC_STREAM:
    case TDMI_ROLE_SYNC_DEVICE:
    case TDMI_ROLE_SYNC_EVENT:
        return &b->sync;
    case TDMI_ROLE_LAUNCH:
        return tdmi_waits_for_copy(rank, event) ? &b->sync : NULL;
    case TDMI_ROLE_OPTIMIZER:
        return &b->optimizer;
    default:
        return NULL;
    }
}

/* *spans without other. */
static tdm_status take_away(busy *b, tdmi_spans *spans, const tdmi_spans *other)
{
    const tdm_status status = tdmi_spans_subtract(spans, other, &b->scratch);
    const tdmi_spans old = *spans;
    *spans = b->scratch;
    b->scratch = old;
    return status;
}

static tdm_status collect(const tdmi_rank *rank, busy *b)
{
    tdm_status status = TDM_OK;
    for (uint32_t i = 0; i < rank->trace->event_count && status == TDM_OK; i++) {
        const uint32_t lane = rank->trace->event[i].lane;
        tdmi_spans *list = lane != TDMI_NONE ? list_of(b, rank, i) : NULL;
        const bool on_thread = rank->role[i] != TDMI_ROLE_HOST_COMM && !TDMI_ROLE_IS_DEVICE(rank->role[i]);
        if (list != NULL && (!on_thread || rank->trains[lane]))
            status = tdmi_spans_add(list, tdmi_event_start(rank, i), tdmi_event_end(rank, i));
    }
    tdmi_spans *const all[] = {&b->compute, &b->comm, &b->copy, &b->data, &b->sync, &b->collective, &b->optimizer};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tdmi_spans_merge(all[i]);
    if (status == TDM_OK)
        status = take_away(b, &b->sync, &b->data);
    if (status == TDM_OK && !rank->on_device)
        status = take_away(b, &b->compute, &b->collective);
    if (status == TDM_OK && !rank->on_device)
        status = take_away(b, &b->compute, &b->data);
    return status;
}

/* What device and CPU have in common: computing, and communication with and without it. */
static void split_busy(const busy *b, const tdmi_spans *exposed, const tdmi_iteration *it, tdmi_split *s)
{
    s->compute_ns = tdmi_spans_within(&b->compute, it->start_ns, it->end_ns);
    s->comm_exposed_ns = tdmi_spans_within(exposed, it->start_ns, it->end_ns);
    s->comm_overlap_ns = tdmi_spans_within(&b->comm, it->start_ns, it->end_ns) - s->comm_exposed_ns;
}

/* ---- the device ---- */

/* A time in which the device does nothing, and when what runs next was launched; INT64_MAX: not known. */
static void add_idle(const tdmi_rank *rank, const busy *b, tdmi_split *split, int64_t start_ns, int64_t end_ns, int64_t call_ns)
{
    for (size_t i = start_ns < end_ns ? tdmi_iteration_at(rank, start_ns) : rank->iterations; i < rank->iterations; i++) {
        const tdmi_iteration *it = &rank->iteration[i];
        const int64_t from_ns = start_ns > it->start_ns ? start_ns : it->start_ns, to_ns = end_ns < it->end_ns ? end_ns : it->end_ns;
        if (it->start_ns >= end_ns)
            break;
        if (from_ns >= to_ns)
            continue;
        const int64_t loading_ns = tdmi_spans_within(&b->data, from_ns, to_ns), waiting_ns = tdmi_spans_within(&b->sync, from_ns, to_ns);
        int64_t behind_ns = 0;
        if (call_ns != INT64_MAX && call_ns > from_ns) {
            const int64_t until_ns = call_ns < to_ns ? call_ns : to_ns;
            behind_ns = until_ns - from_ns - tdmi_spans_within(&b->data, from_ns, until_ns) - tdmi_spans_within(&b->sync, from_ns, until_ns);
        }
        const int64_t rest_ns = to_ns - from_ns - loading_ns - waiting_ns - behind_ns;
        split[i].data_ns += loading_ns;
        split[i].sync_ns += waiting_ns;
        split[i].host_ns += behind_ns;
        if (call_ns != INT64_MAX)
            split[i].kernel_ns += rest_ns;
        else
            split[i].other_ns += rest_ns;
    }
}

static void split_idle(const tdmi_rank *rank, const busy *b, tdmi_split *split)
{
    int64_t busy_ns = rank->iteration[0].start_ns;
    const int64_t end_ns = rank->iteration[rank->iterations - 1].end_ns;
    for (uint32_t g = 0; g < rank->gpu_count; g++) {
        const int64_t start_ns = tdmi_gpu_start(rank, g);
        const int64_t stop_ns = tdmi_gpu_end(rank, g);
        if (start_ns > busy_ns)
            add_idle(rank, b, split, busy_ns, start_ns, rank->launch[g] != TDMI_NONE ? tdmi_event_start(rank, rank->launch[g]) : INT64_MAX);
        busy_ns = stop_ns > busy_ns ? stop_ns : busy_ns;
    }
    add_idle(rank, b, split, busy_ns, end_ns, INT64_MAX);
}

static tdm_status split_device(const tdmi_rank *rank, busy *b, tdmi_split *split)
{
    tdmi_spans exposed = {0}, copy = {0};
    tdm_status status = tdmi_spans_subtract(&b->comm, &b->compute, &exposed);
    if (status == TDM_OK)
        status = tdmi_spans_subtract(&b->copy, &b->compute, &copy);
    if (status == TDM_OK)
        status = take_away(b, &copy, &b->comm);
    for (size_t i = 0; i < rank->iterations && status == TDM_OK; i++) {
        const tdmi_iteration *it = &rank->iteration[i];
        split_busy(b, &exposed, it, &split[i]);
        split[i].copy_ns = tdmi_spans_within(&copy, it->start_ns, it->end_ns);
    }
    tdmi_spans_free(&exposed);
    tdmi_spans_free(&copy);
    if (status == TDM_OK)
        split_idle(rank, b, split);
    return status;
}

/* ---- the CPU alone ---- */

static tdm_status split_host(const tdmi_rank *rank, busy *b, tdmi_split *split)
{
    tdmi_spans exposed = {0}, data = {0};
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < b->collective.count && status == TDM_OK; i++) /* the call is communication too: it copies, or waits */
        status = tdmi_spans_add(&b->comm, b->collective.of[i].start_ns, b->collective.of[i].end_ns);
    tdmi_spans_merge(&b->comm);
    if (status == TDM_OK)
        status = tdmi_spans_subtract(&b->comm, &b->compute, &exposed);
    if (status == TDM_OK)
        status = tdmi_spans_subtract(&b->data, &b->comm, &data);
    for (size_t i = 0; i < rank->iterations && status == TDM_OK; i++) {
        const tdmi_iteration *it = &rank->iteration[i];
        tdmi_split *s = &split[i];
        split_busy(b, &exposed, it, s);
        s->data_ns = tdmi_spans_within(&data, it->start_ns, it->end_ns);
        s->other_ns = it->end_ns - it->start_ns - s->compute_ns - s->comm_exposed_ns - s->data_ns;
    }
    tdmi_spans_free(&exposed);
    tdmi_spans_free(&data);
    return status;
}

/* ---- phases ---- */

typedef struct window {
    int64_t start_ns, end_ns;
} window;

/* Backward: from the first to the last operator of autograd's engine; forward: the model's own span, else what is between loader and
 * backward; optimizer: its spans. */
static void split_phases(const tdmi_rank *rank, const busy *b, tdmi_split *split, window *forward, window *backward)
{
    for (size_t i = 0; i < rank->iterations; i++)
        forward[i] = backward[i] = (window){INT64_MAX, INT64_MIN};
    for (size_t h = 0; h < rank->host_count; h++) {
        const uint32_t event = rank->host[h];
        const uint8_t role = rank->role[event];
        if (role != TDMI_ROLE_BACKWARD && role != TDMI_ROLE_FORWARD)
            continue;
        const int64_t start_ns = tdmi_event_start(rank, event), end_ns = tdmi_event_end(rank, event);
        window *w = &(role == TDMI_ROLE_BACKWARD ? backward : forward)[tdmi_iteration_at(rank, start_ns)];
        w->start_ns = start_ns < w->start_ns ? start_ns : w->start_ns;
        w->end_ns = end_ns > w->end_ns ? end_ns : w->end_ns;
    }
    for (size_t i = 0; i < rank->iterations; i++) {
        const tdmi_iteration *it = &rank->iteration[i];
        if (forward[i].start_ns == INT64_MAX && backward[i].start_ns != INT64_MAX)
            forward[i] = (window){it->start_ns, backward[i].start_ns};
        if (forward[i].start_ns < forward[i].end_ns)
            split[i].forward_ns = forward[i].end_ns - forward[i].start_ns;
        if (backward[i].start_ns < backward[i].end_ns)
            split[i].backward_ns = backward[i].end_ns - backward[i].start_ns;
        split[i].optimizer_ns = tdmi_spans_within(&b->optimizer, it->start_ns, it->end_ns);
        split[i].loading_ns = tdmi_spans_within(&b->data, it->start_ns, it->end_ns);
        split[i].blocked_ns = tdmi_spans_within(&b->sync, it->start_ns, it->end_ns);
    }
    for (uint32_t g = 0; g < rank->gpu_count; g++) {
        const int64_t ns = rank->trace->event[rank->gpu[g]].dur_ns;
        const int64_t call_ns = tdmi_event_start(rank, rank->launch[g] != TDMI_NONE ? rank->launch[g] : rank->gpu[g]);
        const size_t i = tdmi_iteration_at(rank, call_ns);
        split[i].kernels += rank->role[rank->gpu[g]] == TDMI_ROLE_COMPUTE;
        if (rank->role[rank->gpu[g]] != TDMI_ROLE_COMPUTE)
            continue;
        if (tdmi_spans_within(&b->optimizer, call_ns, call_ns + 1) > 0)
            split[i].optimizer_gpu_ns += ns;
        else if (call_ns >= backward[i].start_ns && call_ns < backward[i].end_ns)
            split[i].backward_gpu_ns += ns;
        else if (call_ns >= forward[i].start_ns && call_ns < forward[i].end_ns)
            split[i].forward_gpu_ns += ns;
    }
}

static void add_up(tdmi_split *sum, const tdmi_split *one)
{
    int64_t *to = (int64_t *)sum; /* a split is nothing but int64_t */
    const int64_t *from = (const int64_t *)one;
    for (size_t f = 0; f < sizeof *sum / sizeof *to; f++)
        to[f] += from[f];
}

/* on_device: the iterations as the device goes through them; NULL: as the host does. */
static tdm_status split_rank(const tdmi_rank *rank, tdmi_iteration *on_device, tdmi_split *split, tdmi_split *mean)
{
    busy b = {0};
    tdmi_rank seen = *rank; /* the rank in the iterations that are split */
    seen.iteration = on_device != NULL ? on_device : rank->iteration;
    window *windows = tdmi_calloc(2 * rank->iterations + 1, sizeof *windows, "breakdown");
    tdm_status status = windows != NULL ? collect(rank, &b) : TDM_ERR_NO_MEMORY;
    if (status == TDM_OK)
        status = rank->on_device ? split_device(&seen, &b, split) : split_host(rank, &b, split);
    if (status == TDM_OK)
        split_phases(rank, &b, split, windows, windows + rank->iterations);
    for (size_t i = 0; i < rank->iterations && status == TDM_OK; i++) {
        split[i].length_ns = seen.iteration[i].end_ns - seen.iteration[i].start_ns;
        add_up(mean, &split[i]);
    }
    for (size_t f = 0; f < sizeof *mean / sizeof(int64_t); f++)
        ((int64_t *)mean)[f] /= (int64_t)rank->iterations;
    free_busy(&b);
    tdmi_free(windows);
    return status;
}

typedef struct target {
    const tdmi_job *job;
    tdmi_breakdown *out;
    tdmi_iteration **on_device; /* [rank]; NULL: cannot be told */
    bool *ahead;                /* [rank] */
} target;

static tdm_status find_iterations(uint32_t place, void *arg)
{
    const target *t = arg;
    const tdmi_rank *rank = &t->job->rank[place];
    tdmi_iteration *on_device = tdmi_malloc((rank->iterations + 1) * sizeof *on_device, "breakdown");
    if (on_device == NULL)
        return TDM_ERR_NO_MEMORY;
    if (tdmi_iterations_on_device(rank, on_device)) {
        t->ahead[place] = tdmi_host_is_ahead(rank, on_device);
        t->on_device[place] = on_device;
    } else {
        tdmi_free(on_device);
    }
    return TDM_OK;
}

static tdm_status split_place(uint32_t place, void *arg)
{
    const target *t = arg;
    const tdmi_rank *rank = &t->job->rank[place];
    t->out->of[place] = tdmi_calloc(rank->iterations + 1, sizeof **t->out->of, "breakdown");
    if (t->out->of[place] == NULL)
        return TDM_ERR_NO_MEMORY;
    return rank->iterations > 0 ? split_rank(rank, t->on_device[place], t->out->of[place], &t->out->mean[place]) : TDM_OK;
}

/* One host that is ahead decides for all ranks: their rows are to be compared. */
static void choose_iterations(const target *t)
{
    bool ahead = false;
    for (size_t r = 0; r < t->job->ranks; r++)
        ahead |= t->ahead[r];
    for (size_t r = 0; r < t->job->ranks && !ahead; r++) {
        tdmi_free(t->on_device[r]);
        t->on_device[r] = NULL;
    }
}

tdm_status tdmi_breakdown_make(const tdmi_job *job, tdmi_breakdown *out)
{
    target t = {.job = job, .out = out};
    *out = (tdmi_breakdown){.ranks = job->ranks};
    out->of = tdmi_calloc(job->ranks + 1, sizeof *out->of, "breakdown");
    out->mean = tdmi_calloc(job->ranks + 1, sizeof *out->mean, "breakdown");
    t.on_device = tdmi_calloc(job->ranks + 1, sizeof *t.on_device, "breakdown");
    t.ahead = tdmi_calloc(job->ranks + 1, sizeof *t.ahead, "breakdown");
    tdm_status status = out->of != NULL && out->mean != NULL && t.on_device != NULL && t.ahead != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    if (status == TDM_OK)
        status = tdmi_each_place(job->ranks, tdmi_cpu_usable(), find_iterations, &t);
    if (status == TDM_OK) {
        choose_iterations(&t);
        status = tdmi_each_place(job->ranks, tdmi_cpu_usable(), split_place, &t);
    }
    for (size_t r = 0; t.on_device != NULL && r < job->ranks; r++)
        tdmi_free(t.on_device[r]);
    tdmi_free(t.on_device);
    tdmi_free(t.ahead);
    if (status != TDM_OK)
        tdmi_breakdown_free(out);
    return status;
}

void tdmi_breakdown_free(tdmi_breakdown *breakdown)
{
    for (size_t r = 0; breakdown->of != NULL && r < breakdown->ranks; r++)
        tdmi_free(breakdown->of[r]);
    tdmi_free(breakdown->of);
    tdmi_free(breakdown->mean);
    *breakdown = (tdmi_breakdown){0};
}
