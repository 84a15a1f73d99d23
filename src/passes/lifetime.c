/* lifetime.c - one walk over the nodes. */
#include "passes/lifetime.h"

#include "core/memory.h"

bool tdmi_lifetime_in_slab(const tdmi_graph *g, tdmi_id t)
{
    const tdmi_role role = g->tensor[t].role;
    return g->tensor[t].alias < 0 && role != TDMI_ROLE_PARAMETER && role != TDMI_ROLE_COPY && role != TDMI_ROLE_GRADIENT;
}

static void touch(tdmi_lifetime *life, tdmi_id t, int node)
{
    tdmi_lifetime *l = &life[life[t].root];
    if (node < l->first)
        l->first = node;
    if (node > l->last)
        l->last = node;
}

tdmi_lifetime *tdmi_lifetimes(const tdmi_graph *g)
{
    tdmi_lifetime *life = tdmi_malloc(((size_t)g->tensor_count + 1) * sizeof *life, "lifetimes");
    if (life == NULL)
        return NULL;
    for (int t = 0; t < g->tensor_count; t++) {
        const tdmi_id alias = g->tensor[t].alias;
        life[t] = (tdmi_lifetime){.root = alias < 0 ? t : life[alias].root, .first = g->node_count, .last = -1};
        if (g->tensor[t].role == TDMI_ROLE_INPUT)
            touch(life, t, -1);
        if (g->tensor[t].role == TDMI_ROLE_INPUT || g->tensor[t].role == TDMI_ROLE_OUTPUT)
            touch(life, t, g->node_count);
    }
    for (int i = 0; i < g->node_count; i++) {
        const tdmi_node *n = &g->node[i];
        for (int k = 0; k < n->in_count; k++)
            if (n->in[k] >= 0)
                touch(life, n->in[k], i);
        for (int k = 0; k < n->out_count; k++)
            if (n->out[k] >= 0)
                touch(life, n->out[k], i);
    }
    return life;
}
