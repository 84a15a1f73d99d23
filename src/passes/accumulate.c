/* accumulate.c - a step of K micro-batches: forward and backward run K times, gradients add up, and only the last one
 * communicates.  Use: a batch larger than memory allows, or fewer exchanges for slow links.
 *
 *     K = 1   forward backward  |reduce update|
 *     K = 3   forward backward   forward backward+   forward backward+  |reduce update|      + adds to the gradients
 *
 * Cost   memory of one micro-batch; communication and updates of one step for K batches
 * The nodes are not repeated: the graph says how often they run, and the loss is a mean over all K from the start. */
#include "passes/passes.h"

tdm_status tdmi_pass_accumulate(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    const int k = options->micro_batches == 0 ? 1 : options->micro_batches;
    if (k < 1)
        return tdmi_fail(TDM_ERR_INVALID, "a step of %d micro-batches: at least 1", k);
    g->micro_batches = k;
    for (int i = 0; i < g->node_count; i++) {
        tdmi_node *n = &g->node[i];
        if (n->op == TDMI_OP_CROSS_ENTROPY)
            n->attr.micro_batches = k;
        for (int part = 0; part < n->in_count && n->op == TDMI_OP_LOSS_SUM; part++)
            if (n->in[part] >= 0 && g->node[g->tensor[n->in[part]].producer].op != TDMI_OP_CROSS_ENTROPY)
                n->attr.weight[part] /= (float)k;
    }
    return TDM_OK;
}
