/* passes.h - graph in, graph out; pipeline.c holds their order and verifies after each. */
#ifndef TDMI_PASSES_PASSES_H
#define TDMI_PASSES_PASSES_H

#include "graph/graph.h"

typedef struct tdmi_pipeline_options {
    bool train;             /* false: forward only (evaluation, generation): place alone */
    int world_size;
    double bucket_cap_mb;   /* of the buckets after the first; a parameter is never split, so a bucket may be larger */
    double first_bucket_mb; /* of the bucket that is ready first */
    bool clip;              /* two passes over gradients: VERDICT before the updates; else updates fuse into the reduction */
    int shard;              /* 0: every rank updates all parameters; 1: its own slices */
} tdmi_pipeline_options;

/* Backward nodes for everything the loss depends on; gradients of parameters used twice are summed in place. */
tdm_status tdmi_pass_autodiff(tdmi_graph *g);
/* Parameters and gradients into buckets in the order gradients become ready; BUCKET_START after the last gradient and the
 * last reader of the bucket's parameters. */
tdm_status tdmi_pass_bucket(tdmi_graph *g, const tdmi_pipeline_options *options);
/* BUCKET_WAIT, VERDICT, UPDATE, PARAMETERS_READY in the order that options ask for. */
tdm_status tdmi_pass_shard(tdmi_graph *g, const tdmi_pipeline_options *options);
/* Offsets of all activations in one slab by lifetime. */
tdm_status tdmi_pass_place(tdmi_graph *g);

tdm_status tdmi_pipeline_run(tdmi_graph *g, const tdmi_pipeline_options *options);

#endif
