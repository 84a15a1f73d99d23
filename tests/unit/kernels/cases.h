/* cases.h - nodes of any op with random contents, for tests that run one kernel or compare two. */
#ifndef TESTS_KERNELS_CASES_H
#define TESTS_KERNELS_CASES_H

#include "kernels/kernel.h"

/* Sizes with the letters of op.h; N rows are B x T. */
typedef struct {
    int64_t B, T, C, H, V, P, I, O;
    bool no_bias;        /* LINEAR without b, LINEAR_BACKWARD_WEIGHT without db */
    bool no_positions;   /* EMBEDDING without wpe, its backward without dwpe */
    uint32_t accumulate; /* attr.accumulate */
    int micro_batches;   /* CROSS_ENTROPY; 0: 1 */
    bool ignored;        /* CROSS_ENTROPY: every third target, from the second on, does not count */
    tdm_dtype type, gradient; /* t and g of op.h; 0: float32 */
    float spread;        /* inputs are uniform in -spread..spread; 0: 1 */
} case_sizes;

typedef struct {
    tdmi_kernel_io io;
    void *in[TDMI_NODE_IN_MAX], *out[TDMI_NODE_OUT_MAX]; /* each a block of its own; NULL where absent */
} node_case;

/* A node of this op with random inputs and outputs (what accumulation adds to). Inputs that a forward op computes (mean, rstd,
 * lse, y) are computed with plain kernels. The same seed gives the same contents. Asserts on failure. */
void case_create(node_case *c, tdmi_op op, const case_sizes *sizes, unsigned seed);
void case_destroy(node_case *c);
/* Runs `kernel` once, bound to this node alone. */
void case_run(node_case *c, const tdmi_kernel *kernel);
/* The plain kernel of an op. */
const tdmi_kernel *case_plain(tdmi_op op);
/* Uniform in -1..1. */
float case_random(unsigned *seed);

#endif
