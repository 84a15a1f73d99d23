/* kernel.h - one ops table: for each operation the plain reference, and faster kernels where they exist.
 *
 * A kernel takes its pointers in the order of op.h. prepare() does everything that allocates or decides; run() does neither,
 * so that a training step is a walk over prepared kernels. Which kernel serves a shape is a fixed table by CPU (select.c),
 * so bits do not depend on timing; and work is cut into fixed tiles, so they do not depend on the number of threads. */
#ifndef TDMI_KERNELS_KERNEL_H
#define TDMI_KERNELS_KERNEL_H

#include "graph/op.h"

typedef struct tdmi_kernel_io {
    tdmi_op op;
    tdmi_attr attr;
    int in_count, out_count;
    tdmi_shape in[TDMI_NODE_IN_MAX];   /* ndim -1: absent */
    tdmi_shape out[TDMI_NODE_OUT_MAX]; /* ndim -1: absent */
} tdmi_kernel_io;

typedef struct tdmi_kernel {
    const char *name; /* "linear/onednn", "gelu/avx512", "gelu/plain" */
    tdmi_op op;
    int isa; /* tdmi_isa that it needs at least */
    /* Whether this kernel can do this shape at all. NULL: every shape. */
    bool (*supports)(const tdmi_kernel_io *io);
    /* *state: new, for run() and release(); may be NULL. *workspace_nbytes: scratch that run() needs, 64-byte aligned.
     * NULL: neither is needed. */
    tdm_status (*prepare)(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes);
    /* Pointers in the order of op.h, NULL where absent. Called by one thread; may use OpenMP inside. */
    void (*run)(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace);
    void (*release)(void *state);
} tdmi_kernel;

/* A kernel bound to one node's shapes. */
typedef struct tdmi_bound_kernel {
    const tdmi_kernel *kernel;
    tdmi_kernel_io io;
    void *state;
    size_t workspace_nbytes;
} tdmi_bound_kernel;

/* Chooses by the table (isa: tdmi_cpu_isa() in production; PLAIN gives the reference) and prepares.
 * TDM_ERR_UNSUPPORTED names op and shapes. */
tdm_status tdmi_kernel_bind(const tdmi_kernel_io *io, int isa, tdmi_bound_kernel *out);
static inline void tdmi_kernel_run(const tdmi_bound_kernel *b, const void *const *in, void *const *out, void *workspace)
{
    b->kernel->run(b->state, &b->io, in, out, workspace);
}
void tdmi_kernel_unbind(tdmi_bound_kernel *bound);

/* All kernels that exist for an op, best first: for tests that compare each that this CPU can run with the plain one, which
 * is last. */
size_t tdmi_kernels_of(tdmi_op op, const tdmi_kernel *const **out);
/* The table in use as text for the checkpoint and --explain: "isa avx512; linear=onednn; ...". */
const char *tdmi_kernels_table(void);
/* Number of threads kernels use in this process; read from OMP_NUM_THREADS or set here before the first bind. */
void tdmi_kernels_set_threads(int threads);

#endif
