/* passes.h - graph in, graph out; pipeline.c holds their order and verifies after each.
 *
 * The nodes of a training step, after the pipeline:
 *     forward | backward with BUCKET_STARTs between its nodes | BUCKET_WAITs, VERDICT, UPDATEs, PARAMETERS_READYs
 * There is one UPDATE a bucket where it needs the verdict of all ranks (clip, uncounted) or the whole gradient (shard 0, compress). Without clip
 * and with shard 1 there is none: the update is part of the reduction, done by each slice's owner between BUCKET_START and
 * BUCKET_WAIT, and the verdict only brings the mean loss and the norm. */
#ifndef TDMI_PASSES_PASSES_H
#define TDMI_PASSES_PASSES_H

#include "graph/graph.h"
#include "passes/cost.h"

#define TDMI_BUCKET_LIST_MAX 64
#define TDMI_REMAT_AUTO (-1)

typedef struct tdmi_pipeline_options {
    bool train;             /* false: forward only (evaluation, generation): inplace and place alone */
    bool unfused;           /* every op stays a node of its own: what the fuse pass is compared with */
    tdm_dtype precision;    /* of products and gradients: F32, BF16 or F16 */
    int world_size;
    double bucket_cap_mb;   /* MiB: a bucket closes once it holds as much; a parameter larger than it is cut into parts of it */
    double first_bucket_mb; /* of the bucket that is ready first; ddp/plan.h says what 0 means for both */
    const double *bucket_list_mb; /* instead of both: of the first, the second, ... bucket; the last holds for all that follow */
    int bucket_list_count;
    bool bucket_auto;       /* instead of all: the plan whose last reduction ends first, by `cost` */
    tdmi_cost cost;         /* all zero: not known */
    int remat;              /* 0: every activation is kept; k: those inside every k-th block are computed again; or AUTO: */
    size_t memory_nbytes;   /* as few as fit into so much by */
    tdm_status (*memory_of)(void *arg, const tdmi_graph *g, size_t *nbytes_out); /* what a rank needs that runs g, finished */
    void *memory_arg;
    int micro_batches;      /* of a step; 0: one */
    bool uncounted;         /* targets may be below zero: how many count is known with the verdict, so updates wait for it */
    bool ready_late;        /* new parameters travel between ranks beside the next step's forward, not at the end of this one */
    bool clip;              /* two passes over gradients: VERDICT before the updates; else updates fuse into the reduction */
    tdm_compression compress; /* how buckets travel; onebit: warmup set */
    int shard;              /* 0: every rank updates all parameters; 1: its own slices; 2: and keeps gradients no longer than it
                               needs them; 3: and parameters (on one node: as 2, they are one copy already) */
    int parts;              /* stage 3: nodes that keep a part of the parameters each; 0 and 1: all are on one */
    int prefetch;           /* then: units of parameters that come ahead of use, at least 1 */
    const tdmi_graph *gather_as; /* forward only: the training graph whose parts of the parameters are gathered; NULL: none */
} tdmi_pipeline_options;

/* How often the nodes that autodiff will have derived run in a step; the loss becomes a mean over all of them. */
tdm_status tdmi_pass_accumulate(tdmi_graph *g, const tdmi_pipeline_options *options);
/* Products, what they read and write, and gradients in options->precision; copies of the matrices that products read. F16 adds
 * the input TDMI_LOSS_SCALE. */
tdm_status tdmi_pass_amp(tdmi_graph *g, const tdmi_pipeline_options *options);
/* Backward nodes for everything the loss depends on; gradients of parameters used twice are summed in place.
 * TDM_ERR_INVALID: no loss, or a parameter that the loss does not depend on. */
tdm_status tdmi_pass_autodiff(tdmi_graph *g);
/* Forward nodes listed again in backward, instead of keeping what they compute. */
tdm_status tdmi_pass_remat(tdmi_graph *g, const tdmi_pipeline_options *options);
/* Two nodes that pass an activation on in the cache become one, with the same bits. Training only: forward alone takes less memory with
 * each result in its input's place. */
tdm_status tdmi_pass_fuse(tdmi_graph *g, const tdmi_pipeline_options *options);
/* Element-wise results take the memory of an input that nobody reads afterwards. */
tdm_status tdmi_pass_inplace(tdmi_graph *g);
/* Parameters and gradients into buckets in the order gradients become ready, each on a cache line; BUCKET_START after the
 * last gradient and the last reader of the bucket's parameters. */
tdm_status tdmi_pass_bucket(tdmi_graph *g, const tdmi_pipeline_options *options);
/* What of compress each bucket uses, and what it sends. TDM_ERR_UNSUPPORTED names what it does not go together with. */
tdm_status tdmi_pass_compress(tdmi_graph *g, const tdmi_pipeline_options *options);
/* BUCKET_WAIT, VERDICT, UPDATE, PARAMETERS_READY in the order that options ask for. */
tdm_status tdmi_pass_shard(tdmi_graph *g, const tdmi_pipeline_options *options);
/* UPDATEs and PARAMETERS_READYs in the order of need; with ready_late the latter before the first readers in forward. */
tdm_status tdmi_pass_schedule(tdmi_graph *g, const tdmi_pipeline_options *options);
/* Stage 3 over several nodes: GATHER_START, GATHER_WAIT and RELEASE around the readers of each unit of parameters. */
tdm_status tdmi_pass_gather(tdmi_graph *g, const tdmi_pipeline_options *options);
/* Offsets of inputs, activations and outputs in one slab by lifetime, and of buckets in another; a kernel's workspace is in
 * neither. The slabs should start on a page. */
tdm_status tdmi_pass_place(tdmi_graph *g);
/* place.c calls it where there are buckets. */
tdm_status tdmi_place_gradients(tdmi_graph *g);

/* A failed pass leaves a graph that can only be destroyed. */
tdm_status tdmi_pipeline_run(tdmi_graph *g, const tdmi_pipeline_options *options);
/* The passes that follow remat, for its forecasts of memory. */
tdm_status tdmi_pipeline_behind_remat(tdmi_graph *g, const tdmi_pipeline_options *options);
/* What the passes do to a copy of g, for --explain: a line a pass, then the buckets and nodes of the result and its memory.
 * New text (tdmi_free); NULL with the error text of the pass that failed. */
char *tdmi_pipeline_explain(const tdmi_graph *g, const tdmi_pipeline_options *options);

/* The most bytes of the slab in use at once, and at which node: no placement can be smaller. After place, slab_nbytes is what
 * this one takes. 0 without memory. */
size_t tdmi_place_peak(const tdmi_graph *g, int *node_out);
/* The peak, and the largest tensors alive at it, as text (tdmi_free). */
char *tdmi_place_report(const tdmi_graph *g);

#endif
