/* forecast.h - the memory that an executor will take, before it is made: for --explain, and to check beforehand. */
#ifndef TDMI_EXEC_FORECAST_H
#define TDMI_EXEC_FORECAST_H

#include "exec/exec.h"

typedef struct tdmi_memory_forecast {
    bool one_copy;       /* parameters, copies and gathered are there once a node, else once a rank; the rest is of each rank */
    size_t parameters;   /* or the part of them that a node keeps */
    size_t copies;       /* of matrices in 16 bits */
    size_t gathered;     /* stage 3 over several nodes: units in flight */
    size_t gradients;
    size_t kept;         /* reduced slices that wait for the verdict */
    size_t state;        /* of the optimizer; 0 where it lies in a file */
    size_t codecs;       /* what they keep: errors, powersgd's factors, the signs of onebit's last averages */
    size_t travelling;   /* a compressed bucket under way */
    size_t activations;
    size_t workspace;    /* of kernels */
    size_t staging;      /* of reductions between nodes: what arrives, and sums so far of the buckets under way */
} tdmi_memory_forecast;

/* Of a training graph through the whole pipeline, on `size` ranks, `local_size` of them on each node. options: shard, optimizer,
 * offload and isa are looked at. Prepares each kernel once, to ask it. */
tdm_status tdmi_exec_forecast(const tdmi_graph *graph, const tdmi_exec_options *options, int size, int local_size,
                              tdmi_memory_forecast *out);
/* Of one rank without what a node has once; with it, as its process sees it; of a node's ranks together. */
size_t tdmi_forecast_of_rank(const tdmi_memory_forecast *forecast);
size_t tdmi_forecast_of_process(const tdmi_memory_forecast *forecast);
size_t tdmi_forecast_of_node(const tdmi_memory_forecast *forecast, int local_size);

#endif
