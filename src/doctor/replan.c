/* replan.c - see replan.h. What was really sent takes no time and delays nothing, but for the last of each iteration: that stands for the end of
 * the plan, and the graph's PLAN links lead to it. */
#include "doctor/replan.h"

#include "core/memory.h"

/* What a call that is not made still costs the host: the gradient is written into its bucket all the same. */
#define HOST_LEFT 0.3

static tdm_status mark(const tdmi_job *job, tdmi_edits *edits, const tdmi_bucket *bucket, int64_t last_ns)
{
    const tdmi_meeting *m = &job->meeting[bucket->meeting];
    const bool goes = last_ns < 0;
    tdmi_edit edit = tdmi_edit_none(), call = tdmi_edit_none();
    uint32_t device = 0, host = 0;
    edit.device_ns = goes ? 0 : last_ns;
    edit.no_gap = goes;
    call.host = goes ? HOST_LEFT : 1;
    tdm_status status = tdmi_edits_add(edits, &edit, &device);
    if (status == TDM_OK)
        status = tdmi_edits_add(edits, &call, &host);
    for (uint32_t p = m->first; p < m->first + m->count && status == TDM_OK; p++) {
        const tdmi_part *part = &job->part[p];
        const uint32_t launch = part->gpu != TDMI_NONE ? job->rank[part->place].launch[part->gpu] : TDMI_NONE;
        tdmi_edits_mark(edits, part->place, part->event, device);
        if (launch != TDMI_NONE)
            tdmi_edits_mark(edits, part->place, launch, host);
    }
    return status;
}

static double byte_ns(const tdmi_job *job, const tdmi_buckets *buckets, double call_ns)
{
    double all_ns = 0, nbytes = 0;
    for (size_t i = 0; i < buckets->count; i++) {
        all_ns += (double)job->meeting[buckets->of[i].meeting].transfer_ns - call_ns;
        nbytes += (double)buckets->of[i].nbytes;
    }
    return all_ns > 0 && nbytes > 0 ? all_ns / nbytes : 0;
}

tdm_status tdmi_replan_gain(tdmi_case *c, const tdmi_buckets *buckets, double call_ns, tdmi_gain *out, double *left)
{
    const double per_byte = byte_ns(c->job, buckets, call_ns);
    tdmi_edits edits;
    int64_t *plan_ns = tdmi_malloc((buckets->planned + 1) * sizeof *plan_ns, "doctor");
    double iterations = 0;
    tdm_status status = plan_ns != NULL ? tdmi_edits_create(c->job, &edits) : TDM_ERR_NO_MEMORY;
    if (status != TDM_OK) {
        tdmi_free(plan_ns);
        return status;
    }
    for (size_t i = buckets->planned, next; i > 0 && status == TDM_OK; i = next) { /* each iteration from its last bucket on */
        const uint32_t last = buckets->plan[i - 1].last;
        const int64_t last_ns = (int64_t)(call_ns + per_byte * (double)buckets->plan[i - 1].nbytes);
        int64_t behind_ns = 0; /* besides the last, whose transfer comes after the moment the links lead to */
        for (next = i; next > 0 && buckets->plan[next - 1].last == last; next--) {
            behind_ns += next == i ? 0 : (int64_t)(call_ns + per_byte * (double)buckets->plan[next - 1].nbytes);
            plan_ns[next - 1] = behind_ns;
        }
        iterations++;
        status = mark(c->job, &edits, &buckets->of[last], last_ns);
        for (size_t b = last; b > 0 && buckets->of[b - 1].iteration == buckets->of[last].iteration && status == TDM_OK; b--)
            status = mark(c->job, &edits, &buckets->of[b - 1], -1);
    }
    edits.also = 1u << TDMI_DUE_PLAN;
    edits.plan_ns = plan_ns;
    if (status == TDM_OK)
        tdmi_edits_gain(&edits, c->model, out);
    *left = iterations > 0 ? (double)buckets->planned / iterations : 0;
    tdmi_edits_free(&edits);
    tdmi_free(plan_ns);
    return status;
}
