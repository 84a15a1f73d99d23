/* cost.h - what nodes and reductions take, estimated from shapes and a few numbers about the machine: for plans that are made
 * before the first step. An estimate need not be right to be useful: what counts is what is longer than what. */
#ifndef TDMI_PASSES_COST_H
#define TDMI_PASSES_COST_H

#include "graph/graph.h"

/* All zero: not known. */
typedef struct tdmi_cost {
    double flops_per_s;     /* of matrix products */
    double bytes_per_s;     /* of all other nodes: what they read and write */
    double alpha_s, beta_s; /* the reduction of a bucket: alpha_s + bytes x beta_s */
} tdmi_cost;

/* 0 for communication and updates. */
double tdmi_cost_of_node(const tdmi_graph *g, const tdmi_node *n, const tdmi_cost *cost);
double tdmi_cost_of_bucket(const tdmi_graph *g, int bucket, const tdmi_cost *cost);

/* A step of a graph with buckets, from the begin of its last micro-batch, in seconds. Reductions run beside the nodes. */
typedef struct tdmi_step_forecast {
    double computed_s; /* the last forward or backward node ends */
    double reduced_s;  /* the last reduction ends */
} tdmi_step_forecast;
tdmi_step_forecast tdmi_cost_forecast(const tdmi_graph *g, const tdmi_cost *cost);

#endif
