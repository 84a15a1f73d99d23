/* onebit.c - 1-bit Adam in a step. In the warm-up it is AdamW on plain reductions; then the moments of all slices go to all ranks of
 * the node once, and from there on
 *
 *     BUCKET_START   the rank's gradients become its momentum, which sets out in one bit an element
 *     BUCKET_WAIT    the bucket holds the average momentum of all ranks
 *     UPDATE         which becomes the common one; the rank updates its slice of the parameters */
#include "exec/internal.h"

#include "optim/onebit_adam.h"

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

void exec_onebit_momentum(tdmi_exec *exec, int b)
{
    const exec_bucket *bucket = &exec->bucket[b];
    float *gradient = tdmi_reducer_bucket_memory(exec->reducer, b);
    for (int s = 0; s < bucket->segment_count; s++) {
        const size_t at = bucket->segment[s].first;
        tdmi_onebit_momentum(exec->update, gradient + at, bucket->held[0] + at, bucket->held[1] + at, bucket->segment[s].count);
    }
}

void exec_onebit_update(tdmi_exec *exec, int b)
{
    const exec_bucket *bucket = &exec->bucket[b];
    const float *average = tdmi_reducer_bucket_memory(exec->reducer, b);
    for (int s = 0; s < bucket->segment_count; s++) {
        const exec_segment *seg = &bucket->segment[s];
        size_t at, n = exec_piece(seg, bucket->slice_first, bucket->slice_count, &at);
        if (n > 0)
            tdmi_onebit_update(&exec->update[seg->group], seg->decay, bucket->part + at, average + at, bucket->held[1] + at, n);
        tdmi_onebit_take(average + seg->first, bucket->held[0] + seg->first, bucket->held[1] + seg->first, seg->count);
    }
}
