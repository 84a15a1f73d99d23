/* graph.h - a training step as plain data: tensors and the nodes that make them, in execution order.
 *
 * A model's builder writes the forward nodes; passes add the rest (autodiff, bucket, shard, place); the executor runs the
 * list from top to bottom. Each tensor has one producer (SSA); what shares memory says so by `alias`. verify.c checks every
 * rule after every pass. */
#ifndef TDMI_GRAPH_GRAPH_H
#define TDMI_GRAPH_GRAPH_H

#include "graph/op.h"

#include <tandem/compress.h>

typedef int32_t tdmi_id; /* index of a tensor or node; -1: none */

typedef enum {
    TDMI_ROLE_INPUT,      /* filled by the caller before a step: tokens, targets */
    TDMI_ROLE_PARAMETER,  /* float32, lives across steps; shared by the ranks of a node */
    TDMI_ROLE_COPY,       /* of a parameter, in the 16-bit type that products read; written by who updates the parameter */
    TDMI_ROLE_ACTIVATION, /* lives within a step */
    TDMI_ROLE_GRADIENT,   /* of a parameter; a view into its bucket */
    TDMI_ROLE_OUTPUT      /* read by the caller after a step: loss */
} tdmi_role;

typedef enum { TDMI_PHASE_FORWARD, TDMI_PHASE_BACKWARD, TDMI_PHASE_COMMUNICATION, TDMI_PHASE_OPTIMIZER } tdmi_phase;

typedef struct tdmi_tensor {
    char name[96];
    tdmi_shape shape;
    tdmi_role role;
    tdmi_id producer;  /* node, -1 for inputs and parameters */
    tdmi_id alias;     /* shares the memory of this earlier tensor (in place), or -1 */
    tdmi_id gradient;  /* of a PARAMETER: its gradient tensor, or -1 (frozen, or before autodiff) */
    tdmi_id parameter; /* of a GRADIENT or COPY: its parameter */
    bool decay;        /* PARAMETER: weight decay applies (matrices and embeddings) */
    int group;         /* PARAMETER: which of the executor's groups, with their learning rates and weight decays, it is in */
    int bucket;        /* GRADIENT, PARAMETER and COPY after the bucket pass, else -1 */
    size_t offset;     /* after place: bytes from the start of the slab (ACTIVATION, OUTPUT, INPUT); GRADIENT, PARAMETER, COPY:
                          elements from the start of the bucket, after the bucket pass; what is longer than the rest of its
                          bucket goes on in the next ones, whose memory follows (tdmi_graph_last_bucket) */
} tdmi_tensor;

typedef struct tdmi_node {
    tdmi_op op;
    tdmi_phase phase;
    tdmi_attr attr;
    int in_count, out_count;
    tdmi_id in[TDMI_NODE_IN_MAX], out[TDMI_NODE_OUT_MAX]; /* -1: absent */
    char label[96];                                        /* "h.3.attn.qkv", for timelines and messages */
} tdmi_node;

typedef struct tdmi_bucket {
    size_t count;    /* elements, padded so that every rank's slice is equal and 64-byte aligned */
    size_t used;     /* elements that belong to parameters */
    int parameters;  /* how many have a part in it */
    bool joined;     /* it begins inside a parameter: its memory follows that of the bucket before, which has no padding */
    int unit;        /* neighbouring buckets of one unit are gathered and released together */
    bool whole, copied; /* after gather: what nodes read of it, parameters themselves and copies of 16 bits */
    size_t offset;   /* after place: bytes from the start of the gradients' slab */
    tdm_compression compress; /* after the compress pass: how it travels */
    size_t sends;             /* then: bytes that a rank sends for it */
} tdmi_bucket;

typedef struct tdmi_graph {
    char name[64];
    tdmi_tensor *tensor;
    int tensor_count, tensor_capacity;
    tdmi_node *node;
    int node_count, node_capacity;
    tdmi_bucket *bucket; /* after the bucket pass, in the order they become ready */
    int bucket_count;
    size_t slab_nbytes; /* after place */
    size_t gradient_nbytes; /* after place: of the gradients' slab; buckets may share its memory, one after the other */
    size_t parameter_nbytes; /* of the slab that parameters are gathered into; 0: they are all on each node */
    int parts;          /* how many nodes keep a part of the parameters each; 0 and 1: none is gathered */
    int prefetch;       /* then: units of parameters that come ahead of use */
    bool compressed;    /* after the compress pass: buckets travel as they say, and all ranks get whole gradients */
    bool slices_kept;   /* the rank's reduced slice of each bucket gets memory of its own, as the bucket's is used again */
    int micro_batches;  /* of a step: how often forward and backward nodes run before the reduction; after accumulate, else 1 */
    tdm_dtype gradient_type; /* of all GRADIENTs and so of the buckets */
    tdmi_id loss;       /* the OUTPUT that backward starts from, or -1 */
    tdm_status status;  /* first error of a builder; checked by tdmi_graph_status */
    char status_text[TDMI_ERROR_TEXT_MAX];
} tdmi_graph;

/* An INPUT of a graph in float16: what the loss is multiplied with before it is derived. */
#define TDMI_LOSS_SCALE "loss_scale"

tdmi_graph *tdmi_graph_create(const char *name);
void tdmi_graph_destroy(tdmi_graph *graph);
/* A copy that shares nothing: an evaluation graph starts as the forward copy of the training graph. */
tdmi_graph *tdmi_graph_copy(const tdmi_graph *graph);

/* Builders. They infer and check shapes; an error (say, width not divisible by heads) stays in graph->status with its text,
 * and further calls do nothing, so a model checks once at its end with tdmi_graph_status (which restores the text). */
tdmi_id tdmi_graph_input(tdmi_graph *g, const char *name, tdm_dtype dtype, int ndim, const int64_t *dims);
tdmi_id tdmi_graph_parameter(tdmi_graph *g, const char *name, int ndim, const int64_t *dims, bool decay);
tdmi_id tdmi_embedding(tdmi_graph *g, const char *label, tdmi_id tokens, tdmi_id wte, tdmi_id wpe);
tdmi_id tdmi_linear(tdmi_graph *g, const char *label, tdmi_id x, tdmi_id w, tdmi_id b);
tdmi_id tdmi_layernorm(tdmi_graph *g, const char *label, tdmi_id x, tdmi_id w, tdmi_id b, float eps);
tdmi_id tdmi_residual(tdmi_graph *g, const char *label, tdmi_id a, tdmi_id b);
tdmi_id tdmi_gelu(tdmi_graph *g, const char *label, tdmi_id x);
tdmi_id tdmi_attention(tdmi_graph *g, const char *label, tdmi_id qkv, int heads);
tdmi_id tdmi_dropout(tdmi_graph *g, const char *label, tdmi_id x, float p); /* p == 0: x itself */
tdmi_id tdmi_cross_entropy(tdmi_graph *g, const char *label, tdmi_id logits, tdmi_id targets); /* the loss; sets g->loss */
/* The same value as a part of a loss: g->loss stays as it is. */
tdmi_id tdmi_cross_entropy_part(tdmi_graph *g, const char *label, tdmi_id logits, tdmi_id targets);
/* The loss as a sum of count parts [1], at most TDMI_LOSSES_MAX, each times its weight; sets g->loss. */
tdmi_id tdmi_loss_sum(tdmi_graph *g, const char *label, int count, const tdmi_id *parts, const float *weights);
/* y of this shape in float32 = own->forward(in...); at most TDM_OWN_OP_INPUTS float32 inputs. `own` is borrowed. */
tdmi_id tdmi_custom(tdmi_graph *g, const char *label, const tdm_own_op *own, int count, const tdmi_id *in, int ndim, const int64_t *dims);
/* Another shape for the same memory and elements, e.g. [B,T,C] as [B, T C]: an alias, no node. */
tdmi_id tdmi_reshape(tdmi_graph *g, tdmi_id x, int ndim, const int64_t *dims);
/* The caller reads x after a step (logits for generation): it becomes an OUTPUT and keeps its memory to the end. */
void tdmi_graph_output(tdmi_graph *g, tdmi_id x);
/* Puts a model's own error where a builder's would be, unless there is one; returns -1. */
tdmi_id tdmi_graph_fail(tdmi_graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
tdm_status tdmi_graph_status(const tdmi_graph *g);

/* The tensor of that name, or -1. Names of inputs, parameters and outputs are unique. */
tdmi_id tdmi_graph_find(const tdmi_graph *g, const char *name);
/* The tensor at the end of x's chain of aliases: the one that owns the memory. */
tdmi_id tdmi_graph_root(const tdmi_graph *g, tdmi_id x);

/* For passes. Both append; add_node makes itself the producer of its outputs. -1 without memory: then the graph's status says so. */
tdmi_id tdmi_graph_add_tensor(tdmi_graph *g, const tdmi_tensor *tensor);
tdmi_id tdmi_graph_add_node(tdmi_graph *g, const tdmi_node *node);
/* Drops activations that no node has and nothing shares the memory of; ids of the others may change. */
tdm_status tdmi_graph_drop_unused(tdmi_graph *g);
/* For a pass that reorders or inserts: replaces the node list by `count` nodes of g's own and new ones (copied). */
tdm_status tdmi_graph_set_nodes(tdmi_graph *g, const tdmi_node *node, int count);

/* Every rule of a graph: ids in range, one producer, made before read, shapes as op.h says, aliases not overwritten while
 * still read; after autodiff and bucket: each parameter's gradient in exactly one bucket, each bucket started after its last
 * gradient, an update after the verdict and after the last reader on this rank of every parameter in the bucket, and
 * PARAMETERS_READY between an update and the next reader. TDM_ERR_INTERNAL with node and rule. */
tdm_status tdmi_graph_verify(const tdmi_graph *g);
/* One line a node: phase, op, label, shapes, bucket, memory. Returns new text (tdmi_free), NULL without memory. */
char *tdmi_graph_print(const tdmi_graph *g);
/* What a bucket holds, by place, into out [TDMI_PIECES_MAX(g)]; returns how many. A piece has whole rows of its parameter's first
 * dimension, or is a vector: of a parameter with one dimension, or the part of a row where a parameter is cut between buckets. */
typedef struct tdmi_piece {
    tdmi_id parameter;
    size_t within;       /* elements of the parameter before */
    size_t first, count; /* elements from the start of the bucket */
    size_t rows;         /* 0: a vector */
} tdmi_piece;
#define TDMI_PIECES_MAX(g) (3 * (g)->tensor_count + 3)
int tdmi_graph_pieces(const tdmi_graph *g, int bucket, tdmi_piece *out);
/* The last bucket that holds a part of a parameter or gradient. */
int tdmi_graph_last_bucket(const tdmi_graph *g, tdmi_id t);
/* Sum of the parameters' elements, shared ones counted once. */
size_t tdmi_graph_parameter_count(const tdmi_graph *g);

#endif
