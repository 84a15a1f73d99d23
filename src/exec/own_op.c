/* own_op.c - a user's backward function that writes what is not finite: said with the op's name, where the norm alone would tell
 * nobody who did it. In float16 such a gradient may come of the loss scale: then it only makes the step one that is skipped. */
#include "exec/internal.h"

#include <math.h>

/* The first element that is not finite; count: none. */
static size_t first_bad(tdm_dtype type, const void *values, size_t count)
{
    const uint16_t exponent = type == TDM_BF16 ? 0x7f80 : 0x7c00;
    for (size_t i = 0; i < count; i++)
        if (type == TDM_F32 ? !isfinite(((const float *)values)[i]) : (((const uint16_t *)values)[i] & exponent) == exponent)
            return i;
    return count;
}

tdm_status exec_own_op_fail(const tdmi_exec *exec, int64_t step)
{
    return tdmi_fail(TDM_ERR_NOT_FINITE, "step %lld, rank %d: the gradient that node %s has computed is not finite (element %zu); look "
                     "at its backward function", (long long)step, exec->rank, exec->bad_own_op, exec->bad_own_op_at);
}

tdm_status exec_own_op_look(tdmi_exec *exec, const exec_node *node, int64_t step)
{
    const tdmi_kernel_io *io = &node->bound.io;
    for (int k = 0; k < io->out_count && exec->bad_own_op == NULL; k++) {
        const size_t count = node->out[k] == NULL ? 0 : tdmi_shape_count(&io->out[k]);
        const size_t at = count == 0 ? 0 : first_bad(io->out[k].dtype, node->out[k], count);
        if (at == count)
            continue;
        exec->bad_own_op = node->name;
        exec->bad_own_op_at = at;
        if (!exec->fused)
            return TDM_OK; /* the verdict says it, on all ranks */
        tdm_status st = exec_own_op_fail(exec, step);
        if (exec->options.group != NULL)
            tdm_group_abort(exec->options.group, tdm_error_text());
        return st;
    }
    return TDM_OK;
}
