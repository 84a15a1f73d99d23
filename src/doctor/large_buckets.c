/* large_buckets.c - most gradients in one bucket, which is full only when the backward pass ends.
 *
 * Cured: DDP's default plan, buckets of 25 MB that go while the backward pass goes on. */
#include "doctor/replan.h"

#include <stdio.h>

/* Twice DDP's default; and so much of what an iteration sends that it matters. */
#define LARGE_BYTES (2 * TDMI_BUCKET_BYTES)
#define LARGE_SHARE 0.3

static tdm_status look(tdmi_case *c, const tdmi_buckets *buckets, tdmi_findings *out)
{
    tdmi_finding f = {.id = "large_buckets", .rank = -1, .explains = "communication_exposed", .explains_share = 0.6};
    double complete = 0, large = 0, share = 0, left;
    const tdm_status status = tdmi_replan_gain(c, buckets, buckets->call_ns, &f.gain, &left);
    if (status != TDM_OK || f.gain.pct < TDMI_GAIN_PCT_MIN)
        return status;
    for (size_t b = 0; b < buckets->count; b++)
        if (buckets->of[b].nbytes > LARGE_BYTES) {
            complete += buckets->of[b].complete_at_send;
            share += (double)buckets->of[b].nbytes / (double)buckets->iteration_bytes;
            large++;
        }
    f.evidence = json_pack("{s:f, s:f, s:f, s:f, s:f}", "largest_megabytes", (double)buckets->largest_bytes / 1e6, "megabytes", (double)buckets->iteration_bytes / 1e6, "buckets",
                           buckets->a_iteration, "share_of_bytes_pct", 100 * share / large, "gradients_complete_at_send_pct", 100 * complete / large);
    snprintf(f.text, sizeof f.text,
             "a bucket of %.0f MB holds %.0f %% of the gradients; when it is sent %.0f %% of them are complete and little computation is left to hide it behind",
             (double)buckets->largest_bytes / 1e6, 100 * share / large, 100 * complete / large);
    snprintf(f.advice, sizeof f.advice, "%s",
             "Leave bucket_cap_mb of DistributedDataParallel at its default of 25: gradients then travel while the backward pass goes on; under FSDP wrap each "
             "block (auto_wrap_policy, fully_shard(block)) so that the root is not one unit");
    tdmi_findings_add(out, &f);
    return TDM_OK;
}

void tdmi_find_large_buckets(tdmi_case *c, tdmi_findings *out)
{
    const tdmi_buckets *buckets = &c->model->buckets;
    if (buckets->largest_bytes > LARGE_BYTES && (double)buckets->largest_bytes >= LARGE_SHARE * (double)buckets->iteration_bytes)
        out->failed |= look(c, buckets, out) != TDM_OK;
}
