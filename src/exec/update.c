/* update.c - the optimizer on this rank's slices, and how the others come to see the new parameters. */
#include "exec/internal.h"

#include "group/sends.h"
#include "optim/clip.h"

#include <tandem/compress.h>

#include <string.h>

/* This rank's slice of a bucket as its reduction leaves it. */
static const void *reduced_slice(tdmi_exec *exec, int b)
{
    const float *reduced = tdmi_reducer_reduced(exec->reducer, b);
    return exec->graph->compressed ? reduced + exec->bucket[b].slice_first : reduced; /* then all of it is there, in float32 */
}

int exec_groups(const tdmi_exec *exec)
{
    return exec->options.groups > 0 ? exec->options.groups : 1;
}

tdmi_optimizer exec_group_optimizer(const tdmi_exec *exec, int group, double *lr)
{
    tdmi_optimizer optimizer = exec->options.optimizer;
    if (exec->options.groups > 0) {
        optimizer.weight_decay = exec->options.group_of[group].weight_decay;
        *lr *= exec->options.group_of[group].lr_factor;
    }
    return optimizer;
}

void exec_update_begin(tdmi_exec *exec, int64_t step, double lr, float grad_scale)
{
    for (int i = 0; i < exec_groups(exec); i++) {
        double group_lr = lr;
        const tdmi_optimizer optimizer = exec_group_optimizer(exec, i, &group_lr);
        tdmi_optimizer_step_init(&exec->update[i], &optimizer, step, group_lr, grad_scale);
    }
}

size_t exec_piece(const exec_segment *seg, size_t first, size_t count, size_t *at)
{
    size_t begin = seg->first > first ? seg->first : first;
    size_t end = seg->first + seg->count < first + count ? seg->first + seg->count : first + count;
    *at = begin;
    return begin < end ? end - begin : 0;
}

void exec_update_range(tdmi_exec *exec, int b, size_t first, size_t count, const float *gradient)
{
    exec_bucket *bucket = &exec->bucket[b];
    for (int s = 0; s < bucket->segment_count; s++) {
        size_t at, n = exec_piece(&bucket->segment[s], first, count, &at);
        if (n == 0)
            continue;
        float *moment[TDMI_MOMENTS_MAX];
        for (int k = 0; k < TDMI_MOMENTS_MAX; k++)
            moment[k] = bucket->moment[k] == NULL ? NULL : bucket->moment[k] + (at - bucket->slice_first);
        tdmi_optimizer_update(&exec->update[bucket->segment[s].group], bucket->segment[s].decay,
                              bucket->part + (at - bucket->part_first), gradient + (at - first), moment, n);
    }
    exec_copy_range(exec, b, first, count);
}

const float *exec_widened(tdmi_exec *exec, const void *gradient, size_t at, size_t count, float *cell)
{
    const tdm_dtype type = exec->graph->gradient_type;
    if (type == TDM_F32)
        return (const float *)gradient + at;
    tdm_status st = tdm_cast_decompress(type, (const uint16_t *)gradient + at, cell, count);
    if (st != TDM_OK && exec->inside == TDM_OK)
        exec->inside = st;
    return cell;
}

void exec_update_slice(tdmi_exec *exec, int b)
{
    const exec_bucket *bucket = &exec->bucket[b];
    const void *reduced = reduced_slice(exec, b);
    float cell[EXEC_CELL];
    for (size_t at = 0, n; at < bucket->slice_count; at += n) {
        n = bucket->slice_count - at < EXEC_CELL ? bucket->slice_count - at : EXEC_CELL;
        exec_update_range(exec, b, bucket->slice_first + at, n, exec_widened(exec, reduced, at, n, cell));
    }
}

void exec_clear_gaps(tdmi_exec *exec, int b)
{
    const exec_bucket *bucket = &exec->bucket[b];
    const size_t size = tdm_dtype_size(exec->graph->gradient_type);
    char *gradient = tdmi_reducer_bucket_memory(exec->reducer, b);
    size_t end = 0;
    for (int s = 0; s <= bucket->segment_count; s++) {
        const size_t next = s < bucket->segment_count ? bucket->segment[s].first : bucket->count;
        memset(gradient + end * size, 0, (next - end) * size);
        end = s < bucket->segment_count ? next + bucket->segment[s].count : next;
    }
}

double exec_sum_of_squares(const tdmi_exec *exec)
{
    double sum = 0;
    for (int b = 0; b < exec->graph->bucket_count; b++)
        sum += exec->bucket[b].squares;
    return sum;
}

double exec_squares_of_slice(tdmi_exec *exec, int b)
{
    const exec_bucket *bucket = &exec->bucket[b];
    const void *reduced = reduced_slice(exec, b);
    float cell[EXEC_CELL];
    double sum = 0;
    for (size_t at = 0, n; at < bucket->slice_count; at += n) { /* the cells that pieces are summed in; between gradients lies 0 */
        n = bucket->slice_count - at < EXEC_CELL ? bucket->slice_count - at : EXEC_CELL;
        sum += tdmi_sum_of_squares(exec_widened(exec, reduced, at, n, cell), n);
    }
    return sum;
}

tdm_status exec_gather_start(tdmi_exec *exec, int b)
{
    exec_bucket *bucket = &exec->bucket[b];
    if (exec->late_count > 0 || exec->gathered != NULL || !exec_gathers_own_copies(exec)) /* late: together, first needed first */
        return TDM_OK;
    tdm_status st = tdm_all_gather(exec->options.group, bucket->part + bucket->slice_first, bucket->part,
                                   bucket->slice_count, TDM_F32, &bucket->gathering);
    if (st == TDM_OK)
        exec->sent += tdmi_work_sends(bucket->gathering);
    return st;
}

tdm_status exec_parameters_ready(tdmi_exec *exec, int b)
{
    if (exec->shared) /* all updates are before all PARAMETERS_READY nodes: one meeting serves the buckets that follow too */
        return b == 0 ? exec_sharing_meet(exec) : TDM_OK;
    exec_bucket *bucket = &exec->bucket[b];
    tdm_work *work = bucket->gathering;
    bucket->gathering = NULL;
    if (work == NULL)
        return TDM_OK;
    tdm_status st = tdm_work_wait(work);
    const size_t end = bucket->slice_first + bucket->slice_count;
    exec_copy_range(exec, b, 0, bucket->slice_first);
    exec_copy_range(exec, b, end, bucket->count - end);
    return st;
}

void exec_commit_begin(tdmi_exec *exec, int64_t step)
{
    /* seq_cst: the word is out before the first write of the update, as far as a reader that looks after our death sees */
    atomic_store(&exec->commit[exec->commit_own], 2 * (uint64_t)step + 1);
}

void exec_commit_end(tdmi_exec *exec, int64_t step)
{
    atomic_store(&exec->commit[exec->commit_own], 2 * (uint64_t)step);
}

bool tdmi_exec_is_consistent(const tdmi_exec *exec)
{
    uint64_t first = atomic_load(&exec->commit[0]);
    for (int i = 0; i < exec->commit_count; i++)
        if (atomic_load(&exec->commit[i]) != first || (first & 1) != 0)
            return false;
    return true;
}
