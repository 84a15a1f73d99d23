/* inputs.c - inputs and outputs by name, and numbers that index something: a token beyond the vocabulary would be read from, and in
 * backward written to, somebody else's memory. */
#include "model_api/internal.h"

#include "core/memory.h"

void *memory_by_name(const tdmi_graph *g, tdmi_exec *exec, const char *name, tdmi_role role)
{
    const tdmi_id t = tdmi_graph_find(g, name);
    return t >= 0 && g->tensor[t].role == role ? tdmi_exec_memory(exec, t) : NULL;
}

/* The input that node n takes indices from, or -1; [min, max]: what they may be. */
static tdmi_id indices(const tdmi_graph *g, const tdmi_node *n, int32_t *min, int32_t *max)
{
    const bool tokens = n->op == TDMI_OP_EMBEDDING, targets = n->op == TDMI_OP_CROSS_ENTROPY;
    if ((!tokens && !targets) || n->attr.again)
        return -1;
    const tdmi_shape *of = &g->tensor[n->in[tokens ? 1 : 0]].shape;
    *min = tokens ? 0 : INT32_MIN;
    *max = (int32_t)(of->dims[tokens ? 0 : of->ndim - 1] - 1);
    return n->in[tokens ? 0 : 1];
}

tdm_status input_ranges_find(const tdmi_graph *g, tdmi_exec *exec, input_ranges *out)
{
    out->range = tdmi_calloc((size_t)g->node_count, sizeof *out->range, "model");
    if (out->range == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int i = 0; i < g->node_count; i++) {
        input_range r = {.reader = g->node[i].label};
        const tdmi_id t = indices(g, &g->node[i], &r.min, &r.max);
        if (t < 0)
            continue;
        r.values = tdmi_exec_memory(exec, t);
        r.count = tdmi_shape_count(&g->tensor[t].shape);
        r.name = g->tensor[t].name;
        out->range[out->count++] = r;
    }
    return TDM_OK;
}

tdm_status input_ranges_check(const input_ranges *ranges)
{
    for (int k = 0; k < ranges->count; k++) {
        const input_range *r = &ranges->range[k];
        for (size_t i = 0; i < r->count; i++)
            if (r->values[i] < r->min || r->values[i] > r->max)
                return tdmi_fail(TDM_ERR_INVALID, "input %s is %d at element %zu; %s takes %s%d", r->name, r->values[i], i, r->reader,
                                 r->min == 0 ? "0 to " : "at most ", r->max);
    }
    return TDM_OK;
}
