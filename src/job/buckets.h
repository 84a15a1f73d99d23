/* buckets.h - DDP's buckets as they went: when the backward pass had completed which share of the gradients, and when what was sent. */
#ifndef TDMI_JOB_BUCKETS_H
#define TDMI_JOB_BUCKETS_H

#include "job/job.h"

/* A gradient that the backward pass of a rank has completed (AccumulateGrad). */
typedef struct tdmi_gradient {
    uint32_t iteration;
    uint32_t gpu;    /* place in gpu[] of the last kernel of the computing stream launched by then: it is complete when that ends; TDMI_NONE */
    int64_t ns;      /* the host is done with it; the job's clock */
    double share;    /* of the iteration's gradients complete by now, itself included: bytes where shapes were recorded, else all count the same */
} tdmi_gradient;

typedef struct tdmi_bucket {
    uint32_t meeting;
    uint32_t iteration;      /* of the rank of its first part */
    uint32_t index;          /* in its iteration */
    int64_t nbytes;
    double share;            /* of the iteration's bytes sent by now, itself included */
    double complete_at_send; /* share of the gradients complete when it was launched, the mean of the ranks */
} tdmi_bucket;

/* A bucket of the plan that DDP makes by default: gradients in the order in which they come, 1 MB first, then 25 MB. */
typedef struct tdmi_planned {
    uint32_t last;  /* the bucket that was sent last in this iteration */
    double share;   /* of the iteration's gradients that must be complete */
    int64_t nbytes;
} tdmi_planned;

typedef struct tdmi_buckets {
    tdmi_gradient **gradient; /* [rank], by time */
    size_t *gradients;        /* [rank] */
    size_t ranks;
    tdmi_bucket *of;          /* by time */
    size_t count;
    tdmi_planned *plan;       /* by iteration, then in order */
    size_t planned;
    double a_iteration;       /* how many there are in one, the mean */
    int64_t iteration_bytes;  /* the mean */
    int64_t median_bytes, largest_bytes;
    /* transfer time = call_ns + byte_ns x bytes, a line through the job's transfers of different sizes */
    double call_ns, byte_ns;
    bool line_known;          /* false: they have all the same size, and call_ns is TDMI_USUAL_CALL_NS or what there is */
} tdmi_buckets;

/* What a collective costs besides its bytes, where the trace cannot tell: NCCL between eight GPUs of a host takes 15 to 30 us, over a network 30 to 60. */
#define TDMI_USUAL_CALL_NS 30000

/* All-reduces of the largest group that are called while a gradient is accumulated. TDM_ERR_NO_MEMORY is the only error; a job without any has count 0. */
tdm_status tdmi_buckets_find(const tdmi_job *job, tdmi_buckets *out);
void tdmi_buckets_free(tdmi_buckets *buckets); /* zero-initialised is fine */

/* The gradient of a rank and iteration with which `share` of them is complete; NULL. */
const tdmi_gradient *tdmi_gradient_at(const tdmi_buckets *buckets, size_t place, uint32_t iteration, double share);
/* The engine's row of such a node, or the node itself, by its name. */
bool tdmi_is_accumulation(const char *name);
/* Of them complete at a moment. */
double tdmi_gradients_complete(const tdmi_buckets *buckets, size_t place, uint32_t iteration, int64_t ns);

/* DDP's default size of a bucket. */
#define TDMI_BUCKET_BYTES ((int64_t)25 << 20)

#define TDMI_FIRST_BUCKET_BYTES ((int64_t)1 << 20)

#endif
