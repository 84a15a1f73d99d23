/* state.c - parameters and optimizer state for those who fill and save them: the pieces that this rank has to write. */
#include "exec/internal.h"

#include <string.h>

float *tdmi_exec_gradient_room(tdmi_exec *exec, size_t *count_out)
{
    int first = 0;
    while (exec->graph->bucket[first].offset != 0)
        first++;
    *count_out = exec->graph->gradient_nbytes / sizeof(float);
    return tdmi_reducer_bucket_memory(exec->reducer, first);
}

tdm_status tdmi_exec_visit_state(tdmi_exec *exec, tdmi_exec_visit visit, void *arg)
{
    for (int b = 0; b < exec->graph->bucket_count; b++) {
        exec_bucket *bucket = &exec->bucket[b];
        for (int s = 0; s < bucket->segment_count; s++) {
            const exec_segment *seg = &bucket->segment[s];
            size_t at, count = exec_piece(seg, bucket->slice_first, bucket->slice_count, &at);
            if (count == 0)
                continue;
            float *moment[TDMI_MOMENTS_MAX];
            for (int k = 0; k < TDMI_MOMENTS_MAX; k++)
                moment[k] = bucket->moment[k] == NULL ? NULL : bucket->moment[k] + (at - bucket->slice_first);
            tdm_status st = visit(arg, seg->parameter, at - seg->first + seg->within, count,
                                  bucket->part + (at - bucket->part_first), moment);
            if (st != TDM_OK)
                return st;
        }
    }
    return TDM_OK;
}

/* Where the parameters are not in buckets. */
static tdm_status visit_plain(tdmi_exec *exec, tdmi_exec_visit visit, void *arg)
{
    const tdmi_graph *g = exec->graph;
    tdm_status st = TDM_OK;
    for (tdmi_id t = 0; t < g->tensor_count && st == TDM_OK; t++)
        if (g->tensor[t].role == TDMI_ROLE_PARAMETER)
            st = visit(arg, t, 0, tdmi_shape_count(&g->tensor[t].shape), exec->memory[t], NULL);
    return st;
}

tdm_status tdmi_exec_visit_parameters(tdmi_exec *exec, tdmi_exec_visit visit, void *arg)
{
    if (exec->options.parameters_of != NULL || (exec->shared && tdm_group_local_rank(exec->options.group) != 0))
        return TDM_OK;
    if (exec->bucket == NULL)
        return visit_plain(exec, visit, arg);
    tdm_status st = TDM_OK;
    for (int b = 0; b < exec->graph->bucket_count; b++) {
        exec_bucket *bucket = &exec->bucket[b];
        for (int s = 0; s < bucket->segment_count && st == TDM_OK; s++) {
            const exec_segment *seg = &bucket->segment[s];
            size_t at, count = exec_piece(seg, bucket->part_first, bucket->part_count, &at);
            if (count > 0)
                st = visit(arg, seg->parameter, at - seg->first + seg->within, count,
                           bucket->part + (at - bucket->part_first), NULL);
        }
    }
    return st;
}

typedef struct whole {
    tdmi_id parameter;
    const float *values;
} whole;

static tdm_status copy_piece(void *arg, tdmi_id parameter, size_t first, size_t count, float *values, float *const *moment)
{
    const whole *from = arg;
    (void)moment;
    if (parameter == from->parameter)
        memcpy(values, from->values + first, count * sizeof *values);
    return TDM_OK;
}

void tdmi_exec_set_parameter(tdmi_exec *exec, tdmi_id parameter, const float *values)
{
    (void)tdmi_exec_visit_parameters(exec, copy_piece, &(whole){parameter, values});
}
