/* exec.h - runs a finished graph: every pointer bound, every kernel prepared, nothing left to decide or to allocate.
 *
 * Training walks the nodes in order. A bucket's reduction starts at its BUCKET_START node and advances between the compute
 * nodes that follow, and inside them between tiles; the optimizer updates this rank's slices; PARAMETERS_READY is where
 * ranks meet before the next step.
 * The ranks of a node share one copy of the parameters, each slice written by its owner (sharing.c). */
#ifndef TDMI_EXEC_EXEC_H
#define TDMI_EXEC_EXEC_H

#include "graph/graph.h"
#include "optim/grad_scaler.h"
#include "optim/optimizer.h"
#include "trace/trace.h"

#include <tandem/collective.h>

#include <stdatomic.h>

typedef struct tdmi_exec tdmi_exec;

#define TDMI_GROUPS_MAX 8
/* What the parameters of one tdmi_tensor.group have of their own. */
typedef struct tdmi_exec_group {
    double lr_factor, weight_decay;
} tdmi_exec_group;

typedef struct tdmi_exec_options {
    tdm_group *group;           /* borrowed; NULL: no communication (evaluation, generation) */
    tdmi_exec *parameters_of;   /* use this executor's parameters (found by name), it must outlive this one; NULL: own */
    tdmi_optimizer optimizer;   /* of a training graph */
    tdmi_exec_group group_of[TDMI_GROUPS_MAX]; /* by tdmi_tensor.group, */
    int groups;                 /* so many; 0: all parameters are in group 0, which is as `optimizer` says */
    int shard;                  /* as the pipeline was told */
    const char *offload;        /* a folder: optimizer state lies in a file there instead of in memory; NULL: none */
    double clip;                /* largest gradient norm; 0: the graph was made without clipping */
    tdmi_grad_scaler *scaler;   /* of a graph in float16: borrowed, updated by each step; else NULL */
    int isa;                    /* tdmi_cpu_isa() */
    void (*draw)(void *arg, uint8_t *mask, size_t count, float p); /* fills a dropout mask, in the order of counters */
    void *draw_arg;             /* plain bytes: */
    size_t draw_nbytes;         /* that are copied before and put back for a mask that is drawn again; 0: none is */
    tdm_status (*feed)(void *arg, int micro_batch); /* fills the INPUTs before each micro-batch; NULL: they are in place */
    void *feed_arg;
    tdmi_trace *trace;          /* borrowed; NULL: none */
    const atomic_int *interrupt; /* non-zero: a step ends between two nodes with TDM_ERR_INTERRUPTED; NULL: never */
} tdmi_exec_options;

/* The graph is borrowed and must outlive the executor. Collective where there is a group. */
tdm_status tdmi_exec_create(const tdmi_graph *graph, const tdmi_exec_options *options, tdmi_exec **out);
void tdmi_exec_destroy(tdmi_exec *exec);

/* Memory of a tensor: INPUT, PARAMETER, OUTPUT or GRADIENT; NULL for others, and for parameters that are gathered. */
void *tdmi_exec_memory(tdmi_exec *exec, tdmi_id tensor);
/* The memory of all gradients, of a training graph: between steps it is anybody's who leaves zeros behind. */
float *tdmi_exec_gradient_room(tdmi_exec *exec, size_t *count_out);
/* Whether the ranks of this node share one copy of the parameters. */
bool tdmi_exec_shares_parameters(const tdmi_exec *exec);
/* Stage 3: how many nodes keep a part of the parameters each; 1: all ranks are on one, or of another stage. Collective. */
tdm_status tdmi_exec_parts(tdm_group *group, int shard, int *parts_out);
/* The graph, where its parameters are gathered as nodes read them: then graphs on them gather too, and all ranks run those
 * together; else NULL. */
const tdmi_graph *tdmi_exec_gathers(const tdmi_exec *exec);

typedef struct tdmi_step_result {
    double loss;      /* mean over all targets that count, of all ranks and micro-batches */
    double own_loss;  /* of this rank's */
    double grad_norm; /* of the averaged gradient, before clipping */
    bool stop;        /* some rank asked to stop */
    bool skipped;     /* float16: the scaled gradient was not finite, so no rank has updated anything */
    bool decided;     /* the verdict was reached: what it says, all ranks return */
    uint64_t sent_nbytes;  /* that this rank gave to others: gradients and parameters; an allreduce of D bytes counts 2 (n-1)/n D */
    uint64_t plain_nbytes; /* the same for an allreduce of all gradients in float32 */
    int64_t data_ns, forward_ns, backward_ns, optimizer_ns; /* data: the feed */
    int64_t comm_ns;         /* time during which a collective was under way */
    int64_t comm_exposed_ns; /* the part of it in which this rank computed nothing; updating while reducing is computing */
} tdmi_step_result;

/* One training step. Forward and backward nodes run once a micro-batch, gradients add up, and the last one's start the
 * reductions: micro_batches is the same on all ranks, at most the graph's, fewer in an epoch's last step. step counts from 1
 * (bias correction); ask_stop travels to all ranks with the verdict. TDM_ERR_NOT_FINITE: nothing was updated. All ranks return it together (decided); the text of a rank
 * whose own_loss is not finite has rank, node and step. Where updates go along with the reduction (sharded, no clipping) such
 * a rank aborts the group before its gradient is used, and the others get TDM_ERR_ABORTED with its text. */
tdm_status tdmi_exec_step(tdmi_exec *exec, int64_t step, int micro_batches, double lr, bool ask_stop, bool traced,
                          tdmi_step_result *out);
/* Events that a traced step of this graph on so many ranks adds to the timeline, at most. */
size_t tdmi_exec_step_events(const tdmi_graph *graph, int ranks);
/* Where the graph has PARAMETERS_READY nodes in forward: new parameters are whole before the next step, for others to read.
 * Collective. */
tdm_status tdmi_exec_settle(tdmi_exec *exec);
/* Forward nodes only; the loss, where there is one, is this rank's. */
tdm_status tdmi_exec_forward(tdmi_exec *exec, float *loss_out);

/* Optimizer state in flat slices, for checkpoints. Visits the parts of each parameter that this rank updates:
 * [first, first + count) of parameter tensor `id`, with its values; moment[k] of tdmi_optimizer_moments(), NULL beyond. */
typedef tdm_status (*tdmi_exec_visit)(void *arg, tdmi_id parameter, size_t first, size_t count, float *values, float *const *moment);
tdm_status tdmi_exec_visit_state(tdmi_exec *exec, tdmi_exec_visit visit, void *arg);
/* Visits what this rank has to fill with first or loaded values, so that every copy is filled: all parameters, the node's part
 * of them, or nothing, where another rank fills the shared copy. moment is NULL. Others see them after a publish. */
tdm_status tdmi_exec_visit_parameters(tdmi_exec *exec, tdmi_exec_visit visit, void *arg);
/* The same for one parameter whose values are all at hand. */
void tdmi_exec_set_parameter(tdmi_exec *exec, tdmi_id parameter, const float *values);
/* Whether this rank is the one that saves what visit_state shows it: replicas are saved once. All load. */
bool tdmi_exec_owns_state(const tdmi_exec *exec);
/* State of the codecs, piece by piece of parameters: what this rank has not sent (RESIDUAL), what the averages that it makes have
 * not (SERVED, each part on one rank), and the factors of PowerSGD for the piece that begins there (FACTOR, equal on all ranks,
 * `count` numbers). Nothing where nothing is compressed. */
typedef enum { TDMI_CODEC_RESIDUAL, TDMI_CODEC_SERVED, TDMI_CODEC_FACTOR } tdmi_codec_state;
typedef tdm_status (*tdmi_exec_codec_visit)(void *arg, tdmi_codec_state what, tdmi_id parameter, size_t first, size_t count, float *values);
tdm_status tdmi_exec_visit_codecs(tdmi_exec *exec, tdmi_exec_codec_visit visit, void *arg);
/* The commit word: false while, or after a death during which, some rank was between the first and the last write of an
 * update. Nobody may save or go on then. */
bool tdmi_exec_is_consistent(const tdmi_exec *exec);
/* Makes parameters written by this rank visible to all, and their copies of 16 bits: after initialising or loading. Collective. */
tdm_status tdmi_exec_publish_parameters(tdmi_exec *exec);

size_t tdmi_exec_slab_nbytes(const tdmi_exec *exec);

#endif
