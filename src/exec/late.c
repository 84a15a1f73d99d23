/* late.c - parameters that travel between ranks while the next step has begun.
 *
 *     step s      ... wait, verdict, update, first needed first |  gathers of all buckets start
 *     step s + 1  batch   READY 17  embedding   READY 16  h.0   READY 15  h.1 ...      READY waits for its bucket's gather,
 *                                                                                      which advances between tiles of products
 * One node with one copy of the parameters: nothing travels, the first READY is the meeting. Several nodes: the node meets when
 * all its slices are written, the leader gathers, and each READY is a meeting of the node behind the leader's wait. One copy a
 * rank: every rank gathers.
 * Who else reads parameters (evaluation, checkpoints) settles them first, on all ranks.
 *
 * Threads: the owner of the executor. */
#include "exec/internal.h"

#include "core/clock.h"
#include "core/memory.h"
#include "group/sends.h"

#include <stdio.h>

tdm_status exec_bind_late(tdmi_exec *exec)
{
    const tdmi_graph *g = exec->graph;
    exec->late = tdmi_calloc((size_t)g->bucket_count + 1, sizeof *exec->late, "executor");
    if (exec->late == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int n = 0; n < exec->body; n++)
        if (g->node[n].op == TDMI_OP_PARAMETERS_READY)
            exec->late[exec->late_count++] = g->node[n].attr.bucket;
    if (exec->late_count != 0 && exec->late_count != g->bucket_count)
        return tdmi_fail(TDM_ERR_INTERNAL, "graph %s: parameters of %d of %d buckets are ready late; all are or none", g->name,
                         exec->late_count, g->bucket_count);
    for (int i = 0; i < exec->late_count; i++) {
        exec_bucket *b = &exec->bucket[exec->late[i]];
        snprintf(b->gather_name, sizeof b->gather_name, "bucket %d all-gather", exec->late[i]);
    }
    return TDM_OK;
}

bool exec_gathers_own_copies(const tdmi_exec *exec)
{
    return !exec->shared && exec->size > 1 && exec->options.shard > 0 && !exec->graph->compressed;
}

static tdm_status start(tdmi_exec *exec, exec_bucket *b)
{
    b->gather_started_ns = tdmi_now_ns();
    b->gather_done_ns = 0;
    if (exec_gathers_own_copies(exec))
        return tdm_all_gather(exec->options.group, b->part + b->slice_first, b->part, b->slice_count, TDM_F32, &b->gathering);
    if (exec->leaders == NULL || exec->graph->compressed) /* compressed: every node has updated all of its copy */
        return TDM_OK;
    const size_t part = b->slice_count * (size_t)tdm_group_size(exec->node_group);
    return tdm_all_gather(exec->leaders, b->part + part * (size_t)tdm_group_rank(exec->leaders), b->part, part, TDM_F32,
                          &b->gathering);
}

tdm_status exec_late_begin(tdmi_exec *exec)
{
    tdm_status st = exec->node_group != NULL ? tdm_barrier(exec->node_group, NULL) : TDM_OK; /* its slices are written */
    exec->unmet = exec->shared && exec->node_group == NULL;
    for (int i = 0; i < exec->late_count && st == TDM_OK; i++) {
        exec_bucket *b = &exec->bucket[exec->late[i]];
        st = start(exec, b);
        exec->sent += tdmi_work_sends(b->gathering);
        exec->gathers += b->gathering != NULL;
        b->awaited = true;
    }
    return st;
}

tdm_status exec_late_advance(tdmi_exec *exec)
{
    for (int i = 0; i < exec->late_count && exec->gathers > 0; i++) {
        exec_bucket *b = &exec->bucket[exec->late[i]];
        bool done = false;
        if (b->gathering == NULL || b->gather_done_ns != 0)
            continue;
        tdm_status st = tdm_work_test(b->gathering, &done);
        if (st != TDM_OK || !done)
            return st;
        b->gather_done_ns = tdmi_now_ns();
    }
    return TDM_OK;
}

/* What came from others, in the type that products read. */
static void copy_others(tdmi_exec *exec, int bucket)
{
    const exec_bucket *b = &exec->bucket[bucket];
    const size_t ranks = exec->leaders != NULL ? (size_t)tdm_group_size(exec->node_group) : 1;
    const size_t own = b->slice_count * ranks, first = exec->leaders != NULL ? own * (size_t)tdm_group_rank(exec->leaders) : b->slice_first;
    exec_copy_range(exec, bucket, 0, first);
    exec_copy_range(exec, bucket, first + own, b->count - first - own);
}

static tdm_status wait_gather(tdmi_exec *exec, int bucket)
{
    exec_bucket *b = &exec->bucket[bucket];
    tdm_work *work = b->gathering;
    if (work == NULL)
        return TDM_OK;
    b->gathering = NULL;
    exec->gathers--;
    tdm_status st = tdm_work_wait(work);
    if (b->gather_done_ns == 0)
        b->gather_done_ns = tdmi_now_ns();
    if (st == TDM_OK)
        copy_others(exec, bucket);
    return st;
}

tdm_status exec_late_ready(tdmi_exec *exec, int bucket, tdmi_trace *trace, int64_t step)
{
    exec_bucket *b = &exec->bucket[bucket];
    if (!b->awaited)
        return TDM_OK;
    b->awaited = false;
    tdm_status st = wait_gather(exec, bucket);
    if (st != TDM_OK && exec->node_group != NULL)
        tdm_group_abort(exec->node_group, tdm_error_text()); /* the rest of the node waits in its meeting */
    if (st == TDM_OK && exec->node_group != NULL)
        st = tdm_barrier(exec->node_group, NULL);
    if (st == TDM_OK && exec->unmet)
        st = tdm_barrier(exec->options.group, NULL);
    exec->unmet = false;
    if (trace != NULL) /* where the leader gathers, it is over when the node has met */
        tdmi_trace_add(trace, b->gather_name, TDMI_TRACK_COMMUNICATION, b->gather_started_ns,
                       b->gather_done_ns != 0 ? b->gather_done_ns : tdmi_now_ns(), step, (int64_t)(b->count * sizeof(float)));
    return st;
}

tdm_status tdmi_exec_settle(tdmi_exec *exec)
{
    tdm_status st = TDM_OK;
    for (int i = 0; i < exec->late_count && st == TDM_OK; i++)
        st = exec_late_ready(exec, exec->late[i], NULL, 0);
    return st;
}

void exec_late_drain(tdmi_exec *exec)
{
    for (int b = 0; exec->bucket != NULL && b < exec->graph->bucket_count; b++) {
        tdm_work *const works[] = {exec->bucket[b].gathering, exec->bucket[b].gathering_copies};
        exec->bucket[b].gathering = exec->bucket[b].gathering_copies = NULL;
        for (int i = 0; i < 2; i++)
            if (works[i] != NULL && tdm_work_wait(works[i]) != TDM_OK)
                continue; /* the group is dead: the other handles end at once */
    }
    tdmi_free(exec->late);
}
