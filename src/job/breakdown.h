/* breakdown.h - where the time of an iteration goes, on one rank. Exact ns; the parts of a split add up to its length. */
#ifndef TDMI_JOB_BREAKDOWN_H
#define TDMI_JOB_BREAKDOWN_H

#include "job/job.h"

#include <string.h>

/* The parts of an iteration's time. With a device:
 *   compute        some kernel that is no communication runs
 *   comm_exposed   else communication runs
 *   copy           else a copy or memset runs
 *   the rest, the device idle: data (the main thread is in the loader), sync (a thread waits for the device, or for a copy), host (what runs next was not
 *   launched yet), kernel (it was), other
 * An iteration is the host's span, but where hosts are more than an iteration ahead the device's (ahead.h).
 * Without one: compute is operators on the training threads outside of collectives and loader, comm_exposed a collective or its call under
 * way while no other operator runs, data the loader, other the rest. */
#define TDMI_PARTS_MAP(X) X(compute) X(comm_exposed) X(copy) X(data) X(sync) X(host) X(kernel) X(other)

typedef struct tdmi_split {
#define TDMI_PART_FIELD(name) int64_t name##_ns;
    TDMI_PARTS_MAP(TDMI_PART_FIELD)
#undef TDMI_PART_FIELD
    int64_t length_ns;       /* of the iteration: the sum of the parts */
    int64_t comm_overlap_ns; /* communication while computing; part of compute */
    /* On the host, overlapping all of the above: */
    int64_t loading_ns;      /* the main thread in the loader, whether the device was idle or not */
    int64_t blocked_ns;      /* training threads in calls that wait for the device */
    int64_t forward_ns, backward_ns, optimizer_ns; /* from the first to the last of each on the threads */
    /* On the device, by what launched it: */
    int64_t forward_gpu_ns, backward_gpu_ns, optimizer_gpu_ns;
    int64_t kernels;
} tdmi_split;

/* One of the times of a split, by its place: offsetof(tdmi_split, data_ns). */
static inline int64_t tdmi_split_ns(const tdmi_split *split, size_t field)
{
    int64_t ns;
    memcpy(&ns, (const char *)split + field, sizeof ns);
    return ns;
}

typedef struct tdmi_breakdown {
    tdmi_split **of;    /* [rank][iteration] */
    tdmi_split *mean;   /* [rank] over its iterations */
    size_t ranks;
} tdmi_breakdown;

tdm_status tdmi_breakdown_make(const tdmi_job *job, tdmi_breakdown *out);
void tdmi_breakdown_free(tdmi_breakdown *breakdown); /* zero-initialised is fine */

#endif
