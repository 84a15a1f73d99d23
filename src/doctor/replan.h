/* replan.h - a DDP job with the buckets that DDP makes by default, for the findings about buckets. */
#ifndef TDMI_DOCTOR_REPLAN_H
#define TDMI_DOCTOR_REPLAN_H

#include "doctor/edits.h"
#include "job/buckets.h"

/* What the job would gain if its gradients went in the order in which they come, 1 MB first, then 25 MB, each bucket when its last
 * gradient is ready on every rank, and if a transfer took call_ns and the time of its bytes. In *left how many buckets an iteration has then. */
tdm_status tdmi_replan_gain(tdmi_case *c, const tdmi_buckets *buckets, double call_ns, tdmi_gain *out, double *left);

#endif
