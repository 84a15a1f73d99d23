/* verify.c - the structure of a graph: each tensor and node for itself. verify_values.c and verify_update.c hold the rules
 * on their order. */
#include "graph/verify.h"

#include "graph/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tdm_status tdmi_verify_fail(const tdmi_graph *g, int node, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (node < 0)
        return tdmi_fail(TDM_ERR_INTERNAL, "graph %s breaks a rule: %s", g->name, text);
    const tdmi_node *n = &g->node[node];
    if (n->attr.bucket >= 0)
        return tdmi_fail(TDM_ERR_INTERNAL, "graph %s breaks a rule at node %d (%s of bucket %d): %s", g->name, node,
                         tdmi_op_text(n->op), n->attr.bucket, text);
    return tdmi_fail(TDM_ERR_INTERNAL, "graph %s breaks a rule at node %d (%s %s): %s", g->name, node,
                     tdmi_op_text(n->op), n->label, text);
}

static bool is_terminated(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static bool is_computed(tdmi_role role)
{
    return role == TDMI_ROLE_ACTIVATION || role == TDMI_ROLE_GRADIENT || role == TDMI_ROLE_OUTPUT;
}

static tdm_status check_alias(const tdmi_graph *g, int id)
{
    const tdmi_tensor *t = &g->tensor[id];
    if (t->alias >= id)
        return tdmi_verify_fail(g, -1, "%s shares the memory of a later tensor (%d)", t->name, t->alias);
    const tdmi_tensor *of = &g->tensor[t->alias];
    if (!is_computed(t->role) || !is_computed(of->role))
        return tdmi_verify_fail(g, -1, "%s (%s) shares the memory of %s (%s)", t->name, tdmi_role_text(t->role),
                                of->name, tdmi_role_text(of->role));
    if ((t->role == TDMI_ROLE_GRADIENT) != (of->role == TDMI_ROLE_GRADIENT))
        return tdmi_verify_fail(g, -1, "%s shares memory with %s, but only one of them lies in a bucket", t->name, of->name);
    if (tdmi_shape_nbytes(&t->shape) != tdmi_shape_nbytes(&of->shape) || t->shape.dtype != of->shape.dtype)
        return tdmi_verify_fail(g, -1, "%s shares the memory of %s but has another size", t->name, of->name);
    return TDM_OK;
}

static tdm_status check_gradient(const tdmi_graph *g, int id)
{
    const tdmi_tensor *t = &g->tensor[id];
    if (t->role == TDMI_ROLE_GRADIENT) {
        if (t->parameter < 0 || t->parameter >= g->tensor_count || g->tensor[t->parameter].role != TDMI_ROLE_PARAMETER)
            return tdmi_verify_fail(g, -1, "%s is the gradient of no parameter", t->name);
        tdmi_shape expected = g->tensor[t->parameter].shape;
        expected.dtype = g->gradient_type;
        if (!tdmi_shape_equal(&t->shape, &expected))
            return tdmi_verify_fail(g, -1, "%s has another shape than its parameter", t->name);
    }
    if (t->role == TDMI_ROLE_COPY &&
        (t->parameter < 0 || t->parameter >= g->tensor_count || g->tensor[t->parameter].role != TDMI_ROLE_PARAMETER ||
         tdmi_shape_count(&t->shape) != tdmi_shape_count(&g->tensor[t->parameter].shape)))
        return tdmi_verify_fail(g, -1, "%s is the copy of no parameter of its size", t->name);
    if (t->role == TDMI_ROLE_PARAMETER && t->gradient >= 0) {
        if (t->gradient >= g->tensor_count || g->tensor[t->gradient].role != TDMI_ROLE_GRADIENT ||
            g->tensor[t->gradient].parameter != id)
            return tdmi_verify_fail(g, -1, "the gradient of parameter %s belongs to something else", t->name);
    }
    return TDM_OK;
}

static tdm_status check_tensor(const tdmi_graph *g, int id)
{
    const tdmi_tensor *t = &g->tensor[id];
    if (!is_terminated(t->name, sizeof t->name) || t->name[0] == '\0')
        return tdmi_verify_fail(g, -1, "tensor %d has no name", id);
    const char *fault = tdmi_shape_fault(&t->shape);
    if (fault != NULL)
        return tdmi_verify_fail(g, -1, "the shape of %s: %s", t->name, fault);
    if ((unsigned)t->role > TDMI_ROLE_OUTPUT)
        return tdmi_verify_fail(g, -1, "%s has the role %d, which does not exist", t->name, (int)t->role);
    if (t->producer >= g->node_count || (t->producer >= 0 && !is_computed(t->role)))
        return tdmi_verify_fail(g, -1, "%s (%s) cannot be made by node %d", t->name, tdmi_role_text(t->role), t->producer);
    if (is_computed(t->role) && t->producer < 0 && t->alias < 0)
        return tdmi_verify_fail(g, -1, "no node makes %s", t->name);
    tdm_status st = t->alias >= 0 ? check_alias(g, id) : TDM_OK;
    return st == TDM_OK ? check_gradient(g, id) : st;
}

static tdm_status check_operands(const tdmi_graph *g, int i)
{
    const tdmi_node *n = &g->node[i];
    const tdmi_shape *in[TDMI_NODE_IN_MAX] = {NULL}, *out[TDMI_NODE_OUT_MAX] = {NULL};
    for (int k = 0; k < n->in_count; k++) {
        if (n->in[k] >= g->tensor_count)
            return tdmi_verify_fail(g, i, "input %s is tensor %d of %d", tdmi_op_in_name(n->op, k), n->in[k], g->tensor_count);
        in[k] = n->in[k] >= 0 ? &g->tensor[n->in[k]].shape : NULL;
    }
    for (int k = 0; k < n->out_count; k++) {
        if (n->out[k] >= g->tensor_count)
            return tdmi_verify_fail(g, i, "output %s is tensor %d of %d", tdmi_op_out_name(n->op, k), n->out[k], g->tensor_count);
        out[k] = n->out[k] >= 0 ? &g->tensor[n->out[k]].shape : NULL;
        if (n->out[k] >= 0 && g->tensor[n->out[k]].producer != i)
            return tdmi_verify_fail(g, i, "it makes %s, which is made by node %d", g->tensor[n->out[k]].name,
                                    g->tensor[n->out[k]].producer);
    }
    const char *fault = tdmi_op_fault(n->op, &n->attr, in, out);
    return fault == NULL ? TDM_OK : tdmi_verify_fail(g, i, "%s", fault);
}

static tdm_status check_node(const tdmi_graph *g, int i)
{
    const tdmi_node *n = &g->node[i];
    if ((unsigned)n->op >= TDMI_OP_COUNT)
        return tdmi_verify_fail(g, i, "op %d does not exist", (int)n->op);
    if (!is_terminated(n->label, sizeof n->label))
        return tdmi_verify_fail(g, -1, "the label of node %d has no end", i);
    const tdmi_op_info *info = tdmi_op_info_of(n->op);
    if (n->in_count != info->in_count || n->out_count != info->out_count)
        return tdmi_verify_fail(g, i, "it has %d inputs and %d outputs instead of %d and %d", n->in_count, n->out_count,
                                info->in_count, info->out_count);
    for (int j = 0; n->op == TDMI_OP_DRAW_MASK && j < i; j++)
        if (!n->attr.again && g->node[j].op == TDMI_OP_DRAW_MASK && g->node[j].attr.counter == n->attr.counter)
            return tdmi_verify_fail(g, i, "it draws the same numbers as node %d (%s)", j, g->node[j].label);
    return check_operands(g, i);
}

/* Forward, then backward with communication between its nodes, then the optimizer. */
static tdm_status check_phases(const tdmi_graph *g)
{
    tdmi_phase reached = TDMI_PHASE_FORWARD;
    for (int i = 0; i < g->node_count; i++) {
        const tdmi_phase phase = g->node[i].phase;
        if ((unsigned)phase > TDMI_PHASE_OPTIMIZER)
            return tdmi_verify_fail(g, i, "phase %d does not exist", (int)phase);
        if (phase == TDMI_PHASE_COMMUNICATION)
            continue;
        if (phase < reached)
            return tdmi_verify_fail(g, i, "a %s node after a %s node", tdmi_phase_text(phase), tdmi_phase_text(reached));
        reached = phase;
    }
    return TDM_OK;
}

static bool makes(const tdmi_node *n, tdmi_id t)
{
    for (int k = 0; k < n->out_count; k++)
        if (n->out[k] == t)
            return true;
    return false;
}

tdm_status tdmi_verify_structure(const tdmi_graph *g)
{
    for (int t = 0; t < g->tensor_count; t++) {
        tdm_status st = check_tensor(g, t);
        if (st != TDM_OK)
            return st;
    }
    for (int i = 0; i < g->node_count; i++) {
        tdm_status st = check_node(g, i);
        if (st != TDM_OK)
            return st;
    }
    for (int t = 0; t < g->tensor_count; t++)
        if (g->tensor[t].producer >= 0 && !makes(&g->node[g->tensor[t].producer], t))
            return tdmi_verify_fail(g, g->tensor[t].producer, "it should make %s, but does not", g->tensor[t].name);
    if (g->loss >= g->tensor_count || (g->loss >= 0 && g->tensor[g->loss].role != TDMI_ROLE_OUTPUT))
        return tdmi_verify_fail(g, -1, "the loss is no output");
    return check_phases(g);
}

tdm_status tdmi_graph_verify(const tdmi_graph *g)
{
    tdm_status st = tdmi_graph_status(g);
    if (st == TDM_OK)
        st = tdmi_verify_structure(g);
    if (st == TDM_OK)
        st = tdmi_verify_values(g);
    if (st == TDM_OK)
        st = tdmi_verify_updates(g);
    return st == TDM_OK ? tdmi_verify_gathers(g) : st;
}
