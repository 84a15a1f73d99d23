/* interpret.h - runs a graph with the plain kernels, node by node, on one rank: what tests of passes compare with. And the
 * graphs they try. */
#ifndef TESTS_PASSES_INTERPRET_H
#define TESTS_PASSES_INTERPRET_H

#include "passes/passes.h"

typedef struct machine {
    tdmi_graph *g; /* after the pipeline; borrowed */
    char *slab;
    float **parameters; /* [tensor_count]: of PARAMETERs; kept over runs */
    void **copies;      /* [tensor_count]: of COPYs, of the parameters at the start */
    char *gradients;    /* all buckets, one after the other */
} machine;

/* Parameters and inputs get values that depend on their names alone, so that graphs of one model agree. */
machine machine_create(tdmi_graph *g);
void machine_destroy(machine *m);
/* Runs all nodes on fresh memory full of NaN; returns the loss. */
double machine_run(machine *m);
float *machine_tensor(machine *m, const char *name);
/* The gradient of a parameter after a run, of type float32; and an element of it, of any. */
float *machine_gradient(machine *m, tdmi_id parameter);
double machine_gradient_element(machine *m, tdmi_id parameter, size_t i);
#define MACHINE_LOSS_SCALE 1024.0 /* of a graph in float16 */

/* Wiring that models rarely have: a sum with itself, a weight and an activation used twice, a residual around each op,
 * a gradient that waits in shared memory while another use of its neighbour comes in, a view with two readers. */
tdmi_graph *odd_graph(void);

#endif
