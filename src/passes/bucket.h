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
    const char *block;    /* where units are gathered: the parameter's name, else NULL */
    size_t block_length;  /* of the part of it that names a block of the model; 0: it is in none */
    int reads;            /* then: bit 0, nodes read the parameter; bit 1, its 16-bit copy */
} bucket_item;

/* bucket_plan.c. Items of all parameters: *out new (tdmi_free). */
tdm_status bucket_items(const tdmi_graph *g, const tdmi_pipeline_options *options, bucket_item **out, int *count);
/* Which bucket each goes into; *buckets: how many there are. */
tdm_status bucket_plan(const tdmi_graph *g, const tdmi_pipeline_options *options, const bucket_item *items, int count,
                       int *bucket_of, int *buckets);
/* Parts of a parameter end at multiples of this, so that a bucket may end there without padding. */
size_t bucket_quantum(int world_size);

/* bucket_units.c */
size_t bucket_block_length(const char *parameter);
/* Parameters of a block that are read alike, in 16 bits or not, behind each other. */
void bucket_sort_by_reads(const tdmi_graph *g, bucket_item *items, int count);
/* As tdmi_plan_buckets, for items with blocks: a bucket ends where the block does, and holds what is read alike. */
int bucket_plan_units(const bucket_item *items, const size_t *nbytes, int count, const size_t *caps, int cap_count, int *bucket_of);
/* Gives each bucket its unit: one a block, or, in a model without blocks, one a bucket. */
void bucket_number_units(tdmi_graph *g, const bucket_item *items, int count, const int *bucket_of);

#endif
