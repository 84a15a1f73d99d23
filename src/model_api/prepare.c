/* prepare.c - from what the user has written to a graph that passes understand: one loss, and parameters that are all trained.
 *
 *     losses a, b with weights      ->  loss_sum(a, b)                 one cross_entropy of weight 1 is the loss itself
 *     frozen, unused parameters     ->  inputs that are filled once    no gradient, no bucket, no optimizer state: nothing knows them */
#include "model_api/internal.h"

#include "core/memory.h"

static tdm_status add_loss(const tdm_model *m, tdmi_graph *g)
{
    tdmi_id part[TDMI_LOSSES_MAX];
    float weight[TDMI_LOSSES_MAX];
    for (int i = 0; i < m->losses; i++) {
        part[i] = m->loss[i].id;
        weight[i] = m->loss[i].weight;
    }
    if (m->losses == 1 && weight[0] == 1.0f && g->node[g->tensor[part[0]].producer].op == TDMI_OP_CROSS_ENTROPY)
        g->loss = part[0];
    else if (m->losses > 0)
        (void)tdmi_loss_sum(g, "sum of losses", m->losses, part, weight);
    return tdmi_graph_status(g);
}

tdm_status model_graph(const tdm_model *m, bool training, tdmi_graph **out)
{
    tdm_status st = tdm_model_status(m);
    if (st != TDM_OK)
        return st;
    if (training && m->losses == 0)
        return tdmi_fail(TDM_ERR_INVALID, "model %s has no loss to train by: name one with tdm_model_loss", m->graph->name);
    tdmi_graph *g = tdmi_graph_copy(m->graph);
    if (g == NULL)
        return TDM_ERR_NO_MEMORY;
    st = add_loss(m, g);
    if (st == TDM_OK)
        *out = g;
    else
        tdmi_graph_destroy(g);
    return st;
}

/* Marks the memory that the loss is computed from. */
static bool *reached_by_loss(const tdmi_graph *g)
{
    bool *reached = tdmi_calloc((size_t)g->tensor_count, sizeof *reached, "model");
    if (reached == NULL)
        return NULL;
    reached[g->loss] = true;
    for (int i = g->node_count - 1; i >= 0; i--) {
        const tdmi_node *n = &g->node[i];
        if (!reached[tdmi_graph_root(g, n->out[0])])
            continue;
        for (int k = 0; k < n->in_count; k++)
            if (n->in[k] >= 0)
                reached[tdmi_graph_root(g, n->in[k])] = true;
    }
    return reached;
}

tdm_status model_keep_untrained(const tdm_model *m, bool allow_unused, tdmi_graph *g)
{
    bool *reached = reached_by_loss(g);
    tdm_status st = reached == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    int trained = 0;
    for (int i = 0; i < m->parameters && st == TDM_OK; i++) {
        tdmi_tensor *t = &g->tensor[m->parameter[i].id];
        const bool used = reached[m->parameter[i].id];
        if (!used && !m->parameter[i].how.frozen && !allow_unused)
            st = tdmi_fail(TDM_ERR_INVALID, "model %s: the loss does not depend on parameter %s, so it would never learn; freeze it, or set "
                           "allow_unused", g->name, t->name);
        if (!used || m->parameter[i].how.frozen)
            t->role = TDMI_ROLE_INPUT;
        else
            trained++;
    }
    if (st == TDM_OK && trained == 0)
        st = tdmi_fail(TDM_ERR_INVALID, "model %s has no parameter to train", g->name);
    tdmi_free(reached);
    return st;
}
