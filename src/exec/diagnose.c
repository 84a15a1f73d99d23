/* diagnose.c - where a value stopped being finite: runs the forward nodes again and looks at what each one writes. */
#include "exec/internal.h"

#include <math.h>

static size_t first_not_finite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return i;
    return count;
}

tdm_status exec_not_finite(tdmi_exec *exec, int64_t step, float loss)
{
    loss = isnan(loss) ? NAN : loss; /* printed without the sign that a NaN may have */
    const tdmi_graph *g = exec->graph;
    for (tdmi_id t = 0; t < g->tensor_count; t++) {
        const tdmi_tensor *tensor = &g->tensor[t];
        size_t count = tdmi_shape_count(&tensor->shape);
        if (tensor->role == TDMI_ROLE_PARAMETER && exec->gathered == NULL && first_not_finite(exec->memory[t], count) < count)
            return tdmi_fail(TDM_ERR_NOT_FINITE,
                             "step %lld, rank %d: the loss is %g; parameter %s is not finite at element %zu, so an update "
                             "before this step made it so. Lower --lr, set --clip, or go on from an earlier checkpoint",
                             (long long)step, exec->rank, (double)loss, tensor->name,
                             first_not_finite(exec->memory[t], count));
    }
    /* Where parameters are gathered, other nodes would have to take part. */
    for (int n = 0; exec->gathered == NULL && n < g->node_count && g->node[n].phase != TDMI_PHASE_BACKWARD; n++) {
        const exec_node *node = &exec->node[n];
        if (!node->has_kernel)
            continue;
        tdmi_kernel_run(&node->bound, node->in, node->out, exec->workspace);
        for (int i = 0; i < g->node[n].out_count; i++) {
            tdmi_id t = g->node[n].out[i];
            size_t count = t < 0 || g->tensor[t].shape.dtype != TDM_F32 ? 0 : tdmi_shape_count(&g->tensor[t].shape);
            size_t at = count == 0 ? 0 : first_not_finite(node->out[i], count);
            if (at < count)
                return tdmi_fail(TDM_ERR_NOT_FINITE,
                                 "step %lld, rank %d: the loss is %g; the first value that is not finite comes from node %s "
                                 "(%s, element %zu). Lower --lr, set --clip, or go on from an earlier checkpoint",
                                 (long long)step, exec->rank, (double)loss, node->name, g->tensor[t].name, at);
        }
    }
    return tdmi_fail(TDM_ERR_NOT_FINITE, "step %lld, rank %d: the loss is %g", (long long)step, exec->rank, (double)loss);
}
