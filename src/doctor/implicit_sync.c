/* implicit_sync.c - the host stops for the device in the middle of the work: item(), .cpu(), printing a tensor, synchronize. Behind each
 * such stop the device runs dry until the host has launched again.
 *
 * Without them, and without the operators that bring the value, the host runs ahead as far as the stream's queue allows. */
#include "doctor/finding.h"

#include "core/memory.h"
#include "job/syncs.h"

#include <stdio.h>
#include <string.h>

/* Which events are part of bringing a value to the host; by place and event. They go with the wait. */
typedef struct readers {
    uint8_t **is_part;
} readers;

/* The loader is out of the way in this: tdmi_case_gain_beyond_loader. */
static int64_t never_wait(const tdmi_link *link, const void *arg)
{
    const readers *r = arg;
    if (link->due == TDMI_DUE_DATA)
        return 0;
    const bool part = link->event != TDMI_NONE && r->is_part[link->rank][link->event] != 0;
    return link->due == TDMI_DUE_SYNC                                                                                       ? TDMI_CUT
           : part && (link->due == TDMI_DUE_HOST || link->due == TDMI_DUE_COPY || link->due == TDMI_DUE_OTHER) ? 0
                                                                                                                            : link->ns;
}

/* An operator that brings a value to the host: aten::item and its like, or one of copying in which the host waited for a copy. */
static bool is_reader(const tdmi_rank *rank, size_t at)
{
    const uint32_t op = rank->host[at];
    if (rank->role[op] == TDMI_ROLE_ITEM)
        return true;
    if (rank->role[op] != TDMI_ROLE_OP || (strcmp(tdmi_event_name(rank, op), "aten::to") != 0 && strcmp(tdmi_event_name(rank, op), "aten::copy_") != 0))
        return false;
    for (size_t i = at + 1; i < rank->host_count && tdmi_event_start(rank, rank->host[i]) < tdmi_event_end(rank, op); i++)
        if (tdmi_waits_for_copy(rank, rank->host[i]) && rank->trace->event[rank->host[i]].lane == rank->trace->event[op].lane)
            return true;
    return false;
}

/* Calls within such operators, and the copies they launch. */
static void mark(const tdmi_rank *rank, uint8_t *is_part, int64_t *until_ns)
{
    for (size_t l = 0; l < rank->trace->lane_count; l++)
        until_ns[l] = INT64_MIN;
    for (size_t i = 0; i < rank->host_count; i++) {
        const uint32_t event = rank->host[i], lane = rank->trace->event[event].lane;
        const int64_t end_ns = tdmi_event_end(rank, event);
        if (end_ns > until_ns[lane] && is_reader(rank, i))
            until_ns[lane] = end_ns;
        is_part[event] = end_ns <= until_ns[lane];
        if (is_part[event] && rank->role[event] == TDMI_ROLE_LAUNCH && rank->role[rank->gpu[rank->gpu_of[event]]] == TDMI_ROLE_COPY)
            is_part[rank->gpu[rank->gpu_of[event]]] = 1;
    }
}

static void free_readers(const tdmi_job *job, readers *r)
{
    for (size_t i = 0; r->is_part != NULL && i < job->ranks; i++)
        tdmi_free(r->is_part[i]);
    tdmi_free(r->is_part);
}

static tdm_status find_readers(const tdmi_job *job, readers *out)
{
    tdm_status status = TDM_OK;
    out->is_part = tdmi_calloc(job->ranks + 1, sizeof *out->is_part, "doctor");
    for (size_t i = 0; i < job->ranks && status == TDM_OK; i++) {
        const tdmi_trace *trace = job->rank[i].trace;
        int64_t *until_ns = tdmi_malloc((trace->lane_count + 1) * sizeof *until_ns, "doctor");
        if (out->is_part != NULL)
            out->is_part[i] = tdmi_calloc(trace->event_count + 1, 1, "doctor");
        if (out->is_part == NULL || out->is_part[i] == NULL || until_ns == NULL)
            status = TDM_ERR_NO_MEMORY;
        else
            mark(&job->rank[i], out->is_part[i], until_ns);
        tdmi_free(until_ns);
    }
    if (status != TDM_OK)
        free_readers(job, out);
    return status;
}

static tdm_status what_if(tdmi_case *c, tdmi_gain *out)
{
    readers r;
    const tdm_status status = find_readers(c->job, &r);
    if (status != TDM_OK)
        return status;
    tdmi_case_gain_beyond_loader(c, &(tdmi_variation){.change = never_wait, .arg = &r}, out);
    free_readers(c->job, &r);
    return TDM_OK;
}

static json_t *site_json(const tdmi_sync_site *s, double iterations)
{
    return json_pack("{s:s, s:s, s:s?, s:f, s:f}", "call", s->call, "op", s->op, "line", s->line, "times", (double)s->count / iterations, "blocked_ms",
                     (double)s->blocked_ns / 1e6 / iterations);
}

void tdmi_find_implicit_sync(tdmi_case *c, tdmi_findings *out)
{
    tdmi_finding f = {.id = "implicit_sync", .rank = -1};
    tdmi_syncs syncs;
    double iterations = 0, times = 0, blocked_ms = 0;
    if (!c->job->on_device)
        return;
    if (what_if(c, &f.gain) != TDM_OK) {
        out->failed = true;
        return;
    }
    if (f.gain.pct < TDMI_GAIN_PCT_MIN)
        return;
    if (tdmi_syncs_find(c->job, &syncs) != TDM_OK) {
        out->failed = true;
        return;
    }
    for (size_t r = 0; r < c->job->ranks; r++)
        iterations += (double)c->job->rank[r].iterations;
    json_t *sites = json_array();
    for (size_t i = 0; i < syncs.count; i++) {
        times += (double)syncs.of[i].count / iterations;
        blocked_ms += (double)syncs.of[i].blocked_ns / 1e6 / iterations;
        if (i < 5)
            json_array_append_new(sites, site_json(&syncs.of[i], iterations));
    }
    if (syncs.count > 0) {
        const tdmi_sync_site *most = &syncs.of[0];
        f.evidence = json_pack("{s:f, s:f, s:O}", "times", times, "blocked_ms", blocked_ms, "sites", sites);
        snprintf(f.text, sizeof f.text, "the host stops for the device %.1f times an iteration, %.1f ms in all, most in %.200s%s%.200s", times, blocked_ms,
                 most->op[0] != '\0' ? most->op : most->call, most->line != NULL ? " at " : "", most->line != NULL ? most->line : "");
        snprintf(f.advice, sizeof f.advice, "%s",
                 "Keep values on the device: add losses up there and read them every 100 steps, no item(), .cpu(), print or `if tensor` in the loop, copy with "
                 "non_blocking=True from pinned memory, take torch.cuda.synchronize() out; torch.cuda.set_sync_debug_mode(\"warn\") shows where they are");
        tdmi_findings_add(out, &f);
    }
    json_decref(sites);
    tdmi_syncs_free(&syncs);
}
