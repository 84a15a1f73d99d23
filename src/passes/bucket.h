/* bucket.h - what the files of the bucket pass share. */
#ifndef TDMI_PASSES_BUCKET_H
#define TDMI_PASSES_BUCKET_H

#include "passes/passes.h"

/* What is never cut: a parameter, or a part of a large one; in the order gradients become ready. */
typedef struct bucket_item {
    tdmi_id parameter;
    int node, output;     /* that complete its gradient */
    int free;             /* the last node that writes its gradient or reads the parameter: then its bucket may start */
    size_t within, count; /* elements of the parameter before it; its own */
} bucket_item;

/* bucket_plan.c. Items of all parameters: *out new (tdmi_free). */
tdm_status bucket_items(const tdmi_graph *g, const tdmi_pipeline_options *options, bucket_item **out, int *count);
/* Which bucket each goes into; *buckets: how many there are. */
tdm_status bucket_plan(const tdmi_graph *g, const tdmi_pipeline_options *options, const bucket_item *items, int count,
                       int *bucket_of, int *buckets);
/* Parts of a parameter end at multiples of this, so that a bucket may end there without padding. */
size_t bucket_quantum(int world_size);

#endif
