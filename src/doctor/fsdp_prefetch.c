/* fsdp_prefetch.c - FSDP's gathers start only when the unit before has been computed, so the device waits for the network at every unit.
 *
 * Cured: each may go one unit earlier (the graph's PREFETCH links). */
#include "doctor/edits.h"

#include <stdio.h>
#include <string.h>

/* So many of the gathers of an iteration must have been late. */
#define LATE_SHARE_MIN 0.5

typedef struct gathers {
    double count, late, waited_ns; /* of an iteration and rank */
} gathers;

/* How long the computing stream is idle within (from, until). */
static int64_t idle_within(const tdmi_rank *rank, int64_t from_ns, int64_t until_ns)
{
    const tdmi_stream *stream = &rank->stream[rank->compute_stream];
    const uint32_t *list = rank->gpu_by_stream + stream->first;
    size_t low = 0, high = stream->count;
    int64_t busy_ns = 0;
    while (low < high) { /* the first that ends after from */
        const size_t middle = low + (high - low) / 2;
        if (tdmi_event_end(rank, rank->gpu[list[middle]]) <= from_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < stream->count && tdmi_event_start(rank, rank->gpu[list[i]]) < until_ns; i++) {
        const int64_t start_ns = tdmi_event_start(rank, rank->gpu[list[i]]), end_ns = tdmi_event_end(rank, rank->gpu[list[i]]);
        busy_ns += (end_ns < until_ns ? end_ns : until_ns) - (start_ns > from_ns ? start_ns : from_ns);
    }
    return until_ns - from_ns - busy_ns;
}

static void examine(const tdmi_job *job, tdmi_edits *edits, uint32_t earlier, gathers *out)
{
    const double iterations = tdmi_job_iterations(job);
    for (size_t i = 0; i < job->meetings; i++) {
        const tdmi_meeting *m = &job->meeting[i];
        for (uint32_t p = m->first; strcmp(m->op, "all_gather") == 0 && p < m->first + m->count; p++) {
            const tdmi_part *part = &job->part[p];
            const tdmi_rank *rank = &job->rank[part->place];
            if (part->gpu == TDMI_NONE || rank->compute_stream == TDMI_NONE)
                continue;
            const int64_t idle_ns = idle_within(rank, part->start_ns, part->end_ns);
            tdmi_edits_mark(edits, part->place, part->event, earlier);
            out->count += 1 / iterations;
            out->late += (idle_ns > (part->end_ns - part->start_ns) / 2) / iterations;
            out->waited_ns += (double)idle_ns / iterations;
        }
    }
}

void tdmi_find_fsdp_prefetch(tdmi_case *c, tdmi_findings *out)
{
    tdmi_finding f = {.id = "fsdp_prefetch", .rank = -1, .explains = "communication_exposed", .explains_share = 0.6};
    tdmi_edits edits;
    tdmi_edit edit = tdmi_edit_none();
    uint32_t earlier = 0;
    gathers seen = {0};
    if ((c->job->kinds & TDMI_JOB_FSDP) == 0 || !c->job->on_device)
        return;
    edit.replanned = edit.own_stream = true;
    tdm_status status = tdmi_edits_create(c->job, &edits);
    if (status == TDM_OK)
        status = tdmi_edits_add(&edits, &edit, &earlier);
    if (status == TDM_OK)
        examine(c->job, &edits, earlier, &seen);
    edits.also = 1u << TDMI_DUE_PREFETCH;
    if (status == TDM_OK && seen.count > 0 && seen.late >= LATE_SHARE_MIN * seen.count)
        tdmi_edits_gain(&edits, c->model, &f.gain);
    tdmi_edits_free(&edits);
    out->failed |= status != TDM_OK;
    if (status != TDM_OK || f.gain.pct < TDMI_GAIN_PCT_MIN)
        return;
    f.evidence = json_pack("{s:f, s:f, s:f, s:f}", "gathers", seen.count, "late", seen.late, "waited_ms", seen.waited_ns / 1e6, "share_pct",
                           100 * seen.waited_ns / (double)c->model->now_ns);
    snprintf(f.text, sizeof f.text, "%.0f of %.0f all-gathers an iteration start only when the unit before is computed: the device waits %.1f ms (%.0f %%) for parameters", seen.late,
             seen.count, seen.waited_ns / 1e6, 100 * seen.waited_ns / (double)c->model->now_ns);
    snprintf(f.advice, sizeof f.advice, "%s",
             "FSDP: backward_prefetch=BackwardPrefetch.BACKWARD_PRE, forward_prefetch=True, limit_all_gathers=False if memory allows; fully_shard: shard every block and the "
             "root, set_modules_to_forward_prefetch and set_modules_to_backward_prefetch with the next block; no synchronisation inside a block");
    tdmi_findings_add(out, &f);
}
