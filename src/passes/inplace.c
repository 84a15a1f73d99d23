/* inplace.c - element-wise results take the memory of an input that nobody reads afterwards: less memory, and a line of
 * cache that was just read is the one written. op.h says which inputs an op allows. */
#include "core/memory.h"
#include "passes/lifetime.h"
#include "passes/passes.h"

/* The input of node i whose memory its first output may take, or -1. */
static tdmi_id donor(const tdmi_graph *g, const tdmi_lifetime *life, int i)
{
    const tdmi_node *n = &g->node[i];
    const uint32_t allowed = tdmi_op_info_of(n->op)->in_place;
    for (int k = 0; k < n->in_count; k++) {
        if ((allowed >> k & 1u) == 0)
            continue;
        const tdmi_id root = life[n->in[k]].root;
        if (g->tensor[root].role == TDMI_ROLE_ACTIVATION && life[root].last == i && n->in[k] < n->out[0] &&
            tdmi_shape_nbytes(&g->tensor[root].shape) == tdmi_shape_nbytes(&g->tensor[n->out[0]].shape))
            return n->in[k];
    }
    return -1;
}

tdm_status tdmi_pass_inplace(tdmi_graph *g)
{
    tdmi_lifetime *life = tdmi_lifetimes(g);
    if (life == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int i = 0; i < g->node_count; i++) {
        if (tdmi_op_info_of(g->node[i].op)->in_place == 0)
            continue;
        const tdmi_id out = g->node[i].out[0], from = donor(g, life, i);
        if (from < 0 || g->tensor[out].alias >= 0 || g->tensor[out].role == TDMI_ROLE_GRADIENT)
            continue;
        g->tensor[out].alias = from;
        const tdmi_id root = life[from].root;
        life[root].last = life[out].last; /* the memory now lives as long as the result */
        for (int t = out; t < g->tensor_count; t++)
            if (life[t].root == out)
                life[t].root = root;
    }
    tdmi_free(life);
    return TDM_OK;
}
