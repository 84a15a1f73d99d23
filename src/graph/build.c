/* build.c - builders: each infers the shapes of its outputs, asks the op's rule, and appends one node. The first error
 * stays in the graph, later calls do nothing: a model checks once, at its end. */
#include "graph/graph.h"
#include "graph/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Room that passes need in a name: "d.", ".rstd", a number. */
#define LABEL_MAX (sizeof((tdmi_tensor *)0)->name - 16)

tdmi_id tdmi_graph_fail(tdmi_graph *g, const char *format, ...)
{
    if (g->status != TDM_OK)
        return -1;
    va_list args;
    va_start(args, format);
    vsnprintf(g->status_text, sizeof g->status_text, format, args);
    va_end(args);
    g->status = TDM_ERR_INVALID;
    return -1;
}

static bool name_is_fine(tdmi_graph *g, const char *name)
{
    if (name[0] != '\0' && strlen(name) <= LABEL_MAX)
        return true;
    (void)tdmi_graph_fail(g, "a name in graph %s is empty or longer than %zu letters: \"%s\"", g->name, LABEL_MAX, name);
    return false;
}

/* A tensor that the caller owns; its name must be new, because it is found by it. */
static tdmi_id add_named(tdmi_graph *g, const char *name, tdmi_role role, const tdmi_shape *shape, bool decay)
{
    if (g->status != TDM_OK || !name_is_fine(g, name))
        return -1;
    const char *fault = tdmi_shape_fault(shape);
    char text[TDMI_SHAPE_TEXT_MAX];
    if (fault != NULL)
        return tdmi_graph_fail(g, "%s has the shape %s: %s", name, tdmi_shape_text(shape, text), fault);
    if (tdmi_graph_find(g, name) >= 0)
        return tdmi_graph_fail(g, "graph %s has two tensors named %s", g->name, name);
    tdmi_tensor t = {.shape = *shape, .role = role, .producer = -1, .alias = -1, .gradient = -1, .parameter = -1,
                     .decay = decay, .bucket = -1};
    snprintf(t.name, sizeof t.name, "%s", name);
    return tdmi_graph_add_tensor(g, &t);
}

static tdmi_shape shape_of(tdm_dtype dtype, int ndim, const int64_t *dims)
{
    tdmi_shape shape = {.dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim && i < TDMI_DIMS_MAX; i++)
        shape.dims[i] = dims[i];
    return shape;
}

tdmi_id tdmi_graph_input(tdmi_graph *g, const char *name, tdm_dtype dtype, int ndim, const int64_t *dims)
{
    tdmi_shape shape = shape_of(dtype, ndim, dims);
    return add_named(g, name, TDMI_ROLE_INPUT, &shape, false);
}

tdmi_id tdmi_graph_parameter(tdmi_graph *g, const char *name, int ndim, const int64_t *dims, bool decay)
{
    tdmi_shape shape = shape_of(TDM_F32, ndim, dims);
    return add_named(g, name, TDMI_ROLE_PARAMETER, &shape, decay);
}

/* The operands of a node under construction. */
typedef struct draft {
    tdmi_node node;
    tdmi_shape out[TDMI_NODE_OUT_MAX];
} draft;

static draft begin(tdmi_op op, const char *label)
{
    draft d = {.node = {.op = op, .phase = TDMI_PHASE_FORWARD, .attr.bucket = -1}};
    d.node.in_count = tdmi_op_info_of(op)->in_count;
    d.node.out_count = tdmi_op_info_of(op)->out_count;
    for (int i = 0; i < TDMI_NODE_IN_MAX; i++)
        d.node.in[i] = -1;
    for (int i = 0; i < TDMI_NODE_OUT_MAX; i++)
        d.node.out[i] = -1;
    snprintf(d.node.label, sizeof d.node.label, "%s", label);
    return d;
}

/* Whether the graph is sound and all of x are its tensors: only then may a builder look at their shapes. */
static bool usable(tdmi_graph *g, const char *label, int count, const tdmi_id *x)
{
    if (g->status != TDM_OK || !name_is_fine(g, label))
        return false;
    for (int i = 0; i < count; i++) {
        if (x[i] < 0 || x[i] >= g->tensor_count) {
            (void)tdmi_graph_fail(g, "%s: operand %d is no tensor of graph %s", label, i, g->name);
            return false;
        }
    }
    return true;
}

/* "linear h.0.mlp.c_fc: RULE (x float32[4,64,768], w float32[3072,512], ...)" */
static tdmi_id broken_rule(tdmi_graph *g, const draft *d, const char *rule)
{
    char operands[512] = "", text[TDMI_SHAPE_TEXT_MAX];
    size_t used = 0;
    for (int i = 0; i < d->node.in_count; i++)
        if (d->node.in[i] >= 0 && used < sizeof operands)
            used += (size_t)snprintf(operands + used, sizeof operands - used, "%s%s %s", used > 0 ? ", " : "",
                                     tdmi_op_in_name(d->node.op, i),
                                     tdmi_shape_text(&g->tensor[d->node.in[i]].shape, text));
    return tdmi_graph_fail(g, "%s %s: %s (%s)", tdmi_op_text(d->node.op), d->node.label, rule, operands);
}

/* Appends the node and its outputs, named after the label; returns the first output. */
static tdmi_id finish(tdmi_graph *g, draft *d)
{
    tdmi_node *n = &d->node;
    const tdmi_shape *in[TDMI_NODE_IN_MAX], *out[TDMI_NODE_OUT_MAX];
    for (int i = 0; i < n->in_count; i++)
        in[i] = n->in[i] >= 0 ? &g->tensor[n->in[i]].shape : NULL;
    for (int i = 0; i < n->out_count; i++)
        out[i] = &d->out[i];
    const char *rule = tdmi_op_fault(n->op, &n->attr, in, out);
    if (rule != NULL)
        return broken_rule(g, d, rule);
    for (int i = 0; i < n->out_count; i++) {
        tdmi_tensor t = {.shape = d->out[i], .role = TDMI_ROLE_ACTIVATION, .producer = g->node_count, .alias = -1,
                         .gradient = -1, .parameter = -1, .bucket = -1};
        if (i == 0 && n->op != TDMI_OP_DRAW_MASK)
            snprintf(t.name, sizeof t.name, "%s", n->label);
        else
            snprintf(t.name, sizeof t.name, "%s.%s", n->label, tdmi_op_out_name(n->op, i));
        n->out[i] = tdmi_graph_add_tensor(g, &t);
        if (n->out[i] < 0)
            return -1;
    }
    return tdmi_graph_add_node(g, n) < 0 ? -1 : n->out[0];
}

/* x's shape with another last dimension; and without it. */
static tdmi_shape rows_shape(const tdmi_shape *x, int64_t last)
{
    tdmi_shape s = *x;
    if (s.ndim > 0)
        s.dims[s.ndim - 1] = last;
    return s;
}

static tdmi_shape without_last(const tdmi_shape *x, tdm_dtype dtype)
{
    tdmi_shape s = *x;
    s.dtype = dtype;
    if (s.ndim > 0)
        s.dims[--s.ndim] = 0;
    return s;
}

tdmi_id tdmi_embedding(tdmi_graph *g, const char *label, tdmi_id tokens, tdmi_id wte, tdmi_id wpe)
{
    if (!usable(g, label, wpe >= 0 ? 3 : 2, (const tdmi_id[]){tokens, wte, wpe}))
        return -1;
    draft d = begin(TDMI_OP_EMBEDDING, label);
    memcpy(d.node.in, (const tdmi_id[]){tokens, wte, wpe}, 3 * sizeof(tdmi_id));
    const tdmi_shape *ids = &g->tensor[tokens].shape;
    d.out[0] = (tdmi_shape){TDM_F32, 3, {ids->dims[0], ids->dims[1], g->tensor[wte].shape.dims[1]}};
    return finish(g, &d);
}

tdmi_id tdmi_linear(tdmi_graph *g, const char *label, tdmi_id x, tdmi_id w, tdmi_id b)
{
    if (!usable(g, label, b >= 0 ? 3 : 2, (const tdmi_id[]){x, w, b}))
        return -1;
    draft d = begin(TDMI_OP_LINEAR, label);
    memcpy(d.node.in, (const tdmi_id[]){x, w, b}, 3 * sizeof(tdmi_id));
    d.out[0] = rows_shape(&g->tensor[x].shape, g->tensor[w].shape.dims[0]);
    return finish(g, &d);
}

tdmi_id tdmi_layernorm(tdmi_graph *g, const char *label, tdmi_id x, tdmi_id w, tdmi_id b, float eps)
{
    if (!usable(g, label, 3, (const tdmi_id[]){x, w, b}))
        return -1;
    draft d = begin(TDMI_OP_LAYERNORM, label);
    memcpy(d.node.in, (const tdmi_id[]){x, w, b}, 3 * sizeof(tdmi_id));
    d.node.attr.eps = eps;
    d.out[0] = g->tensor[x].shape;
    d.out[1] = d.out[2] = without_last(&g->tensor[x].shape, TDM_F32);
    return finish(g, &d);
}

tdmi_id tdmi_residual(tdmi_graph *g, const char *label, tdmi_id a, tdmi_id b)
{
    if (!usable(g, label, 2, (const tdmi_id[]){a, b}))
        return -1;
    draft d = begin(TDMI_OP_RESIDUAL, label);
    memcpy(d.node.in, (const tdmi_id[]){a, b}, 2 * sizeof(tdmi_id));
    d.out[0] = g->tensor[a].shape;
    return finish(g, &d);
}

tdmi_id tdmi_gelu(tdmi_graph *g, const char *label, tdmi_id x)
{
    if (!usable(g, label, 1, &x))
        return -1;
    draft d = begin(TDMI_OP_GELU, label);
    d.node.in[0] = x;
    d.out[0] = g->tensor[x].shape;
    return finish(g, &d);
}

tdmi_id tdmi_attention(tdmi_graph *g, const char *label, tdmi_id qkv, int heads)
{
    if (!usable(g, label, 1, &qkv))
        return -1;
    const tdmi_shape *s = &g->tensor[qkv].shape;
    const int64_t width = s->ndim == 3 ? s->dims[2] / 3 : 0;
    if (heads < 1 || width % heads != 0)
        return tdmi_graph_fail(g, "attention %s: the width %lld is not divisible by %d heads", label, (long long)width, heads);
    draft d = begin(TDMI_OP_ATTENTION, label);
    d.node.in[0] = qkv;
    d.node.attr.heads = heads;
    d.out[0] = rows_shape(s, width);
    d.out[1] = (tdmi_shape){TDM_F32, 3, {s->dims[0], heads, s->dims[1]}};
    return finish(g, &d);
}

tdmi_id tdmi_dropout(tdmi_graph *g, const char *label, tdmi_id x, float p)
{
    if (!usable(g, label, 1, &x))
        return -1;
    if (p == 0)
        return x;
    draft mask = begin(TDMI_OP_DRAW_MASK, label), d = begin(TDMI_OP_DROPOUT, label);
    for (int i = 0; i < g->node_count; i++)
        mask.node.attr.counter += g->node[i].op == TDMI_OP_DRAW_MASK;
    mask.node.attr.p = d.node.attr.p = p;
    mask.out[0] = d.out[0] = g->tensor[x].shape;
    mask.out[0].dtype = TDM_U8;
    d.node.in[0] = x;
    d.node.in[1] = finish(g, &mask);
    return d.node.in[1] < 0 ? -1 : finish(g, &d);
}

tdmi_id tdmi_cross_entropy_part(tdmi_graph *g, const char *label, tdmi_id logits, tdmi_id targets)
{
    if (!usable(g, label, 2, (const tdmi_id[]){logits, targets}))
        return -1;
    draft d = begin(TDMI_OP_CROSS_ENTROPY, label);
    d.node.attr.micro_batches = 1;
    memcpy(d.node.in, (const tdmi_id[]){logits, targets}, 2 * sizeof(tdmi_id));
    d.out[0] = (tdmi_shape){TDM_F32, 1, {1}};
    d.out[1] = without_last(&g->tensor[logits].shape, TDM_F32);
    return finish(g, &d);
}

static tdmi_id set_loss(tdmi_graph *g, tdmi_id loss)
{
    g->loss = loss;
    tdmi_graph_output(g, loss);
    return loss;
}

static bool has_no_loss(tdmi_graph *g, const char *label)
{
    if (g->status == TDM_OK && g->loss >= 0)
        (void)tdmi_graph_fail(g, "%s: graph %s has a loss already, %s", label, g->name, g->tensor[g->loss].name);
    return g->status == TDM_OK;
}

tdmi_id tdmi_cross_entropy(tdmi_graph *g, const char *label, tdmi_id logits, tdmi_id targets)
{
    return has_no_loss(g, label) ? set_loss(g, tdmi_cross_entropy_part(g, label, logits, targets)) : -1;
}

tdmi_id tdmi_loss_sum(tdmi_graph *g, const char *label, int count, const tdmi_id *parts, const float *weights)
{
    if (count < 1 || count > TDMI_LOSSES_MAX)
        return tdmi_graph_fail(g, "%s: a sum of %d losses; it takes 1 to %d", label, count, TDMI_LOSSES_MAX);
    if (!has_no_loss(g, label) || !usable(g, label, count, parts))
        return -1;
    draft d = begin(TDMI_OP_LOSS_SUM, label);
    memcpy(d.node.in, parts, (size_t)count * sizeof *parts);
    memcpy(d.node.attr.weight, weights, (size_t)count * sizeof *weights);
    d.out[0] = (tdmi_shape){TDM_F32, 1, {1}};
    return set_loss(g, finish(g, &d));
}

tdmi_id tdmi_custom(tdmi_graph *g, const char *label, const tdm_own_op *own, int count, const tdmi_id *in, int ndim, const int64_t *dims)
{
    if (count < 1 || count > TDM_OWN_OP_INPUTS)
        return tdmi_graph_fail(g, "%s: an op of %d inputs; it takes 1 to %d", label, count, TDM_OWN_OP_INPUTS);
    if (!usable(g, label, count, in))
        return -1;
    draft d = begin(TDMI_OP_CUSTOM, label);
    memcpy(d.node.in, in, (size_t)count * sizeof *in);
    d.node.attr.own = own;
    d.out[0] = shape_of(TDM_F32, ndim, dims);
    return finish(g, &d);
}

tdmi_id tdmi_reshape(tdmi_graph *g, tdmi_id x, int ndim, const int64_t *dims)
{
    if (!usable(g, "reshape", 1, &x))
        return -1;
    tdmi_tensor t = g->tensor[x];
    t.shape = shape_of(t.shape.dtype, ndim, dims);
    char from[TDMI_SHAPE_TEXT_MAX], to[TDMI_SHAPE_TEXT_MAX];
    if (t.role != TDMI_ROLE_ACTIVATION || tdmi_shape_fault(&t.shape) != NULL ||
        tdmi_shape_count(&t.shape) != tdmi_shape_count(&g->tensor[x].shape))
        return tdmi_graph_fail(g, "%s %s cannot be seen as %s: it must be an activation with as many elements", t.name,
                    tdmi_shape_text(&g->tensor[x].shape, from), tdmi_shape_text(&t.shape, to));
    t.alias = x;
    t.producer = -1;
    return tdmi_graph_add_tensor(g, &t);
}

void tdmi_graph_output(tdmi_graph *g, tdmi_id x)
{
    if (!usable(g, "output", 1, &x))
        return;
    tdmi_tensor *t = &g->tensor[x];
    if (t->role != TDMI_ROLE_ACTIVATION || t->alias >= 0)
        (void)tdmi_graph_fail(g, "%s cannot be an output of graph %s: only what a node computes can", t->name, g->name);
    else if (tdmi_graph_find(g, t->name) != x)
        (void)tdmi_graph_fail(g, "graph %s has two tensors named %s, so the second can be no output", g->name, t->name);
    else
        t->role = TDMI_ROLE_OUTPUT;
}
