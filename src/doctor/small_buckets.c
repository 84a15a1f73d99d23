/* small_buckets.c - gradients sent in many small all-reduces, each of which costs as much as a call costs.
 *
 * Cured: DDP's default plan, each bucket a call and its bytes by the line through the job's own transfers. */
#include "doctor/replan.h"

#include <stdio.h>

/* A quarter of DDP's default; and so many in a step that the calls can matter. */
#define SMALL_BYTES (TDMI_BUCKET_BYTES / 4)
#define MANY 8

static tdm_status look(tdmi_case *c, const tdmi_buckets *buckets, tdmi_findings *out)
{
    tdmi_finding f = {.id = "small_buckets", .rank = -1, .explains = "communication_exposed launch_bound", .explains_share = 0.6};
    double left = 0;
    tdm_status status = tdmi_replan_gain(c, buckets, buckets->call_ns, &f.gain, &left);
    if (status == TDM_OK && !buckets->line_known) { /* a call may cost nothing, or all of the transfer */
        tdmi_gain other;
        status = tdmi_replan_gain(c, buckets, 0, &other, &left);
        tdmi_gain_widen(&f.gain, &other);
        if (status == TDM_OK)
            status = tdmi_replan_gain(c, buckets, (double)c->job->meeting[buckets->of[0].meeting].transfer_ns, &other, &left);
        tdmi_gain_widen(&f.gain, &other);
    }
    if (status != TDM_OK || f.gain.pct < TDMI_GAIN_PCT_MIN)
        return status;
    f.evidence = json_pack("{s:f, s:f, s:f, s:f, s:b, s:f}", "buckets", buckets->a_iteration, "median_megabytes", (double)buckets->median_bytes / 1e6, "megabytes",
                           (double)buckets->iteration_bytes / 1e6, "call_us", buckets->call_ns / 1e3, "call_measured", buckets->line_known, "buckets_at_25_mb", left);
    snprintf(f.text, sizeof f.text, "gradients go in %.0f all-reduces of %.1f MB (median) an iteration; a call costs %.0f us besides its bytes%s; with 25 MB there would be %.0f",
             buckets->a_iteration, (double)buckets->median_bytes / 1e6, buckets->call_ns / 1e3, buckets->line_known ? "" : " (taken, all have the same size)", left);
    snprintf(f.advice, sizeof f.advice, "%s",
             "Leave bucket_cap_mb of DistributedDataParallel at its default of 25, or raise it to 50 or 100 where the network is slow to begin; "
             "gradient_as_bucket_view=True saves a copy; under FSDP wrap whole blocks");
    tdmi_findings_add(out, &f);
    return TDM_OK;
}

void tdmi_find_small_buckets(tdmi_case *c, tdmi_findings *out)
{
    const tdmi_buckets *buckets = &c->model->buckets;
    if (buckets->a_iteration >= MANY && buckets->median_bytes < SMALL_BYTES)
        out->failed |= look(c, buckets, out) != TDM_OK;
}
