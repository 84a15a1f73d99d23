/* gather.c - sharding stage 3 over several nodes: a node holds its part of each bucket, and the executor brings whole buckets
 * into a slab of the node, ahead of the nodes that read them (passes/gather.c).
 *
 *     part of node 0 | a0 b0 c0 |   part of node 1 | a1 b1 c1 |        slab of each node  | a0 a1 | b0 b1 |  then c over a
 *
 * The first rank of each node gathers, the others meet it when it waits. Evaluation and generation gather the parts of the
 * training executor, into its slab where that is large enough. */
#include "exec/internal.h"

#include "core/clock.h"
#include "group/sends.h"

#include <string.h>

/* Whose parts are gathered. */
static tdmi_exec *source(tdmi_exec *exec)
{
    return exec->options.parameters_of != NULL ? exec->options.parameters_of : exec;
}

tdm_status exec_bind_gathered(tdmi_exec *exec)
{
    const size_t nbytes = exec->graph->parameter_nbytes;
    tdmi_exec *from = source(exec);
    if (nbytes == 0)
        return TDM_OK;
    if (exec->graph->parts != from->parts)
        return tdmi_fail(TDM_ERR_INTERNAL, "graph %s gathers parameters of %d nodes, there are %d", exec->graph->name,
                         exec->graph->parts, from->parts);
    if (from->gathered_nbytes >= nbytes) {
        exec->gathered = from->gathered;
        return TDM_OK;
    }
    tdm_group *group = from->options.group;
    void *memory;
    tdm_status st = from->shared ? tdm_alloc_node(group, nbytes, &memory) : tdm_alloc(group, nbytes, &memory);
    if (st != TDM_OK)
        return tdmi_fail_while(st, "placing %zu bytes of gathered parameters", nbytes);
    exec->gathered = memory;
    exec->gathered_nbytes = nbytes;
    return TDM_OK;
}

void exec_unbind_gathered(tdmi_exec *exec)
{
    if (exec->gathered_nbytes > 0)
        tdm_free(source(exec)->options.group, exec->gathered);
}

void exec_bind_arrival(tdmi_exec *exec, const tdmi_node *node)
{
    const tdmi_graph *g = exec->graph;
    for (tdmi_id t = 0; t < g->tensor_count; t++) {
        const tdmi_tensor *tensor = &g->tensor[t];
        if (tensor->bucket != node->attr.bucket || (tensor->role != TDMI_ROLE_PARAMETER && tensor->role != TDMI_ROLE_COPY))
            continue;
        const bool copy = tensor->role == TDMI_ROLE_COPY;
        char *there = exec->gathered + (copy ? node->attr.copy_place : node->attr.place) +
                      tensor->offset * (copy ? sizeof(uint16_t) : sizeof(float));
        exec->memory[t] = node->op == TDMI_OP_RELEASE ? NULL : there;
    }
}

void exec_mark_meetings(tdmi_exec *exec)
{
    const tdmi_graph *g = exec->graph;
    bool first = true;
    for (int n = 0; n < g->node_count; n++) {
        if (g->node[n].op == TDMI_OP_GATHER_START) {
            exec->node[n].meets = first;
            first = false;
        } else if (g->node[n].op == TDMI_OP_GATHER_WAIT) {
            exec->node[n].meets = n + 1 == g->node_count || g->node[n + 1].op != TDMI_OP_GATHER_WAIT;
        }
    }
}

/* The ranks of this node. One that cannot go on says so to the others, who are in this meeting or will be. */
static tdm_status meet(tdmi_exec *from, tdm_status own)
{
    if (from->node_group == NULL)
        return own;
    if (own != TDM_OK) {
        tdm_group_abort(from->node_group, tdm_error_text());
        return own;
    }
    return tdm_barrier(from->node_group, NULL);
}

tdm_status exec_gather_begin(tdmi_exec *exec, const exec_node *node)
{
    tdmi_exec *from = source(exec);
    exec_bucket *b = &from->bucket[node->bucket];
    tdm_group *group = from->node_group != NULL ? from->leaders : from->options.group;
    /* The walk before this one may still be under way on another rank of the node, and reads what will be written over. */
    tdm_status st = node->meets ? meet(from, TDM_OK) : TDM_OK;
    if (st != TDM_OK || group == NULL)
        return st;
    b->gather_started_ns = tdmi_now_ns();
    exec->in_flight++;
    if (exec->graph->bucket[node->bucket].whole)
        st = tdm_all_gather(group, b->part, exec->gathered + node->place, b->part_count, TDM_F32, &b->gathering);
    if (st == TDM_OK && exec->graph->bucket[node->bucket].copied)
        st = tdm_all_gather(group, from->copies + (b->part - from->parameters), exec->gathered + node->copy_place, b->part_count,
                            from->copy_type, &b->gathering_copies);
    if (st == TDM_OK)
        exec->sent += tdmi_work_sends(b->gathering) + tdmi_work_sends(b->gathering_copies);
    return st;
}

tdm_status exec_gather_end(tdmi_exec *exec, const exec_node *node)
{
    tdmi_exec *from = source(exec);
    exec_bucket *b = &from->bucket[node->bucket];
    tdm_work *work = b->gathering, *copies = b->gathering_copies;
    tdm_status st = TDM_OK;
    b->gathering = b->gathering_copies = NULL;
    if (from->node_group == NULL || from->leaders != NULL)
        exec->in_flight--;
    if (work != NULL)
        st = tdm_work_wait(work);
    if (copies != NULL) {
        const tdm_status waited = tdm_work_wait(copies);
        st = st == TDM_OK ? waited : st;
    }
    return node->meets || st != TDM_OK ? meet(from, st) : st;
}

tdm_status exec_gathers_advance(tdmi_exec *exec)
{
    for (int b = 0; b < exec->graph->bucket_count && exec->gathered != NULL; b++) {
        tdm_work *const works[] = {exec->bucket[b].gathering, exec->bucket[b].gathering_copies};
        for (int i = 0; i < 2; i++) {
            bool done = true;
            tdm_status st = works[i] != NULL ? tdm_work_test(works[i], &done) : TDM_OK;
            if (st != TDM_OK || !done)
                return st;
        }
    }
    return TDM_OK;
}
