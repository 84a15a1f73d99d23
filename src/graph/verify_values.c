/* verify_values.c - walks the nodes as the executor will and follows which value each piece of memory holds: by aliases,
 * and once memory is placed, by address. A read of a value that is not there yet, or no longer, is the fault. */
#include "core/memory.h"
#include "graph/verify.h"

/* What the memory of one root tensor holds while the list is walked. */
typedef struct cell {
    tdmi_id value; /* the tensor whose value it holds, -1: none yet, or destroyed */
    int writer;    /* the node that wrote or destroyed it last, -1: none */
} cell;

/* A view (reshape) has the value of what it views. */
static tdmi_id value_of(const tdmi_graph *g, tdmi_id t)
{
    while (g->tensor[t].producer < 0 && g->tensor[t].alias >= 0)
        t = g->tensor[t].alias;
    return t;
}

static bool in_slab(const tdmi_graph *g, tdmi_id root)
{
    const tdmi_role role = g->tensor[root].role;
    return g->slab_nbytes > 0 && role != TDMI_ROLE_PARAMETER && role != TDMI_ROLE_COPY &&
           role != TDMI_ROLE_GRADIENT;
}

static bool overlap(const tdmi_graph *g, tdmi_id a, tdmi_id b)
{
    const tdmi_tensor *x = &g->tensor[a], *y = &g->tensor[b];
    return x->offset < y->offset + tdmi_shape_nbytes(&y->shape) && y->offset < x->offset + tdmi_shape_nbytes(&x->shape);
}

static tdm_status check_placement(const tdmi_graph *g)
{
    for (int t = 0; t < g->tensor_count; t++) {
        const tdmi_tensor *x = &g->tensor[t];
        const tdmi_id root = tdmi_graph_root(g, t);
        if (!in_slab(g, root))
            continue;
        if (x->offset % 64 != 0)
            return tdmi_verify_fail(g, -1, "%s lies at %zu, not on a cache line", x->name, x->offset);
        if (x->offset > g->slab_nbytes || tdmi_shape_nbytes(&x->shape) > g->slab_nbytes - x->offset)
            return tdmi_verify_fail(g, -1, "%s ends behind the slab of %zu bytes", x->name, g->slab_nbytes);
        if (x->offset != g->tensor[root].offset)
            return tdmi_verify_fail(g, -1, "%s lies apart from %s, whose memory it shares", x->name, g->tensor[root].name);
    }
    return TDM_OK;
}

static tdm_status check_read(const tdmi_graph *g, const cell *cells, int node, tdmi_id t)
{
    const cell *c = &cells[tdmi_graph_root(g, t)];
    const tdmi_id value = value_of(g, t);
    if (c->value == value)
        return TDM_OK;
    if (g->tensor[value].producer >= node)
        return tdmi_verify_fail(g, node, "it reads %s before node %d makes it", g->tensor[t].name, g->tensor[value].producer);
    return tdmi_verify_fail(g, node, "it reads %s, which node %d (%s) has overwritten", g->tensor[t].name, c->writer,
                            tdmi_op_text(g->node[c->writer].op));
}

/* The input whose memory root is, or -1. */
static int input_in(const tdmi_graph *g, const tdmi_node *n, tdmi_id root)
{
    for (int k = 0; k < n->in_count; k++)
        if (n->in[k] >= 0 && tdmi_graph_root(g, n->in[k]) == root)
            return k;
    return -1;
}

/* An output that shares memory must add to it, or take it from an input the op allows. */
static tdm_status check_write(const tdmi_graph *g, const cell *cells, int node, int k)
{
    const tdmi_node *n = &g->node[node];
    const tdmi_tensor *t = &g->tensor[n->out[k]];
    const tdmi_id root = tdmi_graph_root(g, n->out[k]);
    const bool adds = (n->attr.accumulate >> k & 1u) != 0;
    const int input = input_in(g, n, root);
    if (adds && t->alias < 0)
        return tdmi_verify_fail(g, node, "it adds to %s, which shares no earlier memory", t->name);
    if (adds && input >= 0)
        return tdmi_verify_fail(g, node, "it adds to %s in the memory of its input %s", t->name, tdmi_op_in_name(n->op, input));
    if (adds && cells[root].value != value_of(g, t->alias))
        return tdmi_verify_fail(g, node, "it adds to %s, but %s is not in that memory", t->name, g->tensor[t->alias].name);
    if (!adds && t->alias >= 0 && input < 0)
        return tdmi_verify_fail(g, node, "it overwrites %s without adding to it", g->tensor[t->alias].name);
    for (int i = 0; i < n->in_count && !adds && t->alias >= 0; i++)
        if (n->in[i] >= 0 && tdmi_graph_root(g, n->in[i]) == root &&
            (k != 0 || (tdmi_op_info_of(n->op)->in_place >> i & 1u) == 0))
            return tdmi_verify_fail(g, node, "it cannot write %s in the memory of its input %s", t->name,
                                    tdmi_op_in_name(n->op, i));
    return TDM_OK;
}

/* Writing root destroys what else lies there. */
static tdm_status write(const tdmi_graph *g, cell *cells, int node, tdmi_id t)
{
    const tdmi_node *n = &g->node[node];
    const tdmi_id root = tdmi_graph_root(g, t);
    for (int q = 0; q < g->tensor_count && in_slab(g, root); q++) {
        if (q == root || g->tensor[q].alias >= 0 || !in_slab(g, q) || !overlap(g, root, q))
            continue;
        if (input_in(g, n, q) >= 0)
            return tdmi_verify_fail(g, node, "its output %s lies on its input %s", g->tensor[t].name, g->tensor[q].name);
        if (cells[q].writer == node && cells[q].value >= 0)
            return tdmi_verify_fail(g, node, "its outputs %s and %s lie on each other", g->tensor[t].name, g->tensor[q].name);
        cells[q].value = -1;
        cells[q].writer = node;
    }
    if (cells[root].writer == node && cells[root].value >= 0)
        return tdmi_verify_fail(g, node, "two outputs share the memory of %s", g->tensor[root].name);
    cells[root] = (cell){.value = t, .writer = node};
    return TDM_OK;
}

static tdm_status walk(const tdmi_graph *g, cell *cells)
{
    for (int i = 0; i < g->node_count; i++) {
        const tdmi_node *n = &g->node[i];
        tdm_status st = TDM_OK;
        for (int k = 0; k < n->in_count && st == TDM_OK; k++)
            if (n->in[k] >= 0)
                st = check_read(g, cells, i, n->in[k]);
        for (int k = 0; k < n->out_count && st == TDM_OK; k++)
            if (n->out[k] >= 0)
                st = check_write(g, cells, i, k);
        for (int k = 0; k < n->out_count && st == TDM_OK; k++)
            if (n->out[k] >= 0)
                st = write(g, cells, i, n->out[k]);
        if (st != TDM_OK)
            return st;
    }
    return TDM_OK;
}

/* What must still be there after the last node. */
static tdm_status check_end(const tdmi_graph *g, const cell *cells)
{
    for (int t = 0; t < g->tensor_count; t++) {
        const tdmi_tensor *x = &g->tensor[t];
        const tdmi_id kept = x->role == TDMI_ROLE_PARAMETER ? x->gradient : t;
        const bool keeps = (x->role == TDMI_ROLE_PARAMETER && kept >= 0) || x->role == TDMI_ROLE_OUTPUT ||
                           x->role == TDMI_ROLE_INPUT;
        if (!keeps)
            continue;
        const cell *c = &cells[tdmi_graph_root(g, kept)];
        if (c->value != value_of(g, kept))
            return tdmi_verify_fail(g, c->writer, "%s must hold to the end of the step, but is overwritten here",
                                    g->tensor[kept].name);
    }
    return TDM_OK;
}

tdm_status tdmi_verify_values(const tdmi_graph *g)
{
    tdm_status st = check_placement(g);
    if (st != TDM_OK)
        return st;
    cell *cells = tdmi_calloc((size_t)g->tensor_count + 1, sizeof *cells, "verify");
    if (cells == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int t = 0; t < g->tensor_count; t++) {
        const tdmi_role role = g->tensor[t].role;
        cells[t] = (cell){.value = role == TDMI_ROLE_INPUT || role == TDMI_ROLE_PARAMETER || role == TDMI_ROLE_COPY ? t : -1, .writer = -1};
    }
    st = walk(g, cells);
    if (st == TDM_OK)
        st = check_end(g, cells);
    tdmi_free(cells);
    return st;
}
