/* fused.c - the fused reduce-scatter is a call like the others, with an epilogue in the place of an output. */
#include "group/fused.h"

#include "group/group.h"

tdm_status tdmi_reduce_scatter_fused(tdm_group *group, const void *in, size_t count, tdm_dtype dtype, tdm_op op,
                                     tdmi_epilogue epilogue, void *arg, tdm_work **work)
{
    if (in == NULL && count > 0)
        return tdmi_fail(TDM_ERR_INVALID, "reduce_scatter: a buffer of %zu elements is NULL", count);
    const tdmi_request request = {.call = {TDMI_COLL_REDUCE_SCATTER, dtype, op, .root = -1, .count = count},
                                  .in = in,
                                  .epilogue = epilogue,
                                  .epilogue_arg = arg};
    return tdmi_group_call(group, &request, work);
}
