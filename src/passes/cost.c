/* cost.c - products by their multiplications, everything else by the memory it moves. */
#include "passes/cost.h"

#define DRAW_BYTES 24 /* a random number takes as long as moving so many */

static double count(const tdmi_graph *g, tdmi_id t)
{
    return t < 0 ? 0 : (double)tdmi_shape_count(&g->tensor[t].shape);
}

static double last_dim(const tdmi_graph *g, tdmi_id t)
{
    const tdmi_shape *s = &g->tensor[t].shape;
    return (double)s->dims[s->ndim - 1];
}

/* Multiplications and additions of a node's products, 0 where it has none. */
static double flops(const tdmi_graph *g, const tdmi_node *n)
{
    switch (n->op) {
    case TDMI_OP_LINEAR:
    case TDMI_OP_LINEAR_GELU: return 2 * count(g, n->out[0]) * last_dim(g, n->in[0]);
    case TDMI_OP_LINEAR_BACKWARD_INPUT:
    case TDMI_OP_LINEAR_BACKWARD_INPUT_GELU: return 2 * count(g, n->out[0]) * last_dim(g, n->in[0]);
    case TDMI_OP_LINEAR_BACKWARD_WEIGHT: return 2 * count(g, n->in[0]) * last_dim(g, n->in[1]);
    case TDMI_OP_ATTENTION: /* two products of T x T x C, half of them masked; its gradient has five */
        return 2 * count(g, n->out[0]) * last_dim(g, n->out[1]);
    case TDMI_OP_ATTENTION_BACKWARD: return 5 * count(g, n->in[2]) * last_dim(g, n->in[3]);
    default: return 0;
    }
}

double tdmi_cost_of_node(const tdmi_graph *g, const tdmi_node *n, const tdmi_cost *cost)
{
    if (n->phase != TDMI_PHASE_FORWARD && n->phase != TDMI_PHASE_BACKWARD)
        return 0;
    const double products = flops(g, n);
    if (products > 0)
        return products / cost->flops_per_s;
    double nbytes = n->op == TDMI_OP_DRAW_MASK ? DRAW_BYTES * count(g, n->out[0]) : 0;
    for (int k = 0; k < n->in_count; k++)
        nbytes += n->in[k] < 0 ? 0 : (double)tdmi_shape_nbytes(&g->tensor[n->in[k]].shape);
    for (int k = 0; k < n->out_count; k++)
        nbytes += n->out[k] < 0 ? 0 : (double)tdmi_shape_nbytes(&g->tensor[n->out[k]].shape);
    return nbytes / cost->bytes_per_s;
}

double tdmi_cost_of_bucket(const tdmi_graph *g, int bucket, const tdmi_cost *cost)
{
    return cost->alpha_s + (double)(g->bucket[bucket].count * tdm_dtype_size(g->gradient_type)) * cost->beta_s;
}

tdmi_step_forecast tdmi_cost_forecast(const tdmi_graph *g, const tdmi_cost *cost)
{
    tdmi_step_forecast f = {0};
    for (int i = 0; i < g->node_count; i++) {
        f.computed_s += tdmi_cost_of_node(g, &g->node[i], cost);
        if (g->node[i].op == TDMI_OP_BUCKET_START)
            f.reduced_s = (f.reduced_s > f.computed_s ? f.reduced_s : f.computed_s) + tdmi_cost_of_bucket(g, g->node[i].attr.bucket, cost);
    }
    return f;
}
