/* onebit.c - 1-bit Adam in a step. In the warm-up it is AdamW on plain reductions; then the moments of all slices go to all ranks of
 * the node once, and from there on
 *
 *     BUCKET_START   block by block the rank's gradients become its momentum, which sets out in one bit an element
 *     BUCKET_WAIT    the signs of the average momentum of all ranks are there
 *     UPDATE         block by block it becomes the common one; the rank updates its slice of the parameters */
#include "exec/internal.h"

#include "optim/onebit_adam.h"

#include <string.h>

/* Each rank has the moments of its slice alone; the momentum of a whole bucket needs all. */
static tdm_status freeze(tdmi_exec *exec)
{
    tdm_group *group = exec->node_group != NULL ? exec->node_group : exec->options.group;
    for (int b = 0; exec->shared && b < exec->graph->bucket_count; b++)
        for (int k = 0; k < TDMI_MOMENTS_MAX; k++) {
            exec_bucket *bucket = &exec->bucket[b];
            tdm_status st = tdm_all_gather(group, bucket->moment[k], bucket->held[k], bucket->slice_count, TDM_F32, NULL);
            if (st != TDM_OK)
                return tdmi_fail_while(st, "gathering the moments of AdamW behind the warm-up");
        }
    exec->frozen = true;
    return TDM_OK;
}

tdm_status exec_onebit_begin(tdmi_exec *exec, int64_t step, double lr)
{
    if (!exec->onebit || step <= exec->warmup)
        return TDM_OK;
    tdm_status st = exec->frozen ? TDM_OK : freeze(exec);
    for (int i = 0; i < exec_groups(exec); i++) {
        double group_lr = lr;
        const tdmi_optimizer optimizer = exec_group_optimizer(exec, i, &group_lr);
        tdmi_onebit_step_init(&exec->update[i], &optimizer, step, exec->warmup, group_lr, (float)exec_short_factor(exec));
    }
    return st;
}

/* What this rank sends of a block: its new momentum. */
static void make_momentum(void *arg, int b, size_t first, size_t count, const float *gradient, float *out)
{
    const tdmi_exec *exec = arg;
    const exec_bucket *bucket = &exec->bucket[b];
    tdmi_onebit_momentum(exec->update, gradient, bucket->held[0] + first, bucket->held[1] + first, out, count);
}

/* Too small for one bit to be worth it, or nobody to send to: the bucket's memory holds the momentum and its average. */
static bool travels_plainly(const tdmi_exec *exec, int b)
{
    return exec->size == 1 || exec->graph->bucket[b].compress.codec != TDM_CODEC_ONEBIT;
}

/* Blocks of the bucket's memory, each in one segment. */
static void each_block(tdmi_exec *exec, int b, tdmi_onebit_sink visit, void *arg)
{
    const exec_bucket *bucket = &exec->bucket[b];
    const float *memory = tdmi_reducer_bucket_memory(exec->reducer, b);
    for (int s = 0; s < bucket->segment_count; s++)
        for (size_t at = 0, n, count = bucket->segment[s].count; at < count; at += n) {
            n = count - at < EXEC_CELL ? count - at : EXEC_CELL;
            visit(arg, b, bucket->segment[s].first + at, n, memory + bucket->segment[s].first + at);
        }
}

static void put_momentum(void *arg, int b, size_t first, size_t count, const float *gradient)
{
    tdmi_exec *exec = arg;
    float made[EXEC_CELL];
    make_momentum(exec, b, first, count, gradient, made);
    memcpy((float *)tdmi_reducer_bucket_memory(exec->reducer, b) + first, made, count * sizeof *made);
}

void exec_onebit_start(tdmi_exec *exec, int b)
{
    if (exec->frozen && travels_plainly(exec, b))
        each_block(exec, b, put_momentum, exec);
}

tdm_status exec_onebit_bind(tdmi_exec *exec)
{
    return exec->onebit ? tdmi_reducer_onebit_lend(exec->reducer, make_momentum, exec) : TDM_OK;
}

double exec_onebit_squares(tdmi_exec *exec, int b)
{
    if (!exec->frozen || travels_plainly(exec, b))
        return exec_squares_of_slice(exec, b);
    return tdmi_reducer_onebit_squares(exec->reducer, b, exec->bucket[b].slice_first, exec->bucket[b].slice_count);
}

typedef struct updating {
    const tdmi_exec *exec;
    int segment; /* blocks come in the order of segments, each in one */
} updating;

/* A block of the average momentum: the slice's part moves weights, all of it is the common momentum. */
static void take_block(void *arg, int b, size_t first, size_t count, const float *average)
{
    updating *u = arg;
    const exec_bucket *bucket = &u->exec->bucket[b];
    while (bucket->segment[u->segment].first + bucket->segment[u->segment].count <= first)
        u->segment++;
    const exec_segment *seg = &bucket->segment[u->segment], block = {.first = first, .count = count};
    float *m = bucket->held[0] + first, *v = bucket->held[1] + first;
    size_t at, n = exec_piece(&block, bucket->slice_first, bucket->slice_count, &at);
    const size_t before = n == 0 ? count : at - first;
    tdmi_onebit_take(average, m, v, before);
    if (n > 0)
        tdmi_onebit_update(&u->exec->update[seg->group], seg->decay, bucket->part + at, average + before, m + before, v + before, n);
    tdmi_onebit_take(average + before + n, m + before + n, v + before + n, count - before - n);
}

void exec_onebit_update(tdmi_exec *exec, int b)
{
    updating u = {.exec = exec};
    if (travels_plainly(exec, b))
        each_block(exec, b, take_block, &u);
    else
        tdmi_reducer_onebit_read(exec->reducer, b, take_block, &u);
}
