/* autodiff.c - the backward nodes, from the loss up: each forward node turns the gradient of its output into contributions
 * to the gradients of its inputs.
 *
 * A second contribution to one tensor is added inside the node that computes it (attr.accumulate) where the op can, else by
 * an ADD. Adding happens in place only if no other gradient still needs that memory: a residual hands its gradient to both
 * inputs without a copy, so for a while two tensors share one. Weight gradients come before input gradients, so that an
 * activation is free before memory for the input's gradient is needed. */
#include "core/memory.h"
#include "passes/passes.h"

#include <stdio.h>
#include <string.h>

typedef struct tape {
    tdmi_graph *g;
    tdmi_id *gradient; /* [tensor_count of the forward graph], at the root: its gradient so far while it is needed, or -1 */
    bool *needed;      /* whether a parameter is among what the tensor depends on */
    int tensors;       /* of the forward graph */
} tape;

/* A node under construction: of[k] is the forward tensor whose gradient output k contributes to. */
typedef struct draft {
    tdmi_node node;
    tdmi_id of[TDMI_NODE_OUT_MAX];
} draft;

static draft begin(const tdmi_node *forward, tdmi_op op)
{
    draft d = {.node = *forward, .of = {-1, -1, -1, -1}};
    d.node.op = op;
    d.node.phase = TDMI_PHASE_BACKWARD;
    d.node.attr.accumulate = 0;
    d.node.in_count = tdmi_op_info_of(op)->in_count;
    d.node.out_count = tdmi_op_info_of(op)->out_count;
    for (int k = 0; k < TDMI_NODE_IN_MAX; k++)
        d.node.in[k] = -1;
    for (int k = 0; k < TDMI_NODE_OUT_MAX; k++)
        d.node.out[k] = -1;
    return d;
}

/* What x is derived as: a copy as its parameter, a view as its root. */
static tdmi_id source_of(const tape *t, tdmi_id x)
{
    const tdmi_id root = tdmi_graph_root(t->g, x);
    return t->g->tensor[root].role == TDMI_ROLE_COPY ? t->g->tensor[root].parameter : root;
}

static tdmi_id *gradient_of(tape *t, tdmi_id x)
{
    const tdmi_id root = tdmi_graph_root(t->g, x);
    return t->g->tensor[root].role == TDMI_ROLE_PARAMETER ? &t->g->tensor[root].gradient : &t->gradient[root];
}

static tdmi_id new_gradient(tape *t, tdmi_id of, tdmi_id alias)
{
    const tdmi_tensor *x = &t->g->tensor[of];
    const bool is_parameter = x->role == TDMI_ROLE_PARAMETER;
    tdmi_shape shape = x->shape;
    if (is_parameter)
        shape.dtype = t->g->gradient_type;
    tdmi_tensor d = {.shape = shape, .role = is_parameter ? TDMI_ROLE_GRADIENT : TDMI_ROLE_ACTIVATION, .producer = -1,
                     .alias = alias, .gradient = -1, .parameter = is_parameter ? of : -1, .bucket = -1};
    snprintf(d.name, sizeof d.name, "d.%.*s", (int)sizeof d.name - 3, x->name);
    return tdmi_graph_add_tensor(t->g, &d);
}

/* The same memory in the shape of x. */
static tdmi_id seen_as(tape *t, tdmi_id gradient, tdmi_id x)
{
    if (gradient < 0 || t->g->tensor[x].role == TDMI_ROLE_PARAMETER || tdmi_shape_equal(&t->g->tensor[gradient].shape, &t->g->tensor[x].shape))
        return gradient;
    return new_gradient(t, x, gradient);
}

/* Whether a node may add to the memory of `sum`, the gradient of root so far: no other gradient that is still needed lives
 * there, that of the output whose node this is included. */
static bool may_add(const tape *t, tdmi_id sum, tdmi_id root)
{
    const tdmi_id memory = tdmi_graph_root(t->g, sum);
    for (int u = 0; u < t->tensors; u++)
        if (u != root && t->gradient[u] >= 0 && tdmi_graph_root(t->g, t->gradient[u]) == memory)
            return false;
    return true;
}

/* Whether output k is the gradient of a weight, whose type it has even where nobody needs it. */
static bool is_of_weight(tdmi_op op, int k)
{
    return op == TDMI_OP_LINEAR_BACKWARD_WEIGHT || (op == TDMI_OP_LAYERNORM_BACKWARD && k > 0);
}

/* Whether an output before k is a contribution to the same gradient: an op that has one tensor as two inputs. */
static bool has_another(const tape *t, const draft *d, int k, tdmi_id root)
{
    for (int j = 0; j < k; j++)
        if (d->of[j] >= 0 && tdmi_graph_root(t->g, d->of[j]) == root)
            return true;
    return false;
}

/* Output k of the draft is a contribution to the gradient of x, or, where that is not needed, goes nowhere. */
static void output(tape *t, draft *d, int k, tdmi_id x)
{
    if (t->g->tensor[x].role == TDMI_ROLE_COPY)
        x = t->g->tensor[x].parameter;
    const tdmi_id root = tdmi_graph_root(t->g, x), sum = *gradient_of(t, x);
    tdmi_id into = -1;
    if (!t->needed[root] && (tdmi_op_info_of(d->node.op)->optional_out >> k & 1u) != 0)
        return;
    if (t->needed[root]) {
        d->of[k] = x;
        if (sum >= 0 && (tdmi_op_info_of(d->node.op)->accumulates >> k & 1u) != 0 && may_add(t, sum, root) &&
            !has_another(t, d, k, root)) {
            into = sum;
            d->node.attr.accumulate |= 1u << k;
        }
    }
    d->node.out[k] = new_gradient(t, x, into);
    if (!t->needed[root] && is_of_weight(d->node.op, k) && d->node.out[k] >= 0)
        t->g->tensor[d->node.out[k]].shape.dtype = t->g->gradient_type;
}

/* A parameter's gradient has one memory, its bucket: all its uses must be able to add to it. */
static void refuse(tape *t, const tdmi_node *forward, tdmi_id parameter)
{
    snprintf(t->g->status_text, sizeof t->g->status_text, "parameter %s cannot be used by %s %s: it could not add to its gradient",
             t->g->tensor[parameter].name, tdmi_op_text(forward->op), forward->label);
    t->g->status = TDM_ERR_UNSUPPORTED;
}

/* `fresh` is a contribution to the gradient of x, in x's shape. */
static void contribute(tape *t, const tdmi_node *forward, tdmi_id x, tdmi_id fresh)
{
    const tdmi_id root = tdmi_graph_root(t->g, x), sum = *gradient_of(t, x);
    fresh = seen_as(t, fresh, root);
    if (t->g->tensor[root].role == TDMI_ROLE_PARAMETER && (sum >= 0 || t->g->tensor[fresh].role != TDMI_ROLE_GRADIENT)) {
        refuse(t, forward, root);
        return;
    }
    if (sum >= 0) {
        draft add = begin(forward, TDMI_OP_ADD);
        add.node.in[0] = sum;
        add.node.in[1] = fresh;
        add.node.out[0] = fresh = new_gradient(t, root, -1);
        (void)tdmi_graph_add_node(t->g, &add.node);
    }
    *gradient_of(t, x) = fresh;
}

static void finish(tape *t, const tdmi_node *forward, draft *d)
{
    (void)tdmi_graph_add_node(t->g, &d->node);
    for (int k = 0; k < d->node.out_count && t->g->status == TDM_OK; k++) {
        if (d->of[k] < 0)
            continue;
        const tdmi_id root = tdmi_graph_root(t->g, d->of[k]);
        if (t->g->micro_batches > 1 && t->g->tensor[root].role == TDMI_ROLE_PARAMETER &&
            (tdmi_op_info_of(d->node.op)->accumulates >> k & 1u) == 0)
            refuse(t, forward, root); /* nor that of the next micro-batch */
        if ((d->node.attr.accumulate >> k & 1u) != 0)
            *gradient_of(t, d->of[k]) = seen_as(t, d->node.out[k], tdmi_graph_root(t->g, d->of[k]));
        else
            contribute(t, forward, d->of[k], d->node.out[k]);
    }
}

static void inputs(draft *d, int count, const tdmi_id *in)
{
    memcpy(d->node.in, in, (size_t)count * sizeof *in);
}

static void linear(tape *t, const tdmi_node *n, tdmi_id dy)
{
    const tdmi_id x = n->in[0], w = n->in[1], b = n->in[2];
    if (t->needed[source_of(t, w)] || (b >= 0 && t->needed[source_of(t, b)])) {
        draft d = begin(n, TDMI_OP_LINEAR_BACKWARD_WEIGHT);
        inputs(&d, 2, (const tdmi_id[]){dy, x});
        output(t, &d, 0, w);
        if (b >= 0)
            output(t, &d, 1, b);
        finish(t, n, &d);
    }
    if (t->needed[source_of(t, x)]) {
        draft d = begin(n, TDMI_OP_LINEAR_BACKWARD_INPUT);
        inputs(&d, 2, (const tdmi_id[]){dy, w});
        output(t, &d, 0, x);
        finish(t, n, &d);
    }
}

static void embedding(tape *t, const tdmi_node *n, tdmi_id dy)
{
    draft d = begin(n, TDMI_OP_EMBEDDING_BACKWARD);
    inputs(&d, 2, (const tdmi_id[]){dy, n->in[0]});
    output(t, &d, 0, n->in[1]);
    if (n->in[2] >= 0)
        output(t, &d, 1, n->in[2]);
    finish(t, n, &d);
}

static void layernorm(tape *t, const tdmi_node *n, tdmi_id dy)
{
    draft d = begin(n, TDMI_OP_LAYERNORM_BACKWARD);
    inputs(&d, 5, (const tdmi_id[]){dy, n->in[0], n->in[1], n->out[1], n->out[2]});
    for (int k = 0; k < 3; k++)
        output(t, &d, k, n->in[k]);
    finish(t, n, &d);
}

static void custom(tape *t, const tdmi_node *n, tdmi_id dy)
{
    draft d = begin(n, TDMI_OP_CUSTOM_BACKWARD);
    inputs(&d, 6, (const tdmi_id[]){dy, n->out[0], n->in[0], n->in[1], n->in[2], n->in[3]});
    for (int k = 0; k < n->in_count; k++)
        if (n->in[k] >= 0)
            output(t, &d, k, n->in[k]);
    finish(t, n, &d);
}

static void loss_sum(tape *t, const tdmi_node *n)
{
    draft d = begin(n, TDMI_OP_LOSS_SUM_BACKWARD);
    d.node.in[0] = tdmi_graph_find(t->g, TDMI_LOSS_SCALE);
    for (int k = 0; k < n->in_count; k++)
        if (n->in[k] >= 0)
            output(t, &d, k, n->in[k]);
    finish(t, n, &d);
}

/* The ops whose backward has one output, the gradient of input 0. */
static void simple(tape *t, const tdmi_node *n, tdmi_op op, int count, const tdmi_id *in)
{
    draft d = begin(n, op);
    inputs(&d, count, in);
    output(t, &d, 0, n->in[0]);
    finish(t, n, &d);
}

/* dy is x's gradient too, in x's type. */
static void pass_on(tape *t, const tdmi_node *n, tdmi_id x, tdmi_id dy)
{
    if (t->g->tensor[x].shape.dtype == t->g->tensor[dy].shape.dtype) {
        contribute(t, n, x, dy);
        return;
    }
    draft d = begin(n, TDMI_OP_CAST);
    inputs(&d, 1, &dy);
    output(t, &d, 0, x);
    finish(t, n, &d);
}

static tdm_status backward_of(tape *t, const tdmi_node *n, tdmi_id dy)
{
    switch (n->op) {
    case TDMI_OP_EMBEDDING: embedding(t, n, dy); break;
    case TDMI_OP_LINEAR: linear(t, n, dy); break;
    case TDMI_OP_LAYERNORM: layernorm(t, n, dy); break;
    case TDMI_OP_RESIDUAL:
        for (int k = 0; k < 2; k++)
            if (t->needed[source_of(t, n->in[k])])
                pass_on(t, n, n->in[k], dy);
        break;
    case TDMI_OP_CAST: pass_on(t, n, n->in[0], dy); break;
    case TDMI_OP_GELU: simple(t, n, TDMI_OP_GELU_BACKWARD, 2, (const tdmi_id[]){dy, n->in[0]}); break;
    case TDMI_OP_ATTENTION:
        simple(t, n, TDMI_OP_ATTENTION_BACKWARD, 4, (const tdmi_id[]){dy, n->in[0], n->out[0], n->out[1]});
        break;
    case TDMI_OP_DROPOUT: simple(t, n, TDMI_OP_DROPOUT_BACKWARD, 2, (const tdmi_id[]){dy, n->in[1]}); break;
    case TDMI_OP_CROSS_ENTROPY:
        simple(t, n, TDMI_OP_CROSS_ENTROPY_BACKWARD, 4,
               (const tdmi_id[]){n->in[0], n->in[1], n->out[1], dy >= 0 ? dy : tdmi_graph_find(t->g, TDMI_LOSS_SCALE)});
        break;
    case TDMI_OP_CUSTOM: custom(t, n, dy); break;
    case TDMI_OP_LOSS_SUM: loss_sum(t, n); break;
    default:
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "%s %s has no gradient", tdmi_op_text(n->op), n->label);
    }
    return tdmi_graph_status(t->g);
}

/* A tensor's gradient is needed if it is a parameter or is computed from one. */
static void mark_needed(tape *t)
{
    for (int x = 0; x < t->tensors; x++) {
        t->gradient[x] = -1;
        t->needed[x] = t->g->tensor[x].role == TDMI_ROLE_PARAMETER;
    }
    for (int i = 0; i < t->g->node_count; i++) {
        const tdmi_node *n = &t->g->node[i];
        for (int k = 0; k < n->in_count; k++)
            if (n->in[k] >= 0 && t->needed[source_of(t, n->in[k])])
                t->needed[n->out[0]] = true;
    }
}

static tdm_status run(tape *t)
{
    tdmi_graph *g = t->g;
    mark_needed(t);
    for (int i = g->node_count - 1; i >= 0; i--) {
        const tdmi_node n = g->node[i]; /* a copy: the array grows */
        const tdmi_id y = n.out[0], dy = t->gradient[y];
        if (!t->needed[y] || (dy < 0 && y != g->loss))
            continue;
        tdm_status st = backward_of(t, &n, dy);
        if (st != TDM_OK)
            return st;
        t->gradient[y] = -1; /* all that read it are listed: its memory may be added to */
    }
    for (int x = 0; x < t->tensors; x++)
        if (g->tensor[x].role == TDMI_ROLE_PARAMETER && g->tensor[x].gradient < 0)
            return tdmi_fail(TDM_ERR_INVALID, "graph %s: the loss does not depend on parameter %s, so it would never learn",
                             g->name, g->tensor[x].name);
    return TDM_OK;
}

tdm_status tdmi_pass_autodiff(tdmi_graph *g)
{
    if (g->loss < 0)
        return tdmi_fail(TDM_ERR_INVALID, "graph %s has no loss to derive", g->name);
    for (int i = 0; i < g->node_count; i++)
        if (g->node[i].phase != TDMI_PHASE_FORWARD)
            return tdmi_fail(TDM_ERR_INVALID, "graph %s has backward nodes already", g->name);
    const size_t count = (size_t)g->tensor_count;
    tape t = {.g = g, .tensors = g->tensor_count};
    t.gradient = tdmi_malloc(count * sizeof *t.gradient, "autodiff");
    t.needed = tdmi_malloc(count * sizeof *t.needed, "autodiff");
    tdm_status st = t.gradient == NULL || t.needed == NULL ? TDM_ERR_NO_MEMORY : run(&t);
    tdmi_free(t.gradient);
    tdmi_free(t.needed);
    return st;
}
