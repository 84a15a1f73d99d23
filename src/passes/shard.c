/* shard.c - the end of a step: wait for the reduced buckets, hear the verdict of all ranks, update, and let readers on.
 *
 *     clip, uncounted, compressed, or shard 0
 *                                   BUCKET_WAIT 0..n-1   VERDICT   UPDATE 0..n-1   PARAMETERS_READY 0..n-1
 *     else                          BUCKET_WAIT 0..n-1   VERDICT                   PARAMETERS_READY 0..n-1   (updated while reducing)
 *
 * From stage 2 on a bucket is waited for as soon as its memory is wanted: before the first gradient of the next but one is
 * written; so its reduction has the time in which backward fills a whole bucket.
 * Cost    stage 2: a late peer is felt a bucket later instead of at the end of backward; with clip the reduced slice of every
 *         bucket is kept until the verdict, 1 / ranks of the gradients
 * Saves   gradients: the largest that live together, instead of all. A tied embedding lives from the head to the end
 * Source  Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, arXiv 1910.02054 */
#include "core/memory.h"
#include "passes/passes.h"

static tdmi_node bucket_node(tdmi_op op, tdmi_phase phase, int bucket)
{
    return (tdmi_node){.op = op, .phase = phase, .attr.bucket = bucket, .label = "bucket"};
}

static void append(tdmi_graph *g, tdmi_op op, tdmi_phase phase, int first)
{
    for (int b = first; b < g->bucket_count; b++) {
        const tdmi_node n = bucket_node(op, phase, b);
        (void)tdmi_graph_add_node(g, &n);
    }
}

/* The last bucket whose first gradient this node writes, or -1. */
static int opens(const tdmi_graph *g, const tdmi_node *n, bool *open)
{
    int opened = -1;
    for (int k = 0; k < n->out_count; k++) {
        if (n->out[k] < 0 || g->tensor[n->out[k]].role != TDMI_ROLE_GRADIENT)
            continue;
        for (int b = g->tensor[n->out[k]].bucket; b <= tdmi_graph_last_bucket(g, n->out[k]); b++) {
            opened = !open[b] && b > opened ? b : opened;
            open[b] = true;
        }
    }
    return opened;
}

/* Puts waits between the nodes of backward; *waited: how many buckets have theirs. */
static tdm_status wait_early(tdmi_graph *g, int *waited)
{
    const size_t room = (size_t)g->node_count + (size_t)g->bucket_count;
    bool *open = tdmi_calloc((size_t)g->bucket_count, sizeof *open, "shard pass");
    tdmi_node *nodes = tdmi_malloc(room * sizeof *nodes, "shard pass");
    tdm_status st = TDM_ERR_NO_MEMORY;
    if (open != NULL && nodes != NULL) {
        int count = 0, started = 0;
        for (int i = 0; i < g->node_count; i++) {
            const int opened = opens(g, &g->node[i], open);
            for (; *waited < started && *waited < opened - 1; ++*waited)
                nodes[count++] = bucket_node(TDMI_OP_BUCKET_WAIT, TDMI_PHASE_COMMUNICATION, *waited);
            nodes[count++] = g->node[i];
            started += g->node[i].op == TDMI_OP_BUCKET_START;
        }
        st = tdmi_graph_set_nodes(g, nodes, count);
    }
    tdmi_free(nodes);
    tdmi_free(open);
    return st;
}

tdm_status tdmi_pass_shard(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    if (options->shard < 0 || options->shard > 3)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "sharding stage %d does not exist: 0 (every rank updates all parameters), 1 "
                         "(each rank its slices), 2 (and keeps its slice of the gradients) or 3 (and of the parameters)",
                         options->shard);
    if (g->bucket_count == 0)
        return tdmi_fail(TDM_ERR_INVALID, "graph %s has no buckets: run bucket before shard", g->name);
    int waited = 0;
    const bool verdict_first = options->clip || options->uncounted || options->precision == TDM_F16 || g->compressed;
    /* A lone rank that needs a verdict keeps its whole gradient until then; gradients that add up over micro-
     * batches stay until the last. */
    if (options->shard >= 2 && !(verdict_first && options->world_size == 1) && g->micro_batches == 1) {
        tdm_status st = wait_early(g, &waited);
        if (st != TDM_OK)
            return st;
        g->slices_kept = verdict_first;
    }
    append(g, TDMI_OP_BUCKET_WAIT, TDMI_PHASE_COMMUNICATION, waited);
    const tdmi_node verdict = {.op = TDMI_OP_VERDICT, .phase = TDMI_PHASE_COMMUNICATION, .attr.bucket = -1, .in_count = 1,
                               .in = {g->loss}, .label = "verdict"};
    (void)tdmi_graph_add_node(g, &verdict);
    if (verdict_first || options->shard == 0)
        append(g, TDMI_OP_UPDATE, TDMI_PHASE_OPTIMIZER, 0);
    append(g, TDMI_OP_PARAMETERS_READY, TDMI_PHASE_COMMUNICATION, 0);
    return tdmi_graph_status(g);
}
