/* graph.h - a job's dependency graph, and what the job would take with some of it changed.
 *
 *   host     calls of a thread in their order; a thread that goes on where another stopped (backward runs on autograd's thread)
 *   device   launch call -> kernel; kernels of a stream in their order; a stream that waits for another's event
 *   ranks    a collective ends everywhere once its last rank has joined, and the transfer is over
 *   waiting  the host for the device (item(), copies to the host, synchronize), a launch call for a place in the stream's queue
 *
 * A trace shows few of these waits by name. Where it does not they are taken from what PyTorch does: NCCL's stream waits for what was
 * launched before on the stream that computes, the optimizer for all collectives. One that contradicts the measured times is left out. */
#ifndef TDMI_JOB_GRAPH_H
#define TDMI_JOB_GRAPH_H

#include "job/buckets.h"
#include "job/job.h"
#include "job/replay.h"

typedef struct tdmi_model {
    const tdmi_job *job;
    tdmi_graph *graph;
    uint32_t **end_node;     /* [rank][iterations + 1]: 0 the start of the first, i + 1 the end of i: host and device are done with it */
    uint32_t *joined;        /* [meetings] the last rank is there; TDMI_NONE: not lined up */
    int64_t *time;           /* [nodes], of the replay under way */
    size_t first_steady;     /* iterations before it are not counted: what came before the trace shows in them */
    int64_t now_ns;          /* an iteration as measured: the mean of the steady ones over all ranks */
    double replay_error_pct; /* of the unchanged replay against now_ns */
    tdmi_buckets buckets;    /* of the job */
    size_t cut;              /* nodes that lost links because of a circle */
    int64_t **spent;         /* [rank][iteration * TDMI_DUES + due]: what the links add up to */
} tdmi_model;

/* What a job would gain. */
typedef struct tdmi_gain {
    int64_t without_ns;      /* an iteration then */
    double pct;              /* 100 x (now - without) / now */
    double low, high;        /* over the iterations, with what the method itself is unsure of */
} tdmi_gain;

/* TDM_ERR_NO_MEMORY is the only error. Borrows the job. */
tdm_status tdmi_model_create(const tdmi_job *job, tdmi_model **out);
void tdmi_model_free(tdmi_model *model); /* NULL is fine */

/* Replays with a change of links. Cost: a pass over all links, about 10 ms a million. */
void tdmi_model_what_if(tdmi_model *model, const tdmi_variation *variation, tdmi_gain *out);

/* What a rank's links of one kind add up to in an iteration, the mean of the steady ones. Links that hold nothing back count too. */
int64_t tdmi_model_spent(const tdmi_model *model, size_t place, tdmi_due due);

/* A ready change: multiplies the links of one kind, on one rank or all. arg: const tdmi_scaling *. */
typedef struct tdmi_scaling {
    double factor[TDMI_DUES]; /* 1: stays */
    int rank;                 /* place; -1: all */
} tdmi_scaling;
int64_t tdmi_scale(const tdmi_link *link, const void *arg);
/* All factors 1. */
tdmi_scaling tdmi_scaling_none(void);

#endif
