/* internal.h - what the files of exec/ share: the bound step. */
#ifndef TDMI_EXEC_INTERNAL_H
#define TDMI_EXEC_INTERNAL_H

#include "ddp/reducer.h"
#include "exec/exec.h"
#include "kernels/kernel.h"

/* One node with its pointers; name is "label op", or "bucket 3 wait", for timelines and messages. */
typedef struct exec_node {
    tdmi_op op;
    tdmi_phase phase;
    int bucket;
    size_t place, copy_place; /* GATHER_START: bytes from the start of the parameters' slab */
    bool meets;               /* GATHER_START, GATHER_WAIT: the ranks of the node meet here */
    bool has_kernel;
    tdmi_bound_kernel bound;
    int copy;                 /* DRAW_MASK: where the generator's state is kept for a draw that is repeated, or -1 */
    bool draws_again;         /* it is the repetition */
    bool adds;                /* it writes gradients, and a step may have several micro-batches */
    tdmi_bound_kernel adding; /* then: the kernel that adds to them, for all micro-batches but the first */
    const void *in[TDMI_NODE_IN_MAX];
    void *out[TDMI_NODE_OUT_MAX];
    char *name;
} exec_node;

#define EXEC_BUCKET_NAME 48

/* The part of a bucket that one parameter holds. */
typedef struct exec_segment {
    tdmi_id parameter;
    size_t first, count; /* elements from the start of the bucket */
    size_t within;       /* elements of the parameter before: of one that begins in an earlier bucket */
    bool decay;
    int group;   /* of the optimizer's settings */
    bool copied; /* it has a copy of 16 bits */
} exec_segment;

typedef struct exec_bucket {
    size_t count;                   /* elements, padded */
    size_t slice_first, slice_count; /* the part this rank updates */
    float *part;                    /* [part_count]: the parameters from part_first on; all of them unless they are gathered */
    size_t part_first, part_count;
    float *moment[TDMI_MOMENTS_MAX]; /* [slice_count], in: */
    float *held[TDMI_MOMENTS_MAX];   /* the slice, or with onebit the whole bucket [count]; NULL where it is offloaded */
    exec_segment *segment;          /* sorted by first */
    int segment_count;
    char name[EXEC_BUCKET_NAME];    /* of its reduction, in timelines */
    char gather_name[EXEC_BUCKET_NAME];
    tdm_work *gathering;            /* all-gather of its parameters under way, or NULL */
    tdm_work *gathering_copies;     /* and of their copies in 16 bits */
    int64_t gather_started_ns, gather_done_ns;
    bool awaited;                   /* late: new parameters that nobody may read yet */
    double squares;                 /* of the step's reduced gradient in this rank's slice */
} exec_bucket;

struct tdmi_exec {
    const tdmi_graph *graph;
    tdmi_exec_options options;
    int rank, size; /* of the group; 0 and 1 without one */

    void **memory; /* of each tensor; NULL where it has none */
    char *slab, *workspace;
    char *draw_copies; /* states of the generator; NULL: no mask is drawn again */
    exec_node *node;
    int loss_node; /* that makes the loss, or -1 */
    int body; /* nodes up to the last backward one: run once a micro-batch */
    exec_bucket *bucket; /* graph->bucket_count */
    tdm_reducer *reducer;
    float *parameters;     /* own parameters, or parts: all buckets, one after the other; NULL with parameters_of */
    uint16_t *copies;      /* element by element beside `parameters`, of copy_type; NULL: none, or those of parameters_of */
    tdm_dtype copy_type;
    bool shared;           /* `parameters` is one copy for the node */
    int parts, part;       /* stage 3: nodes that keep a part each, and which is this one's; else 1 and 0 */
    char *gathered;        /* what nodes read, where parameters are gathered; else NULL */
    size_t gathered_nbytes; /* 0: it is another executor's */
    tdm_group *node_group; /* with several nodes: the ranks of this one; else NULL */
    tdm_group *leaders;    /* with several nodes: the first rank of each, on those ranks; else NULL */
    void *offloaded;       /* optimizer state of all buckets in a file, or NULL */
    size_t offloaded_nbytes;
    int64_t warmup;        /* steps in which buckets travel plainly, before those with codecs */
    bool onebit;           /* then momenta travel, and buckets hold them from start to update: */
    bool frozen;           /* the warm-up of onebit is over */
    double *verdict;       /* VERDICT_COUNT numbers that all ranks add up */
    _Atomic uint64_t *commit; /* one word a rank of the node, shared: 2 step + 1 inside the update of a step, 2 step after it */
    int commit_count, commit_own;

    int *late;      /* buckets whose PARAMETERS_READY stands in forward, in their order */
    int late_count;
    int gathers;    /* of them under way on this rank */
    bool unmet;     /* ranks with one copy of the parameters have not met since the last update */

    /* the step under way */
    int micro_batches, micro_batch; /* of it; the one that runs */
    double loss_sum;                /* of the micro-batches so far, on this rank */
    int64_t rows, counted;          /* targets in them; those that are not negative */
    tdmi_optimizer_step update[TDMI_GROUPS_MAX]; /* by group of parameters */
    float grad_scale;
    uint64_t sent;         /* bytes, beside the reducer's, since the start */
    int in_flight;         /* reductions and gathers started and not waited for */
    float *loss_scale;     /* the input of a graph in float16, else NULL */
    bool skip;             /* the verdict: nothing is updated in this step */
    bool pieces;           /* a reduction hands on its slice piece by piece; where memory is not shared that takes a copy, which
                              only updates inside reductions are worth */
    bool fused;            /* the graph has no UPDATE nodes: updates run inside the reduction */
    int64_t exposed_ns;
    int64_t inside_ns;     /* of advance() without updates, not yet in exposed_ns */
    int64_t updating_ns;   /* of updates inside reductions, not yet in the step's optimizer time */
    tdm_status inside;     /* what went wrong there */
    const char *bad_own_op; /* the node of a user's own op whose gradient is not finite, and where; NULL: none in this step */
    size_t bad_own_op_at;
    char bad_loss[TDMI_ERROR_TEXT_MAX]; /* what is wrong with this rank's loss; empty: nothing */
};

enum { VERDICT_LOSS, VERDICT_ROWS, VERDICT_SQUARES, VERDICT_STOP, VERDICT_COUNT };

/* step.c: how many nodes run once a micro-batch. */
int exec_body(const tdmi_graph *graph);
/* bind.c */
tdm_status exec_bind(tdmi_exec *exec);
bool exec_is_compute(tdmi_op op); /* done by a kernel */
tdmi_kernel_io exec_io_of(const tdmi_graph *graph, const tdmi_node *node);
/* Makes it that of the kernel which adds to the node's gradients, from the second micro-batch on; false if it writes none. */
bool exec_io_adds(const tdmi_graph *graph, const tdmi_node *node, tdmi_kernel_io *io);
void exec_unbind(tdmi_exec *exec);
/* Zeroed memory in huge pages where the kernel grants them. */
void *exec_page_memory(size_t nbytes, const char *label);
/* copies.c: their memory, beside `elements` parameters that are bound already. */
tdm_status exec_bind_copies(tdmi_exec *exec, size_t elements);
/* Copies of parameters [first, first + count) of a bucket that were written without them. */
void exec_copy_range(tdmi_exec *exec, int bucket, size_t first, size_t count);
/* All copies, shared out among the ranks that share them. */
void exec_copy_own_share(tdmi_exec *exec);
/* sharing.c: whether the ranks of a node share one copy of the parameters, and the groups that keep the copies equal. */
tdm_status exec_share(tdmi_exec *exec);
void exec_unshare(tdmi_exec *exec);
/* Memory of all buckets' parameters, or of this node's parts of them. */
tdm_status exec_place_parameters(tdmi_exec *exec);
/* Every rank of the node sees what all ranks of all nodes have written to their slices. */
tdm_status exec_sharing_meet(tdmi_exec *exec);
/* gather.c: the slab; where the readers behind this node find the parameters of its bucket; which nodes are meetings. */
tdm_status exec_bind_gathered(tdmi_exec *exec);
void exec_unbind_gathered(tdmi_exec *exec);
void exec_bind_arrival(tdmi_exec *exec, const tdmi_node *node);
void exec_mark_meetings(tdmi_exec *exec);
tdm_status exec_gather_begin(tdmi_exec *exec, const exec_node *node);
tdm_status exec_gather_end(tdmi_exec *exec, const exec_node *node);
tdm_status exec_gathers_advance(tdmi_exec *exec);
/* offload.c: optimizer state of all buckets into a file of options.offload; what an update has left there. */
tdm_status exec_offload(tdmi_exec *exec);
void exec_offload_end(tdmi_exec *exec);
void exec_offload_left(tdmi_exec *exec, int bucket);
/* own_op.c: what a user's backward function has written must be finite. */
tdm_status exec_own_op_look(tdmi_exec *exec, const exec_node *node, int64_t step);
tdm_status exec_own_op_fail(const tdmi_exec *exec, int64_t step);
/* update.c: what a group's parameters are updated with, and its learning rate; all groups, once grad_scale is known. */
int exec_groups(const tdmi_exec *exec);
tdmi_optimizer exec_group_optimizer(const tdmi_exec *exec, int group, double *lr);
void exec_update_begin(tdmi_exec *exec, int64_t step, double lr, float grad_scale);
void exec_update_range(tdmi_exec *exec, int bucket, size_t first, size_t count, const float *gradient);
/* The whole slice, from its reduced gradient. */
void exec_update_slice(tdmi_exec *exec, int bucket);
/* The part of [first, first + count) that a segment holds: elements *at to *at + result. */
size_t exec_piece(const exec_segment *segment, size_t first, size_t count, size_t *at);
/* Elements [at, at + count) of a gradient of the graph's type, as float32: itself, or `cell` filled; count <= EXEC_CELL. */
const float *exec_widened(tdmi_exec *exec, const void *gradient, size_t at, size_t count, float *cell);
enum { EXEC_CELL = 1024 };
/* Zeroes between and behind the gradients of a bucket, where another bucket in this memory has left something. */
void exec_clear_gaps(tdmi_exec *exec, int bucket);
/* Of all buckets, in their order: which reduction ended first does not show. */
double exec_sum_of_squares(const tdmi_exec *exec);
double exec_squares_of_slice(tdmi_exec *exec, int bucket);
tdm_status exec_gather_start(tdmi_exec *exec, int bucket);
tdm_status exec_parameters_ready(tdmi_exec *exec, int bucket);
void exec_commit_begin(tdmi_exec *exec, int64_t step);
void exec_commit_end(tdmi_exec *exec, int64_t step);
/* late.c: once nodes are bound; at the end of a step; beside computation; at a PARAMETERS_READY in forward; at the end. */
tdm_status exec_bind_late(tdmi_exec *exec);
bool exec_gathers_own_copies(const tdmi_exec *exec);
tdm_status exec_late_begin(tdmi_exec *exec);
tdm_status exec_late_advance(tdmi_exec *exec);
tdm_status exec_late_ready(tdmi_exec *exec, int bucket, tdmi_trace *trace, int64_t step);
void exec_late_drain(tdmi_exec *exec);
/* draw.c: once nodes are bound; and a DRAW_MASK node. */
tdm_status exec_bind_draws(tdmi_exec *exec);
void exec_draw(tdmi_exec *exec, const exec_node *node);
/* onebit.c: once the warm-up is over all ranks get the moments of all slices, and codecs are on. */
tdm_status exec_onebit_begin(tdmi_exec *exec, int64_t step, double lr);
tdm_status exec_onebit_bind(tdmi_exec *exec); /* once the reducer is committed */
void exec_onebit_start(tdmi_exec *exec, int bucket); /* the gradients of a bucket are there, its reduction is next */
double exec_onebit_squares(tdmi_exec *exec, int bucket); /* of this rank's slice, reduced, in the warm-up and behind it */
void exec_onebit_update(tdmi_exec *exec, int bucket);
/* codec.c: before the reducer's commit; on or off for a step. Bytes that this rank has sent so far; that float32 gradients take a step. */
tdm_status exec_register_buckets(tdmi_exec *exec);
bool exec_has_onebit(const tdmi_graph *graph);
tdm_status exec_codecs_begin(tdmi_exec *exec, int64_t step);
uint64_t exec_sent(const tdmi_exec *exec);
uint64_t exec_plain_bytes(const tdmi_exec *exec);
/* verdict.c: before the first micro-batch; behind the node of the loss in each; and what all ranks say of the step. */
void exec_loss_begin(tdmi_exec *exec);
tdm_status exec_loss_take(tdmi_exec *exec, const exec_node *node, int64_t step);
double exec_short_factor(const tdmi_exec *exec);
tdm_status exec_verdict(tdmi_exec *exec, double lr, int64_t step, bool ask_stop, tdmi_step_result *out);
/* diagnose.c: the text of a loss that is not finite, found by running the forward nodes again; returns the status. */
tdm_status exec_not_finite(tdmi_exec *exec, int64_t step, float loss);

#endif
