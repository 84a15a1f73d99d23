/* op.h - the operations of a training step, with the shapes they take.
 *
 * B batch, T time, N rows (B T, or any leading dimensions), C width, H heads, V vocabulary, P positions, I in, O out.
 * Contiguous, row major. An input in [] may be absent (-1 in the graph, NULL in a kernel). An output marked += is added to
 * when its bit in attr.accumulate is set, else overwritten.
 *
 * Types: f32 unless said. t is f32, bf16 or f16, one type for all operands of a node marked so; g is such a type for the
 * gradients of parameters, its own. Whatever the types, sums and functions are computed in f32 and rounded once, to nearest even
 * (products of bf16 on processors that have them multiply bf16 and sum in f32).
 *
 * op                      in                                              out
 * EMBEDDING               tokens[B,T] i32, wte[V,C], [wpe[P,C]]           y[B,T,C]
 * LINEAR                  x[N,I] t, w[O,I] t, [b[O]]                      y[N,O] t
 * LAYERNORM               x[N,C], w[C], b[C]                              y[N,C] t, mean[N], rstd[N]         attr.eps
 * RESIDUAL                a u, b t of one shape; u is f32 or t            y u (may be a's or b's memory)
 * GELU                    x t                                             y t (may be x's memory)            tanh form
 * ATTENTION               qkv[B,T,3C] t                                   y[B,T,C] t, lse[B,H,T]             attr.heads; causal
 * DRAW_MASK                                                               mask[...] u8, 1 = kept             attr.p, attr.counter
 * DROPOUT                 x t, mask                                       y t = x mask / (1 - p) (may be x's) attr.p
 * CROSS_ENTROPY           logits[N,V] t, targets[N] i32                   loss[1] mean, lse[N]               attr.micro_batches
 * CAST                    x t                                             y of another type
 * EMBEDDING_BACKWARD      dy[B,T,C], tokens                               [dwte[V,C]] g +=, [dwpe[P,C]] g +=
 * LINEAR_BACKWARD_INPUT   dy[N,O] t, w[O,I] t                             dx[N,I] t +=
 * LINEAR_BACKWARD_WEIGHT  dy[N,O] t, x[N,I] t                             dw[O,I] g +=, [db[O]] g +=
 * LAYERNORM_BACKWARD      dy[N,C] t, x[N,C], w[C], mean[N], rstd[N]       dx[N,C] +=, dw[C] g +=, db[C] g +=, [dx in another type]
 * GELU_BACKWARD           dy t, x t                                       dx t (may be dy's memory)
 * ATTENTION_BACKWARD      dy[B,T,C] t, qkv[B,T,3C] t, y[B,T,C] t, lse[B,H,T]  dqkv[B,T,3C] t
 * DROPOUT_BACKWARD        dy t, mask                                      dx t (may be dy's memory)          attr.p
 * CROSS_ENTROPY_BACKWARD  logits[N,V] t, targets[N], lse[N], [scale[1]]   dlogits[N,V] t (may be logits' memory), of the mean x scale  attr.micro_batches
 * ADD                     a t, b t                                        y t (may be a's or b's memory)
 * CUSTOM                  a, [b, c, d] of any shape                       y                                   attr.own: a user's functions
 * CUSTOM_BACKWARD         dy, y, a, [b, c, d]                             [da, db, dc, dd] t += (parameters: g) attr.own
 * LOSS_SUM                a[1], [b[1], c[1], d[1]]                        loss[1], of a weight[0] + ...       attr.weight
 * LOSS_SUM_BACKWARD       [scale[1]]                                      [da[1], ...], of weights x scale    attr.weight
 * LINEAR_GELU             x[N,I] t, w[O,I] t, [b[O]]                      y[N,O] t, z[N,O] t = gelu of y
 * RESIDUAL_LAYERNORM      a[N,C], b[N,C] t, w[C], bias[C]                 y = a + b (may be a's or b's), z t, mean[N], rstd[N]  attr.eps
 * LINEAR_BACKWARD_INPUT_GELU  dz[N,O] t, w[O,I] t, y[N,I] t               dy[N,I] t, of the y whose gelu was the linear's input
 *
 * The last three are two ops in one pass over memory, with the bits of the two; the fuse pass makes them, and LAYERNORM_BACKWARD's
 * fourth output.
 *
 * The mean of CROSS_ENTROPY is over N x attr.micro_batches rows, whatever the targets: it is a part of a step's loss. Rows whose
 * target is negative do not count and give no gradient; the executor makes good for them in the update.
 *
 * Communication and optimizer, placed by passes/ and run by exec/ itself, not by kernels. attr.bucket names the bucket; its
 * gradients and parameters are the tensors with that bucket number, no inputs of the node:
 * BUCKET_START                                                            starts the bucket's reduction over the ranks
 * BUCKET_WAIT                                                             the rank's slice of the bucket is reduced
 * VERDICT                 loss[1]                                         mean loss, gradient norm and clip factor of all ranks
 * UPDATE                                                                  optimizer on the rank's slice of the bucket
 * PARAMETERS_READY                                                        every rank sees the bucket's new parameters
 * GATHER_START                                                            starts to bring the bucket's parameters from all nodes
 *                                                                         to byte attr.place of the parameters' slab, and copies
 *                                                                         to attr.copy_place: those of them that nodes read
 * GATHER_WAIT                                                             they are there, for all ranks of the node
 * RELEASE                                                                 this rank reads them no more */
#ifndef TDMI_GRAPH_OP_H
#define TDMI_GRAPH_OP_H

#include "core/error.h"

#include <tandem/dtype.h>
#include <tandem/own_op.h>

#define TDMI_OP_MAP(X)                                                                                                 \
    X(EMBEDDING, "embedding")                                                                                          \
    X(LINEAR, "linear")                                                                                                \
    X(LAYERNORM, "layernorm")                                                                                          \
    X(RESIDUAL, "residual")                                                                                            \
    X(GELU, "gelu")                                                                                                    \
    X(ATTENTION, "attention")                                                                                          \
    X(DRAW_MASK, "draw_mask")                                                                                          \
    X(DROPOUT, "dropout")                                                                                              \
    X(CROSS_ENTROPY, "cross_entropy")                                                                                  \
    X(CAST, "cast")                                                                                                    \
    X(EMBEDDING_BACKWARD, "embedding_backward")                                                                        \
    X(LINEAR_BACKWARD_INPUT, "linear_backward_input")                                                                  \
    X(LINEAR_BACKWARD_WEIGHT, "linear_backward_weight")                                                                \
    X(LAYERNORM_BACKWARD, "layernorm_backward")                                                                        \
    X(GELU_BACKWARD, "gelu_backward")                                                                                  \
    X(ATTENTION_BACKWARD, "attention_backward")                                                                        \
    X(DROPOUT_BACKWARD, "dropout_backward")                                                                            \
    X(CROSS_ENTROPY_BACKWARD, "cross_entropy_backward")                                                                \
    X(ADD, "add")                                                                                                      \
    X(CUSTOM, "own_op")                                                                                                \
    X(CUSTOM_BACKWARD, "own_op_backward")                                                                              \
    X(LOSS_SUM, "loss_sum")                                                                                            \
    X(LOSS_SUM_BACKWARD, "loss_sum_backward")                                                                          \
    X(LINEAR_GELU, "linear_gelu")                                                                                      \
    X(RESIDUAL_LAYERNORM, "residual_layernorm")                                                                        \
    X(LINEAR_BACKWARD_INPUT_GELU, "linear_backward_input_gelu")                                                        \
    X(BUCKET_START, "bucket_start")                                                                                    \
    X(BUCKET_WAIT, "bucket_wait")                                                                                      \
    X(VERDICT, "verdict")                                                                                              \
    X(UPDATE, "update")                                                                                                \
    X(PARAMETERS_READY, "parameters_ready")                                                                            \
    X(GATHER_START, "gather_start")                                                                                    \
    X(GATHER_WAIT, "gather_wait")                                                                                      \
    X(RELEASE, "release")

typedef enum {
#define TDMI_OP_ENUM(NAME, name) TDMI_OP_##NAME,
    TDMI_OP_MAP(TDMI_OP_ENUM)
#undef TDMI_OP_ENUM
    TDMI_OP_COUNT
} tdmi_op;

const char *tdmi_op_text(tdmi_op op);

#define TDMI_DIMS_MAX 4
#define TDMI_NODE_IN_MAX 6
#define TDMI_NODE_OUT_MAX 4
#define TDMI_LOSSES_MAX TDMI_NODE_OUT_MAX

typedef struct tdmi_shape {
    tdm_dtype dtype;
    int ndim;
    int64_t dims[TDMI_DIMS_MAX];
} tdmi_shape;

size_t tdmi_shape_count(const tdmi_shape *shape);  /* elements; 1 for ndim 0 */
size_t tdmi_shape_nbytes(const tdmi_shape *shape);
/* NULL if the shape exists: a dtype, 0 to 4 dimensions of 1 or more, at most 256 TiB. Else what is wrong with it. */
const char *tdmi_shape_fault(const tdmi_shape *shape);
bool tdmi_shape_equal(const tdmi_shape *a, const tdmi_shape *b); /* dtype and dimensions */

typedef struct tdmi_attr {
    float eps;           /* LAYERNORM */
    int heads;           /* ATTENTION */
    float p;             /* DROPOUT: probability of zero */
    uint64_t counter;    /* DRAW_MASK: its place in the order of draws of a step */
    uint32_t accumulate; /* bit i: output i is added to */
    int micro_batches;   /* CROSS_ENTROPY and its backward: of a step */
    bool again;          /* a forward node that is listed a second time, in backward: its results were not kept */
    const tdm_own_op *own; /* CUSTOM and its backward: borrowed */
    float weight[TDMI_LOSSES_MAX]; /* LOSS_SUM and its backward */
    int bucket;          /* communication and optimizer nodes */
    size_t place;        /* GATHER_START, GATHER_WAIT, RELEASE: of the parameters */
    size_t copy_place;   /* and of their 16-bit copies */
} tdmi_attr;

/* What the table above says of an op, for builders, passes and verify. Bit i stands for input or output i. */
typedef struct tdmi_op_info {
    int in_count, out_count;
    uint32_t optional_in, optional_out; /* may be absent */
    uint32_t accumulates;               /* outputs marked += */
    uint32_t in_place;                  /* inputs whose memory output 0 may take */
} tdmi_op_info;

const tdmi_op_info *tdmi_op_info_of(tdmi_op op);
const char *tdmi_op_in_name(tdmi_op op, int i);  /* "x", "w", ...: as in the table; "" where it has none */
const char *tdmi_op_out_name(tdmi_op op, int i);
/* NULL if shapes and attributes obey the table, else the rule that is broken (static text). NULL entries are absent. */
const char *tdmi_op_fault(tdmi_op op, const tdmi_attr *attr, const tdmi_shape *const *in, const tdmi_shape *const *out);

#endif
