/* schedule.c - what comes first: parameters that the next forward needs first are updated, and sent to the other ranks, first.
 *
 *     at the end   ... UPDATE 17 16 ... 1 0   READY 17 16 ... 1 0  |  embedding  h.0  h.1 ...
 *     ready_late   ... UPDATE 17 16 ... 1 0                        |  READY 17  embedding  READY 16  h.0  READY 15  h.1 ...
 *
 * Gradients become ready from the last layer to the first, and the next step needs parameters from the first to the last: what
 * travels between ranks between the two can travel beside the first layers of the next step, if it comes in their order.
 * Where ranks share one copy of the parameters nothing travels, and all meet at the end.
 * Cost   with ready_late a bucket's parameters are old until the next step has begun: the executor settles them before
 *        anybody else reads.   Saves   the time of gathering parameters, but for those of the first layer
 * Source  Peng et al., ByteScheduler, SOSP 2019, doi:10.1145/3341301.3359642, for the order of need */
#include "passes/passes.h"

#include "core/memory.h"

#include <stdlib.h>

typedef struct need {
    int bucket, node; /* the first forward node that reads a parameter of it; the number of nodes: none does */
} need;

static int by_need(const void *a, const void *b)
{
    const need *x = a, *y = b;
    return x->node != y->node ? (x->node > y->node) - (x->node < y->node) : y->bucket - x->bucket;
}

static void find_needs(const tdmi_graph *g, need *needs)
{
    for (int b = 0; b < g->bucket_count; b++)
        needs[b] = (need){b, g->node_count};
    for (int i = g->node_count - 1; i >= 0; i--)
        for (int k = 0; k < g->node[i].in_count && g->node[i].phase == TDMI_PHASE_FORWARD; k++) {
            const tdmi_id t = g->node[i].in[k];
            if (t >= 0 && (g->tensor[t].role == TDMI_ROLE_PARAMETER || g->tensor[t].role == TDMI_ROLE_COPY))
                for (int b = g->tensor[t].bucket; b <= tdmi_graph_last_bucket(g, t); b++)
                    needs[b].node = i;
        }
    qsort(needs, (size_t)g->bucket_count, sizeof *needs, by_need);
}

static tdmi_node bucket_node(tdmi_op op, tdmi_phase phase, int bucket)
{
    return (tdmi_node){.op = op, .phase = phase, .attr.bucket = bucket, .label = "bucket"};
}

static int order(const tdmi_graph *g, const need *needs, bool late, tdmi_node *nodes)
{
    int count = 0, ready = 0;
    bool updated = false;
    for (int i = 0; i < g->node_count; i++) {
        const tdmi_node *n = &g->node[i];
        for (; late && ready < g->bucket_count && needs[ready].node == i; ready++)
            nodes[count++] = bucket_node(TDMI_OP_PARAMETERS_READY, TDMI_PHASE_COMMUNICATION, needs[ready].bucket);
        if (n->op == TDMI_OP_PARAMETERS_READY)
            continue;
        if (n->op != TDMI_OP_UPDATE)
            nodes[count++] = *n;
        for (int k = 0; n->op == TDMI_OP_UPDATE && !updated && k < g->bucket_count; k++)
            nodes[count++] = bucket_node(TDMI_OP_UPDATE, TDMI_PHASE_OPTIMIZER, needs[k].bucket);
        updated = updated || n->op == TDMI_OP_UPDATE;
    }
    for (; ready < g->bucket_count; ready++) /* at the end, and of parameters that only backward reads */
        nodes[count++] = bucket_node(TDMI_OP_PARAMETERS_READY, TDMI_PHASE_COMMUNICATION, needs[ready].bucket);
    return count;
}

tdm_status tdmi_pass_schedule(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    if (g->bucket_count == 0)
        return tdmi_fail(TDM_ERR_INVALID, "graph %s has no buckets: run bucket and shard before schedule", g->name);
    need *needs = tdmi_malloc((size_t)g->bucket_count * sizeof *needs, "schedule");
    tdmi_node *nodes = tdmi_malloc(((size_t)g->node_count + (size_t)g->bucket_count) * sizeof *nodes, "schedule");
    tdm_status st = needs == NULL || nodes == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    if (st == TDM_OK) {
        find_needs(g, needs);
        const bool gathers = options->shard == 3 && options->parts > 1; /* unit by unit, at any rate */
        st = tdmi_graph_set_nodes(g, nodes, order(g, needs, options->ready_late && !gathers, nodes));
    }
    tdmi_free(nodes);
    tdmi_free(needs);
    return st;
}
