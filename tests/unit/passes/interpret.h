/* interpret.h - runs a graph with the plain kernels, node by node, on one rank: what tests of passes compare with. And the
 * graphs they try. */
#ifndef TESTS_PASSES_INTERPRET_H
#define TESTS_PASSES_INTERPRET_H

#include "passes/passes.h"

typedef struct machine {
    tdmi_graph *g; /* after the pipeline; borrowed */
    char *slab;
    float **parameters; /* [tensor_count]: of PARAMETERs; kept over runs */
    float **gradients;  /* [bucket_count] */
} machine;

/* Parameters and inputs get values that depend on their names alone, so that graphs of one model agree. */
machine machine_create(tdmi_graph *g);
void machine_destroy(machine *m);
/* Runs all nodes on fresh memory full of NaN; returns the loss. */
double machine_run(machine *m);
float *machine_tensor(machine *m, const char *name);
/* The gradient of a parameter after a run. */
float *machine_gradient(machine *m, tdmi_id parameter);

/* Wiring that models rarely have: a sum with itself, a weight and an activation used twice, a residual around each op,
 * a gradient that waits in shared memory while another use of its neighbour comes in, a view with two readers. */
tdmi_graph *odd_graph(void);

#endif
