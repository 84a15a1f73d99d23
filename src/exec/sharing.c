/* sharing.c - one copy of the parameters a node.
 *
 *     node 0: ranks 0 1      node 1: ranks 2 3        slices of a bucket  | 0 | 1 | 2 | 3 |
 *     each rank writes its slice into its node's copy, the node meets, then the first rank of each node gathers the
 *     others' halves (here 0 and 2 exchange | 0 | 1 | for | 2 | 3 |), and the node meets again
 *
 * Where buckets travel compressed every rank gets the whole gradient, slices divide a bucket over the ranks of a node, each
 * node updates all of its copy, and nothing is exchanged.
 *
 * Ranks of a node hold neighbouring slices when nodes have equally many ranks in a row, as launchers place them. Any other
 * placement over several nodes keeps one copy a rank. In stage 3 a node keeps only its ranks' slices, and the node meets once. */
#include "exec/internal.h"

#include "core/memory.h"
#include "group/sends.h"

typedef struct place {
    int32_t local_rank, local_size;
} place;

/* The same answer on all ranks, from the places of all. */
static bool in_rows(const place *places, int size)
{
    for (int r = 0; r < size; r++)
        if (places[r].local_size != places[0].local_size || places[r].local_rank != r % places[0].local_size)
            return false;
    return true;
}

static tdm_status make_groups(tdmi_exec *exec, int local_size)
{
    tdm_group *group = exec->options.group;
    int *ranks = tdmi_calloc((size_t)exec->size, sizeof *ranks, "executor");
    if (ranks == NULL)
        return TDM_ERR_NO_MEMORY;
    int first = exec->rank / local_size * local_size, nodes = exec->size / local_size;
    for (int i = 0; i < local_size; i++)
        ranks[i] = first + i;
    tdm_status st = tdm_group_create_sub(group, ranks, local_size, &exec->node_group);
    for (int i = 0; i < nodes; i++)
        ranks[i] = i * local_size;
    if (st == TDM_OK && exec->rank == first)
        st = tdm_group_create_sub(group, ranks, nodes, &exec->leaders);
    tdmi_free(ranks);
    return st;
}

/* Collective. Whether ranks are placed in rows. */
static tdm_status find_rows(tdm_group *group, bool *rows)
{
    const int size = tdm_group_size(group);
    const place own = {tdm_group_local_rank(group), tdm_group_local_size(group)};
    place *places = tdmi_calloc((size_t)size, sizeof *places, "executor");
    if (places == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status st = tdm_all_gather(group, &own, places, sizeof own, TDM_U8, NULL);
    *rows = st == TDM_OK && in_rows(places, size);
    tdmi_free(places);
    return st;
}

/* In rows a node keeps a part; else each rank does. */
static int parts_of(tdm_group *group, bool rows)
{
    return tdm_group_size(group) / (rows ? tdm_group_local_size(group) : 1);
}

tdm_status tdmi_exec_parts(tdm_group *group, int shard, int *parts_out)
{
    bool rows = false;
    *parts_out = 1;
    if (shard != 3 || tdm_group_size(group) == 1)
        return TDM_OK;
    tdm_status st = find_rows(group, &rows);
    if (st == TDM_OK)
        *parts_out = parts_of(group, rows);
    return st;
}

tdm_status exec_share(tdmi_exec *exec)
{
    tdm_group *group = exec->options.group;
    exec->parts = 1;
    if (exec->options.shard == 0 || exec->size == 1)
        return TDM_OK;
    bool rows = false;
    tdm_status st = find_rows(group, &rows);
    const int local_size = tdm_group_local_size(group);
    exec->shared = rows && local_size > 1;
    if (exec->options.shard == 3) {
        exec->parts = parts_of(group, rows);
        exec->part = exec->rank / (exec->size / exec->parts);
    }
    return st == TDM_OK && exec->shared && local_size < exec->size ? make_groups(exec, local_size) : st;
}

tdm_status exec_place_parameters(tdmi_exec *exec)
{
    const size_t parts = exec->gathered != NULL ? (size_t)exec->parts : 1;
    const int count = exec->graph->bucket_count;
    size_t total = 0, at = 0;
    void *memory;
    for (int b = 0; b < count; b++)
        total += exec->bucket[b].count / parts;
    tdm_status st = exec->shared ? tdm_alloc_node(exec->options.group, total * sizeof(float), &memory)
                                 : tdm_alloc(exec->options.group, total * sizeof(float), &memory);
    if (st != TDM_OK)
        return tdmi_fail_while(st, "placing %zu parameters", total);
    exec->parameters = memory;
    for (int b = 0; b < count; b++) {
        exec_bucket *bucket = &exec->bucket[b];
        bucket->part_count = bucket->count / parts;
        bucket->part_first = parts > 1 ? (size_t)exec->part * bucket->part_count : 0;
        bucket->part = exec->parameters + at;
        at += bucket->part_count;
    }
    return TDM_OK;
}

void exec_unshare(tdmi_exec *exec)
{
    tdm_group_destroy(exec->leaders);
    tdm_group_destroy(exec->node_group);
}

/* Leaders only: the part of each bucket that this node's ranks own, for those of the others. */
static tdm_status exchange(tdmi_exec *exec)
{
    tdm_status st = TDM_OK;
    int started = 0, count = exec->graph->bucket_count;
    for (; started < count && st == TDM_OK; started++) {
        exec_bucket *b = &exec->bucket[started];
        size_t part = b->slice_count * (size_t)tdm_group_size(exec->node_group);
        st = tdm_all_gather(exec->leaders, b->part + part * (size_t)tdm_group_rank(exec->leaders), b->part, part,
                            TDM_F32, &b->gathering);
        if (st == TDM_OK)
            exec->sent += tdmi_work_sends(b->gathering);
    }
    for (int i = 0; i < started; i++) {
        tdm_work *work = exec->bucket[i].gathering;
        exec->bucket[i].gathering = NULL;
        tdm_status waited = work == NULL ? TDM_OK : tdm_work_wait(work);
        st = st == TDM_OK ? waited : st;
    }
    for (int i = 0; i < count && st == TDM_OK; i++) { /* what came from other nodes */
        const exec_bucket *b = &exec->bucket[i];
        const size_t part = b->slice_count * (size_t)tdm_group_size(exec->node_group);
        const size_t own = part * (size_t)tdm_group_rank(exec->leaders);
        exec_copy_range(exec, i, 0, own);
        exec_copy_range(exec, i, own + part, b->count - own - part);
    }
    return st;
}

tdm_status exec_sharing_meet(tdmi_exec *exec)
{
    if (exec->node_group == NULL)
        return tdm_barrier(exec->options.group, NULL);
    tdm_status st = tdm_barrier(exec->node_group, NULL);
    if (st == TDM_OK && exec->graph->compressed)
        return st; /* every node has the whole gradient and has updated all its parameters */
    if (st == TDM_OK && exec->leaders != NULL && exec->gathered == NULL) {
        st = exchange(exec);
        if (st != TDM_OK)
            tdm_group_abort(exec->node_group, tdm_error_text()); /* the rest of the node waits in the next meeting */
    }
    return st == TDM_OK ? tdm_barrier(exec->node_group, NULL) : st;
}
