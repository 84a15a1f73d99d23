/* collective.c - the public operations: arguments are checked here, the rest is one way for all. */
#include "group/group.h"

#include "core/dtype.h"

/* Elements of n parts; false where they are more than an address space holds. */
static bool add_up(const size_t *counts, int n, size_t element, size_t *sum_out)
{
    const size_t most = SIZE_MAX / 2 / element;
    size_t sum = 0;
    for (int r = 0; r < n; r++) {
        if (counts[r] > most - sum)
            return false;
        sum += counts[r];
    }
    *sum_out = sum;
    return true;
}

static tdm_status too_many(const char *name, const char *buffer)
{
    return tdmi_fail(TDM_ERR_INVALID, "%s: the %s buffer has more elements than an address space holds", name, buffer);
}

/* Everything that a call can get wrong on its own. */
static tdm_status check(const tdm_group *group, const tdmi_call *call)
{
    const char *name = tdmi_coll_name(call->coll);
    if (group == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "%s: the group is NULL", name);
    tdm_status status = tdmi_op_check(call->dtype, call->op, name, tdm_group_engine(group));
    if (status != TDM_OK)
        return status;
    const bool rooted = call->coll == TDMI_COLL_BROADCAST || call->coll == TDMI_COLL_REDUCE || call->coll == TDMI_COLL_GATHER ||
                        call->coll == TDMI_COLL_SCATTER;
    if (rooted && (call->root < 0 || call->root >= group->size))
        return tdmi_fail(TDM_ERR_INVALID, "%s: root is rank %d, but the group has ranks 0 to %d", name, call->root, group->size - 1);
    const size_t element = tdmi_dtype_bytes(call->dtype);
    size_t sum;
    if (__builtin_mul_overflow(call->count, element * (size_t)group->size, &sum) || sum > SIZE_MAX / 2)
        return tdmi_fail(TDM_ERR_INVALID, "%s: %zu elements are more than an address space holds", name, call->count);
    if (call->in_counts != NULL && !add_up(call->in_counts, group->size, element, &sum))
        return too_many(name, "input");
    if (call->out_counts != NULL && !add_up(call->out_counts, group->size, element, &sum))
        return too_many(name, "output");
    return TDM_OK;
}

/* Checks and makes the call. */
static tdm_status call(tdm_group *group, tdmi_call what, const void *in, void *out, tdm_work **work)
{
    tdm_status status;
    if (work == NULL && group != NULL && tdmi_group_quick(group, &what, in, out, &status))
        return status;
    status = check(group, &what);
    if (status != TDM_OK)
        return status;
    const size_t in_count = tdmi_call_in_count(&what, group->rank, group->size);
    const size_t out_count = tdmi_call_out_count(&what, group->rank, group->size);
    if ((in_count > 0 && in == NULL) || (out_count > 0 && out == NULL))
        return tdmi_fail(TDM_ERR_INVALID, "%s: the %s buffer of %zu elements is NULL", tdmi_coll_name(what.coll),
                         in_count > 0 && in == NULL ? "input" : "output", in_count > 0 && in == NULL ? in_count : out_count);
    const tdmi_request request = {.call = what, .in = in, .out = out};
    if (group->set == NULL)
        return tdmi_group_call(group, &request, work);
    if (work != NULL)
        *work = NULL;
    return tdmi_coalesce_add(group, &request);
}

tdm_status tdm_allreduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op, tdm_work **work)
{
    return call(group, (tdmi_call){TDMI_COLL_ALLREDUCE, dtype, op, .root = -1, .count = count}, in, out, work);
}

tdm_status tdm_reduce_scatter(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op,
                              tdm_work **work)
{
    return call(group, (tdmi_call){TDMI_COLL_REDUCE_SCATTER, dtype, op, .root = -1, .count = count}, in, out, work);
}

tdm_status tdm_all_gather(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_work **work)
{
    return call(group, (tdmi_call){TDMI_COLL_ALL_GATHER, dtype, TDM_SUM, .root = -1, .count = count}, in, out, work);
}

tdm_status tdm_broadcast(tdm_group *group, void *data, size_t count, tdm_dtype dtype, int root, tdm_work **work)
{
    return call(group, (tdmi_call){TDMI_COLL_BROADCAST, dtype, TDM_SUM, .root = root, .count = count}, data, data, work);
}

tdm_status tdm_reduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op, int root,
                      tdm_work **work)
{
    return call(group, (tdmi_call){TDMI_COLL_REDUCE, dtype, op, .root = root, .count = count}, in, out, work);
}

tdm_status tdm_gather(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, int root, tdm_work **work)
{
    return call(group, (tdmi_call){TDMI_COLL_GATHER, dtype, TDM_SUM, .root = root, .count = count}, in, out, work);
}

tdm_status tdm_scatter(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, int root, tdm_work **work)
{
    return call(group, (tdmi_call){TDMI_COLL_SCATTER, dtype, TDM_SUM, .root = root, .count = count}, in, out, work);
}

tdm_status tdm_alltoall(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_work **work)
{
    return call(group, (tdmi_call){TDMI_COLL_ALLTOALL, dtype, TDM_SUM, .root = -1, .count = count}, in, out, work);
}

tdm_status tdm_barrier(tdm_group *group, tdm_work **work)
{
    return call(group, tdmi_barrier_call(), NULL, NULL, work);
}

/* ---- parts of different sizes ---- */

static tdm_status no_counts(const char *name, const char *which)
{
    return tdmi_fail(TDM_ERR_INVALID, "%sv: %s is NULL; it has one entry a rank", name, which);
}

tdm_status tdm_all_gatherv(tdm_group *group, const void *in, void *out, const size_t *counts, tdm_dtype dtype, tdm_work **work)
{
    if (counts == NULL)
        return no_counts("all_gather", "counts");
    return call(group,
                (tdmi_call){TDMI_COLL_ALL_GATHER, dtype, TDM_SUM, .root = -1, .count = group != NULL ? counts[group->rank] : 0,
                            .uneven = true, .out_counts = counts},
                in, out, work);
}

tdm_status tdm_reduce_scatterv(tdm_group *group, const void *in, void *out, const size_t *counts, tdm_dtype dtype, tdm_op op,
                               tdm_work **work)
{
    if (counts == NULL)
        return no_counts("reduce_scatter", "counts");
    return call(group,
                (tdmi_call){TDMI_COLL_REDUCE_SCATTER, dtype, op, .root = -1, .count = group != NULL ? counts[group->rank] : 0,
                            .uneven = true, .in_counts = counts},
                in, out, work);
}

tdm_status tdm_gatherv(tdm_group *group, const void *in, size_t in_count, void *out, const size_t *out_counts, tdm_dtype dtype,
                       int root, tdm_work **work)
{
    const bool is_root = group != NULL && group->rank == root;
    if (is_root && out_counts == NULL)
        return no_counts("gather", "out_counts");
    return call(group,
                (tdmi_call){TDMI_COLL_GATHER, dtype, TDM_SUM, .root = root, .count = in_count, .uneven = true,
                            .out_counts = is_root ? out_counts : NULL},
                in, out, work);
}

tdm_status tdm_scatterv(tdm_group *group, const void *in, const size_t *in_counts, void *out, size_t out_count, tdm_dtype dtype,
                        int root, tdm_work **work)
{
    const bool is_root = group != NULL && group->rank == root;
    if (is_root && in_counts == NULL)
        return no_counts("scatter", "in_counts");
    return call(group,
                (tdmi_call){TDMI_COLL_SCATTER, dtype, TDM_SUM, .root = root, .count = out_count, .uneven = true,
                            .in_counts = is_root ? in_counts : NULL},
                in, out, work);
}

tdm_status tdm_alltoallv(tdm_group *group, const void *in, const size_t *in_counts, void *out, const size_t *out_counts,
                         tdm_dtype dtype, tdm_work **work)
{
    if (in_counts == NULL || out_counts == NULL)
        return no_counts("alltoall", in_counts == NULL ? "in_counts" : "out_counts");
    return call(group,
                (tdmi_call){TDMI_COLL_ALLTOALL, dtype, TDM_SUM, .root = -1, .uneven = true, .in_counts = in_counts,
                            .out_counts = out_counts},
                in, out, work);
}
