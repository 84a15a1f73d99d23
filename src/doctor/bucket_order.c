/* bucket_order.c - buckets that are full wait for one that is not: they are sent in a fixed order, and an early one holds a gradient that comes
 * late.
 *
 * Cured: the plan that DDP makes after its first iteration, gradients in the order in which they come. */
#include "doctor/replan.h"

#include <stdio.h>

/* So many points between the gradients that were complete when a bucket was sent and what the buckets up to it hold. In good order the difference is
 * the rest of one bucket. */
#define DISORDER_MIN 0.30
#define BUCKETS_MIN 3

/* The mean over all but the last of an iteration, which is always sent at the end. */
static double disorder_of(const tdmi_buckets *buckets, double *first_complete)
{
    double sum = 0, count = 0, first = 0, firsts = 0;
    for (size_t i = 0; i + 1 < buckets->count; i++) {
        if (buckets->of[i + 1].iteration != buckets->of[i].iteration)
            continue;
        sum += buckets->of[i].complete_at_send - buckets->of[i].share;
        count++;
        first += buckets->of[i].index == 0 ? buckets->of[i].complete_at_send : 0;
        firsts += buckets->of[i].index == 0;
    }
    *first_complete = firsts > 0 ? first / firsts : 0;
    return count > 0 ? sum / count : 0;
}

static tdm_status look(tdmi_case *c, const tdmi_buckets *buckets, double disorder, double first_complete, tdmi_findings *out)
{
    tdmi_finding f = {.id = "bucket_order", .rank = -1, .explains = "communication_exposed", .explains_share = 0.6};
    double left;
    const tdm_status status = tdmi_replan_gain(c, buckets, buckets->call_ns, &f.gain, &left);
    if (status != TDM_OK || f.gain.pct < TDMI_GAIN_PCT_MIN)
        return status;
    f.evidence = json_pack("{s:f, s:f, s:f, s:f}", "buckets", buckets->a_iteration, "megabytes", (double)buckets->iteration_bytes / 1e6, "disorder_points", 100 * disorder,
                           "complete_at_first_send_pct", 100 * first_complete);
    snprintf(f.text, sizeof f.text,
             "the first of %.0f buckets is sent when %.0f %% of the gradients are complete, and the others wait behind it: on average %.0f points more are complete at a send than the "
             "buckets hold",
             buckets->a_iteration, 100 * first_complete, 100 * disorder);
    snprintf(f.advice, sizeof f.advice, "%s",
             "Turn find_unused_parameters off, or set static_graph=True: DDP then rebuilds its buckets in the order in which gradients come; else register modules in the order "
             "in which forward uses them");
    tdmi_findings_add(out, &f);
    return TDM_OK;
}

void tdmi_find_bucket_order(tdmi_case *c, tdmi_findings *out)
{
    const tdmi_buckets *buckets = &c->model->buckets;
    double first_complete;
    const double disorder = disorder_of(buckets, &first_complete);
    if (buckets->a_iteration >= BUCKETS_MIN && disorder >= DISORDER_MIN)
        out->failed |= look(c, buckets, disorder, first_complete, out) != TDM_OK;
}
