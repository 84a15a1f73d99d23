/* fuse.c - two nodes become one where the second reads what the first has just written: one pass over memory instead of two, and the
 * same bits. Runs behind autodiff, so that a derivative is written for plain ops alone.
 *
 *     linear, gelu                                      ->  linear_gelu: a tile of the product gets its gelu in the cache
 *     residual, layernorm                               ->  residual_layernorm, row by row
 *     linear_backward_input, gelu_backward              ->  linear_backward_input_gelu
 *     layernorm_backward, cast of its sum to 16 bits    ->  layernorm_backward with a second, narrow result
 *
 * Softmax and cross-entropy, attention without a T x T matrix, the update of a bucket and its reduction are one op each from the start.
 * Saves   reading and writing of an activation for each. Costs nothing. */
#include "core/memory.h"
#include "passes/passes.h"

typedef struct fusion {
    tdmi_graph *g;
    bool *gone;    /* [node_count] fused into another */
    int *readers;  /* [tensor_count] */
} fusion;

/* The first node behind i that reads t as input k and is of this op, or -1. */
static int reader(const fusion *f, int i, tdmi_id t, tdmi_op op, int k)
{
    for (int j = i + 1; j < f->g->node_count; j++)
        if (!f->gone[j] && f->g->node[j].op == op && f->g->node[j].in[k] == t)
            return j;
    return -1;
}

/* Whether one node alone reads t, and t has memory of its own. */
static bool belongs_to_one_reader(const fusion *f, tdmi_id t)
{
    const tdmi_graph *g = f->g;
    bool shared = g->tensor[t].alias >= 0 || g->tensor[t].role != TDMI_ROLE_ACTIVATION || f->readers[t] != 1;
    for (int u = 0; u < g->tensor_count && !shared; u++)
        shared = g->tensor[u].alias == t;
    return !shared;
}

/* Whether nodes (i, j] write to the memory of t. */
static bool is_written_between(const fusion *f, tdmi_id t, int i, int j)
{
    const tdmi_graph *g = f->g;
    for (int n = i + 1; n <= j; n++)
        for (int k = 0; k < g->node[n].out_count; k++)
            if (!f->gone[n] && g->node[n].out[k] >= 0 && tdmi_graph_root(g, g->node[n].out[k]) == tdmi_graph_root(g, t))
                return true;
    return false;
}

/* Node i takes over j: it becomes `op`, reads and makes what is listed. */
static void take(fusion *f, int i, int j, tdmi_op op, int ins, const tdmi_id *in, int outs, const tdmi_id *out)
{
    tdmi_node *n = &f->g->node[i];
    n->op = op;
    n->in_count = tdmi_op_info_of(op)->in_count;
    n->out_count = tdmi_op_info_of(op)->out_count;
    for (int k = 0; k < TDMI_NODE_IN_MAX; k++)
        n->in[k] = k < ins ? in[k] : -1;
    for (int k = 0; k < TDMI_NODE_OUT_MAX; k++)
        n->out[k] = k < outs ? out[k] : -1;
    f->gone[j] = true;
}

static void fuse_linear(fusion *f, int i)
{
    const tdmi_node *n = &f->g->node[i];
    const int j = reader(f, i, n->out[0], TDMI_OP_GELU, 0);
    if (j >= 0 && f->readers[n->out[0]] > 1) /* else the gelu takes the product's memory */
        take(f, i, j, TDMI_OP_LINEAR_GELU, 3, (const tdmi_id[]){n->in[0], n->in[1], n->in[2]}, 2,
             (const tdmi_id[]){n->out[0], f->g->node[j].out[0]});
}

/* The layernorm's own label names the node: it has the parameters. */
static void fuse_residual(fusion *f, int i)
{
    tdmi_node *n = &f->g->node[i];
    const int j = reader(f, i, n->out[0], TDMI_OP_LAYERNORM, 0);
    if (j < 0 || f->g->tensor[n->out[0]].shape.dtype != TDM_F32 || f->g->node[j].phase != n->phase)
        return;
    const tdmi_node *norm = &f->g->node[j];
    n->attr.eps = norm->attr.eps;
    take(f, i, j, TDMI_OP_RESIDUAL_LAYERNORM, 4, (const tdmi_id[]){n->in[0], n->in[1], norm->in[1], norm->in[2]}, 4,
         (const tdmi_id[]){n->out[0], norm->out[0], norm->out[1], norm->out[2]});
}

/* Where the gelu's input is computed again between the two, the product waits for it. */
static void fuse_linear_backward(fusion *f, int i)
{
    const tdmi_node product = f->g->node[i];
    const int j = reader(f, i, product.out[0], TDMI_OP_GELU_BACKWARD, 0);
    if (j < 0 || product.attr.accumulate != 0 || !belongs_to_one_reader(f, product.out[0]))
        return;
    const tdmi_id y = f->g->node[j].in[1], dy = f->g->node[j].out[0];
    const bool is_there = f->g->tensor[tdmi_graph_root(f->g, y)].producer < i;
    if (!is_there && is_written_between(f, product.in[0], i, j))
        return;
    f->g->node[j] = product;
    take(f, is_there ? i : j, is_there ? j : i, TDMI_OP_LINEAR_BACKWARD_INPUT_GELU, 3,
         (const tdmi_id[]){product.in[0], product.in[1], y}, 1, &dy);
}

static void fuse_layernorm_backward(fusion *f, int i)
{
    tdmi_node *n = &f->g->node[i];
    const int j = reader(f, i, n->out[0], TDMI_OP_CAST, 0);
    if (j < 0)
        return;
    n->out[3] = f->g->node[j].out[0];
    f->gone[j] = true;
}

static void fuse_node(fusion *f, int i)
{
    switch (f->g->node[i].op) {
    case TDMI_OP_LINEAR: fuse_linear(f, i); break;
    case TDMI_OP_RESIDUAL: fuse_residual(f, i); break;
    case TDMI_OP_LINEAR_BACKWARD_INPUT: fuse_linear_backward(f, i); break;
    case TDMI_OP_LAYERNORM_BACKWARD: fuse_layernorm_backward(f, i); break;
    default: break;
    }
}

static tdm_status run(fusion *f)
{
    tdmi_graph *g = f->g;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->node[i].in_count; k++)
            if (g->node[i].in[k] >= 0)
                f->readers[g->node[i].in[k]]++;
    for (int i = 0; i < g->node_count; i++)
        if (!f->gone[i])
            fuse_node(f, i);
    tdmi_node *nodes = tdmi_malloc((size_t)g->node_count * sizeof *nodes, "fuse");
    if (nodes == NULL)
        return TDM_ERR_NO_MEMORY;
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        if (!f->gone[i])
            nodes[count++] = g->node[i];
    tdm_status st = tdmi_graph_set_nodes(g, nodes, count);
    tdmi_free(nodes);
    return st == TDM_OK ? tdmi_graph_drop_unused(g) : st;
}

tdm_status tdmi_pass_fuse(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    if (options->unfused)
        return TDM_OK;
    fusion f = {.g = g};
    f.gone = tdmi_calloc((size_t)g->node_count + 1, sizeof *f.gone, "fuse");
    f.readers = tdmi_calloc((size_t)g->tensor_count + 1, sizeof *f.readers, "fuse");
    tdm_status st = f.gone == NULL || f.readers == NULL ? TDM_ERR_NO_MEMORY : run(&f);
    tdmi_free(f.readers);
    tdmi_free(f.gone);
    return st;
}
