/* amp.c - mixed precision: what products read and write has 16 bits, all else stays float32. Runs on the forward graph; autodiff
 * then gives every gradient the type of what it is a gradient of, and those of parameters `gradient_type`.
 *
 *     float32       embedding -> x ---------------------------- + -> x          statistics, loss, masters of all parameters
 *                                 \                             |
 *     16 bits                      layernorm -> linear -> attention -> linear   weights: a copy of each matrix that products read
 *
 * Cost    a cast where a value of one kind meets an op of the other; 2 bytes a parameter for the copies
 * Saves   half the memory and traffic of activations, gradients and weights; products at the speed of the narrow type
 * Source  Micikevicius et al., Mixed Precision Training, arXiv 1710.03740; the lists of torch.autocast */
#include "core/memory.h"
#include "passes/passes.h"

#include <stdio.h>
#include <string.h>

typedef struct casting {
    tdmi_graph *g;
    tdm_dtype half;
    tdmi_id *narrow, *wide; /* [tensors of the model]: its value as `half`, as float32; -1: not there yet */
    int tensors;
    tdmi_node *node; /* the new list */
    int count;
} casting;

static const char *suffix(tdm_dtype type)
{
    return type == TDM_BF16 ? "bf16" : type == TDM_F16 ? "f16" : "f32";
}

static bool is_read_by_products_alone(const tdmi_graph *g, tdmi_id x)
{
    bool read = false;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->node[i].in_count; k++)
            if (g->node[i].in[k] >= 0 && tdmi_graph_root(g, g->node[i].in[k]) == x) {
                if (g->node[i].op != TDMI_OP_LINEAR && g->node[i].op != TDMI_OP_ATTENTION)
                    return false;
                read = true;
            }
    return read && g->tensor[x].role == TDMI_ROLE_ACTIVATION;
}

/* A product whose result the caller reads stays float32. */
static bool is_narrow(const tdmi_graph *g, const tdmi_node *n)
{
    return (n->op == TDMI_OP_LINEAR || n->op == TDMI_OP_ATTENTION) && g->tensor[n->out[0]].role == TDMI_ROLE_ACTIVATION;
}

/* The type of the node's first output. */
static tdm_dtype type_of_output(const casting *c, const tdmi_node *n)
{
    switch (n->op) {
    case TDMI_OP_LINEAR:
    case TDMI_OP_ATTENTION: return is_narrow(c->g, n) ? c->half : TDM_F32;
    case TDMI_OP_LAYERNORM: return is_read_by_products_alone(c->g, n->out[0]) ? c->half : TDM_F32;
    case TDMI_OP_GELU:
    case TDMI_OP_DROPOUT: return c->g->tensor[n->in[0]].shape.dtype;
    default: return TDM_F32;
    }
}

/* The type that input k must have; its own where any will do. */
static tdm_dtype type_of_input(const casting *c, const tdmi_node *n, int k)
{
    const tdm_dtype own = c->g->tensor[n->in[k]].shape.dtype;
    switch (n->op) {
    case TDMI_OP_LINEAR: return is_narrow(c->g, n) && k < 2 ? c->half : TDM_F32;
    case TDMI_OP_ATTENTION: return is_narrow(c->g, n) ? c->half : TDM_F32;
    case TDMI_OP_CUSTOM:
    case TDMI_OP_LAYERNORM: return TDM_F32;
    case TDMI_OP_RESIDUAL: return k == 0 ? TDM_F32 : own;
    default: return own;
    }
}

static tdmi_id new_tensor(casting *c, tdmi_id of, tdm_dtype type, tdmi_role role)
{
    tdmi_tensor t = {.shape = c->g->tensor[of].shape, .role = role, .producer = -1, .alias = -1, .gradient = -1, .parameter = -1,
                     .bucket = -1};
    t.shape.dtype = type;
    snprintf(t.name, sizeof t.name, "%.*s.%s", (int)sizeof t.name - 6, c->g->tensor[of].name, suffix(type));
    return tdmi_graph_add_tensor(c->g, &t);
}

static tdmi_id copy_of_parameter(casting *c, tdmi_id parameter)
{
    const tdmi_id copy = new_tensor(c, parameter, c->half, TDMI_ROLE_COPY);
    if (copy >= 0)
        c->g->tensor[copy].parameter = parameter;
    return copy;
}

static tdmi_id cast(casting *c, tdmi_id x, tdm_dtype type)
{
    const tdmi_id y = new_tensor(c, x, type, TDMI_ROLE_ACTIVATION);
    if (y < 0)
        return -1;
    tdmi_node n = {.op = TDMI_OP_CAST, .phase = TDMI_PHASE_FORWARD, .attr.bucket = -1, .in_count = 1, .out_count = 1};
    for (int k = 0; k < TDMI_NODE_IN_MAX; k++)
        n.in[k] = -1;
    for (int k = 0; k < TDMI_NODE_OUT_MAX; k++)
        n.out[k] = -1;
    n.in[0] = x;
    n.out[0] = y;
    snprintf(n.label, sizeof n.label, "%s", c->g->tensor[x].name);
    c->node[c->count++] = n;
    return y;
}

/* x in this type; the same tensor for all that ask. */
static tdmi_id value_as(casting *c, tdmi_id x, tdm_dtype type)
{
    if (c->g->tensor[x].shape.dtype == type)
        return x;
    tdmi_id *known = type == TDM_F32 ? &c->wide[x] : &c->narrow[x];
    if (*known < 0)
        *known = c->g->tensor[x].role == TDMI_ROLE_PARAMETER ? copy_of_parameter(c, x) : cast(c, x, type);
    return *known;
}

/* Sets the type of a node's output, and of what sees the same memory in another shape. */
static void set_type(casting *c, tdmi_id y, tdm_dtype type)
{
    for (int t = y; t < c->tensors; t++)
        if (tdmi_graph_root(c->g, t) == y)
            c->g->tensor[t].shape.dtype = type;
}

static tdm_status convert(casting *c)
{
    tdmi_graph *g = c->g;
    for (int i = 0; i < g->node_count; i++) {
        tdmi_node n = g->node[i];
        if (n.op == TDMI_OP_RESIDUAL && g->tensor[n.in[0]].shape.dtype != TDM_F32 && g->tensor[n.in[1]].shape.dtype == TDM_F32) {
            const tdmi_id branch = n.in[0];
            n.in[0] = n.in[1];
            n.in[1] = branch;
        }
        for (int k = 0; k < n.in_count; k++)
            if (n.in[k] >= 0)
                n.in[k] = value_as(c, n.in[k], type_of_input(c, &n, k));
        if (g->status != TDM_OK)
            return tdmi_graph_status(g);
        if (n.op != TDMI_OP_DRAW_MASK)
            set_type(c, n.out[0], type_of_output(c, &n));
        c->node[c->count++] = n;
    }
    return tdmi_graph_set_nodes(g, c->node, c->count);
}

tdm_status tdmi_pass_amp(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    if (options->precision == TDM_F32)
        return TDM_OK;
    if (options->precision != TDM_BF16 && options->precision != TDM_F16)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "precision %s does not exist: float32, bfloat16 or float16",
                         tdm_dtype_name(options->precision));
    casting c = {.g = g, .half = options->precision, .tensors = g->tensor_count};
    const size_t tensors = (size_t)g->tensor_count;
    c.narrow = tdmi_malloc(tensors * sizeof *c.narrow, "amp");
    c.wide = tdmi_malloc(tensors * sizeof *c.wide, "amp");
    c.node = tdmi_malloc(((size_t)g->node_count + 2 * tensors) * sizeof *c.node, "amp");
    tdm_status st = TDM_ERR_NO_MEMORY;
    if (c.narrow != NULL && c.wide != NULL && c.node != NULL) {
        for (size_t t = 0; t < tensors; t++)
            c.narrow[t] = c.wide[t] = -1;
        st = convert(&c);
    }
    tdmi_free(c.node);
    tdmi_free(c.wide);
    tdmi_free(c.narrow);
    if (st != TDM_OK || !options->train)
        return st;
    /* micro-batches add up in float32 */
    g->gradient_type = options->micro_batches > 1 ? TDM_F32 : options->precision;
    if (options->precision == TDM_F16) /* small gradients would vanish: the loss is scaled up */
        (void)tdmi_graph_input(g, TDMI_LOSS_SCALE, TDM_F32, 1, (const int64_t[]){1});
    return tdmi_graph_status(g);
}
