/* implicit_sync.c - the host stops for the device in the middle of the work: item(), .cpu(), printing a tensor, synchronize. Behind each
 * such stop the device runs dry until the host has launched again.
 *
 * Without them, and without the operators that bring the value, the host runs ahead as far as the stream's queue allows. */
#include "doctor/finding.h"

#include "job/syncs.h"

#include <stdio.h>

/* The loader is out of the way in this: tdmi_case_gain_beyond_loader. */
static int64_t never_wait(const tdmi_link *link, const void *arg)
{
    const tdmi_readers *r = arg;
    if (link->due == TDMI_DUE_DATA)
        return 0;
    const bool part = link->event != TDMI_NONE && r->is_part[link->rank][link->event] != 0;
    return link->due == TDMI_DUE_SYNC                                                                                       ? TDMI_CUT
           : part && (link->due == TDMI_DUE_HOST || link->due == TDMI_DUE_COPY || link->due == TDMI_DUE_OTHER) ? 0
                                                                                                                            : link->ns;
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
    const double iterations = tdmi_job_iterations(c->job);
    double times = 0, blocked_ms = 0;
    if (!c->job->on_device)
        return;
    tdmi_case_gain_beyond_loader(c, &(tdmi_variation){.change = never_wait, .arg = &c->readers}, &f.gain);
    if (f.gain.pct < TDMI_GAIN_PCT_MIN)
        return;
    if (tdmi_syncs_find(c->job, &syncs) != TDM_OK) {
        out->failed = true;
        return;
    }
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
        snprintf(f.text, sizeof f.text, "the host stops for the device %.*f times an iteration, %.1f ms in all, most in %.200s%s%.200s", times < 10 ? 1 : 0, times, blocked_ms,
                 most->op[0] != '\0' ? most->op : most->call, most->line != NULL ? " at " : "", most->line != NULL ? most->line : "");
        snprintf(f.advice, sizeof f.advice, "%s",
                 "Keep values on the device: add losses up there and read them every 100 steps, no item(), .cpu(), print or `if tensor` in the loop, copy with "
                 "non_blocking=True from pinned memory, take torch.cuda.synchronize() out; torch.cuda.set_sync_debug_mode(\"warn\") shows where they are");
        tdmi_findings_add(out, &f);
    }
    json_decref(sites);
    tdmi_syncs_free(&syncs);
}
