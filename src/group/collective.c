/* collective.c - the public operations: arguments are checked here, the rest is one way for all. */
#include "group/group.h"

static tdm_status check(const tdm_group *group, tdmi_coll coll, const void *in, const void *out, size_t count, size_t parts,
                        tdm_dtype dtype, tdm_op op)
{
    const char *name = tdmi_coll_name(coll);
    if (group == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "%s: the group is NULL", name);
    tdm_status status = tdmi_op_check(dtype, op, name, "native");
    if (status != TDM_OK)
        return status;
    if (count > 0 && (in == NULL || out == NULL))
        return tdmi_fail(TDM_ERR_INVALID, "%s: a buffer of %zu elements is NULL", name, count);
    if (count > SIZE_MAX / 2 / tdm_dtype_size(dtype) / parts)
        return tdmi_fail(TDM_ERR_INVALID, "%s: %zu elements are more than an address space holds", name, count);
    return TDM_OK;
}

tdm_status tdm_allreduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op, tdm_work **work)
{
    tdm_status status = check(group, TDMI_COLL_ALLREDUCE, in, out, count, 1, dtype, op);
    if (status != TDM_OK)
        return status;
    const tdmi_request request = {.call = {TDMI_COLL_ALLREDUCE, dtype, op, -1, count}, .in = in, .out = out};
    return tdmi_group_call(group, &request, work);
}

tdm_status tdm_reduce_scatter(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op,
                              tdm_work **work)
{
    tdm_status status =
        check(group, TDMI_COLL_REDUCE_SCATTER, in, out, count, group != NULL ? (size_t)group->size : 1, dtype, op);
    if (status != TDM_OK)
        return status;
    const tdmi_request request = {.call = {TDMI_COLL_REDUCE_SCATTER, dtype, op, -1, count}, .in = in, .out = out};
    return tdmi_group_call(group, &request, work);
}

tdm_status tdm_all_gather(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_work **work)
{
    tdm_status status =
        check(group, TDMI_COLL_ALL_GATHER, in, out, count, group != NULL ? (size_t)group->size : 1, dtype, TDM_SUM);
    if (status != TDM_OK)
        return status;
    const tdmi_request request = {.call = {TDMI_COLL_ALL_GATHER, dtype, TDM_SUM, -1, count}, .in = in, .out = out};
    return tdmi_group_call(group, &request, work);
}

tdm_status tdm_broadcast(tdm_group *group, void *data, size_t count, tdm_dtype dtype, int root, tdm_work **work)
{
    tdm_status status = check(group, TDMI_COLL_BROADCAST, data, data, count, 1, dtype, TDM_SUM);
    if (status != TDM_OK)
        return status;
    if (root < 0 || root >= group->size)
        return tdmi_fail(TDM_ERR_INVALID, "broadcast: root is rank %d, but the group has ranks 0 to %d", root, group->size - 1);
    const tdmi_request request = {.call = {TDMI_COLL_BROADCAST, dtype, TDM_SUM, root, count}, .in = data, .out = data};
    return tdmi_group_call(group, &request, work);
}

tdm_status tdm_barrier(tdm_group *group, tdm_work **work)
{
    tdm_status status = check(group, TDMI_COLL_BARRIER, NULL, NULL, 0, 1, TDM_U8, TDM_SUM);
    if (status != TDM_OK)
        return status;
    const tdmi_request request = {.call = {TDMI_COLL_BARRIER, TDM_U8, TDM_SUM, -1, 0}};
    return tdmi_group_call(group, &request, work);
}
