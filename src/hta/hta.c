/* hta.c - all metrics of all ranks.
 * Threads: each takes the next rank, computes everything of it and writes only into that rank's figures. What ranks have in common -
 * whether the filter is on, and the beginning of time - is found before, what needs all of them after. */
#include "hta/hta.h"

#include "hta/rank.h"

#include "core/memory.h"
#include "kineto/each.h"

#include <string.h>

typedef struct work {
    const tdmi_job_traces *job;
    tdmi_hta_figures *figures;
    bool filtered;
} work;

/* ---- what ranks have in common ---- */

/* HTA filters when there are two and more names with ProfilerStep in the whole job. `step` keeps the first one. */
static bool look(const tdmi_trace *trace, const char **step, int64_t *first_ns)
{
    bool several = false;
    uint32_t last = TDMI_NONE;
    const tdmi_event *earliest = NULL;
    for (size_t i = 0; i < trace->event_count; i++) {
        const tdmi_event *event = &trace->event[i];
        if (!TDMI_EVENT_IS_ROW(event->kind))
            continue;
        if (earliest == NULL || event->start_ns < earliest->start_ns)
            earliest = event;
        if (several || event->name == TDMI_NONE || event->name == last)
            continue;
        last = event->name;
        const char *name = tdmi_trace_text(trace, event->name);
        if (name[0] == '\0' || strstr(name, "ProfilerStep") == NULL)
            continue;
        several = *step != NULL && strcmp(*step, name) != 0;
        *step = name;
    }
    *first_ns = earliest != NULL ? tdmi_hta_row_start(trace->ns_times, earliest) : INT64_MAX;
    return several;
}

/* ---- one rank ---- */

static tdm_status list_steps(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out)
{
    out->step = tdmi_malloc((rank->step_count + 1) * sizeof *out->step, "hta steps");
    if (out->step == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < rank->step_count; i++)
        if (rank->step[i].numbered && tdmi_hta_row_copies(rank, &rank->trace->event[rank->step[i].event]) > 0)
            out->step[out->step_count++] = rank->step[i].number;
    out->step_count = tdmi_hta_unite(out->step, out->step_count);
    return TDM_OK;
}

static tdm_status compute_with_last(tdmi_hta_rank *rank, const work *w, tdmi_hta_rank_figures *out)
{
    tdm_status status = TDM_OK;
    if (w->filtered)
        status = tdmi_hta_rank_filter(rank, TDMI_HTA_INCLUDE_LAST, w->figures->first_ns);
    if (status == TDM_OK)
        status = tdmi_hta_temporal(rank, &out->temporal_with_last);
    return status == TDM_OK ? tdmi_hta_overlap(rank, &out->overlap_with_last_pct) : status;
}

static tdm_status compute_exact(const tdmi_trace *trace, const work *w, tdmi_hta_rank_figures *out)
{
    tdmi_hta_rank rank;
    tdm_status status = tdmi_hta_rank_read(trace, false, &rank);
    if (status != TDM_OK)
        return status;
    status = tdmi_hta_rank_filter(&rank, w->filtered ? TDMI_HTA_DROP_LAST : TDMI_HTA_KEEP_ALL, w->figures->first_ns);
    if (status == TDM_OK)
        status = tdmi_hta_temporal(&rank, &out->temporal_exact);
    if (status == TDM_OK)
        status = tdmi_hta_overlap(&rank, &out->overlap_exact_pct);
    tdmi_hta_rank_free(&rank);
    return status;
}

static tdm_status compute_all(tdmi_hta_rank *rank, const work *w, tdmi_hta_rank_figures *out)
{
    static tdm_status (*const metrics[])(const tdmi_hta_rank *, tdmi_hta_rank_figures *) = {
        list_steps, tdmi_hta_kernel_table, tdmi_hta_annotation_table, tdmi_hta_idle, tdmi_hta_queue, tdmi_hta_bandwidth, tdmi_hta_launches,
    };
    tdm_status status = tdmi_hta_rank_filter(rank, w->filtered ? TDMI_HTA_DROP_LAST : TDMI_HTA_KEEP_ALL, w->figures->first_ns);
    if (status != TDM_OK)
        return status;
    out->rows = rank->row_count;
    status = tdmi_hta_temporal(rank, &out->temporal);
    if (status == TDM_OK)
        status = tdmi_hta_overlap(rank, &out->overlap_pct);
    if (status == TDM_OK)
        status = tdmi_hta_types(rank, &out->with_memory, &out->without_memory);
    for (size_t i = 0; status == TDM_OK && i < sizeof metrics / sizeof *metrics; i++)
        status = metrics[i](rank, out);
    if (status == TDM_OK && w->job->count > 1)
        status = tdmi_hta_straggler_material(rank, out);
    return status == TDM_OK ? compute_with_last(rank, w, out) : status;
}

static tdm_status compute_rank(uint32_t r, void *arg)
{
    const work *w = arg;
    const tdmi_trace *trace = w->job->rank[r];
    tdmi_hta_rank rank;
    tdm_status status = tdmi_hta_rank_read(trace, trace->ns_times, &rank);
    if (status != TDM_OK)
        return status;
    status = compute_all(&rank, w, &w->figures->rank[r]);
    tdmi_hta_rank_free(&rank);
    if (trace->ns_times)
        return status == TDM_OK ? compute_exact(trace, w, &w->figures->rank[r]) : status;
    w->figures->rank[r].temporal_exact = w->figures->rank[r].temporal; /* nothing was rounded */
    w->figures->rank[r].overlap_exact_pct = w->figures->rank[r].overlap_pct;
    return status;
}

/* ---- what needs all ranks ---- */

static tdm_status unite_steps(tdmi_hta_figures *figures)
{
    size_t count = 0;
    for (size_t r = 0; r < figures->rank_count; r++)
        count += figures->rank[r].step_count;
    figures->step = tdmi_malloc((count + 1) * sizeof *figures->step, "hta steps");
    if (figures->step == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t r = 0; r < figures->rank_count; r++)
        for (size_t i = 0; i < figures->rank[r].step_count; i++)
            figures->step[figures->step_count++] = figures->rank[r].step[i];
    figures->step_count = tdmi_hta_unite(figures->step, figures->step_count);
    return TDM_OK;
}

static bool check_temporal(tdmi_hta_figures *figures, tdmi_hta_metric metric, int rank, const tdmi_hta_temporal_figures *t)
{
    if (!t->any)
        return tdmi_hta_figures_fail(figures, metric, "IndexError: rank %d has no kernels", rank);
    if (t->idle_ns <= t->span_ns && t->compute_ns <= t->span_ns && t->non_compute_ns >= 0)
        return true;
    return tdmi_hta_figures_fail(figures, metric,
                                 "AssertionError: rank %d: %.0f us idle and %.0f us of computation are more than %.0f us in all; %zu kernels "
                                 "have a length of -1 us after HTA's rounding",
                                 rank, t->idle_ns / 1e3, t->compute_ns / 1e3, t->span_ns / 1e3, t->negative);
}

/* Where HTA raises for one rank, none of them has a value. */
static tdm_status find_failures(tdmi_hta_figures *figures)
{
    bool said = true;
    for (size_t r = 0; said && r < figures->rank_count; r++) {
        const tdmi_hta_rank_figures *rank = &figures->rank[r];
        said = check_temporal(figures, TDMI_HTA_METRIC_TEMPORAL, rank->rank, &rank->temporal) &&
               check_temporal(figures, TDMI_HTA_METRIC_WITH_LAST, rank->rank, &rank->temporal_with_last);
        if (said && rank->idle_count == 0)
            said = tdmi_hta_figures_fail(figures, TDMI_HTA_METRIC_IDLE, "ValueError: rank %d has no kernels", rank->rank);
        for (int metric = TDMI_HTA_METRIC_QUEUE; said && rank->queue_unequal && metric <= TDMI_HTA_METRIC_FULL; metric++)
            said = tdmi_hta_figures_fail(figures, (tdmi_hta_metric)metric, "AssertionError: rank %d has two calls of one correlation", rank->rank);
    }
    return said ? TDM_OK : TDM_ERR_NO_MEMORY;
}

tdm_status tdmi_hta_compute(const tdmi_job_traces *job, int threads, tdmi_hta_figures *out)
{
    tdmi_hta_figures figures = {.first_ns = INT64_MAX};
    work w = {.job = job, .figures = &figures};
    const char *step = NULL;
    figures.rank = tdmi_calloc(job->count + 1, sizeof *figures.rank, "hta figures");
    if (figures.rank == NULL)
        return TDM_ERR_NO_MEMORY;
    figures.rank_count = job->count;
    for (size_t r = 0; r < job->count; r++) {
        /* a rank that the file does not say is 0 for HTA; with more than one of them the files would replace each other there */
        figures.rank[r].rank = job->count == 1 && job->rank[r]->rank_from_name ? 0 : job->rank[r]->rank;
        w.filtered |= look(job->rank[r], &step, &figures.rank[r].first_ns);
        if (figures.rank[r].first_ns < figures.first_ns)
            figures.first_ns = figures.rank[r].first_ns;
    }
    tdm_status status = tdmi_each_place(job->count, threads, compute_rank, &w);
    if (status == TDM_OK)
        status = unite_steps(&figures);
    if (status == TDM_OK)
        status = find_failures(&figures);
    if (status == TDM_OK && job->count > 1)
        status = tdmi_hta_stragglers(&figures);
    if (status != TDM_OK) {
        tdmi_hta_figures_free(&figures);
        return status;
    }
    *out = figures;
    return TDM_OK;
}
