/* engine.c - groups whose collectives somebody else does: attaching an engine, and the life of its calls, which stand in the same
 * list as native ones and are waited for in the same way. */
#include "group/group.h"

#include "coll/reduce.h"
#include "coll/slice.h"
#include "core/memory.h"

#include <string.h>

/* Over the native group below: rank 0's bytes to all. */
static tdm_status share(void *arg, void *bytes, size_t nbytes)
{
    return tdm_broadcast(arg, bytes, nbytes, TDM_U8, 0, NULL);
}

tdm_status tdmi_group_attach_engine(tdm_group *group, const tdmi_engine_ops *ops)
{
    tdmi_engine *engine;
    const tdmi_engine_start start = {.rank = group->rank, .size = group->size, .share = share, .arg = group};
    tdm_status status = ops->open(&start, &engine);
    if (status == TDM_OK)
        group->engine = engine;
    return status;
}

void tdmi_group_close_engine(tdm_group *group)
{
    if (group->engine == NULL)
        return;
    const bool clean = group->active == NULL && atomic_load_explicit(&group->failure, memory_order_relaxed) == TDM_OK;
    group->engine->ops->close(group->engine, clean);
}

bool tdmi_group_engine_takes(const tdm_group *group, const tdmi_request *request)
{
    const tdmi_engine *engine = group->engine;
    return engine != NULL && (engine->ops->meets_alone || engine->ops->takes(group->engine, request));
}

/* What a group of one does, whatever the engine. */
static void copy_own(const tdmi_request *request)
{
    const tdmi_call *call = &request->call;
    const size_t count = tdmi_call_out_count(call, 0, 1);
    if (count == 0)
        return;
    if (tdmi_op_prepares(call->op))
        tdmi_op_prepare(call->dtype, call->op, request->in, request->out, count);
    else if (request->in != request->out)
        memmove(request->out, request->in, count * tdm_dtype_size(call->dtype));
}

/* A fused reduce-scatter is an uneven one into memory of the handle, whose result is handed on at the end. */
static tdm_status unfuse(tdm_work *work, tdmi_request *request)
{
    const int n = work->group->size;
    const tdm_dtype dtype = request->call.dtype;
    const size_t each = tdmi_slice_each(request->call.count, dtype, n) * tdm_dtype_size(dtype);
    if (work->slice_nbytes < each) {
        tdmi_free(work->slice);
        work->slice = tdmi_aligned_alloc(4096, each, "fused reduce-scatter");
        work->slice_nbytes = work->slice != NULL ? each : 0;
    }
    if (work->slice_counts == NULL)
        work->slice_counts = tdmi_calloc((size_t)n, sizeof *work->slice_counts, "fused reduce-scatter");
    if ((each > 0 && work->slice == NULL) || work->slice_counts == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int r = 0; r < n; r++) {
        size_t first;
        tdmi_slice(request->call.count, dtype, r, n, &first, &work->slice_counts[r]);
    }
    request->call.count = work->slice_counts[work->group->rank];
    request->call.uneven = true;
    request->call.in_counts = work->slice_counts;
    request->out = work->slice;
    request->epilogue = NULL;
    return TDM_OK;
}

tdm_status tdmi_engine_call_start(tdm_work *work, uint64_t number, const tdmi_request *request)
{
    tdm_group *group = work->group;
    tdmi_request asked = *request;
    if (!tdmi_op_hold(request->call.op))
        return tdmi_op_check(request->call.dtype, request->call.op, tdmi_coll_name(request->call.coll), group->engine->ops->name);
    work->run.request = *request;
    work->run.number = number;
    work->run.way = NULL;
    work->run.state = TDMI_RUN_ARRIVING;
    tdm_status status = request->epilogue != NULL ? unfuse(work, &asked) : TDM_OK;
    if (status == TDM_OK && group->size == 1)
        copy_own(&asked);
    else if (status == TDM_OK)
        status = group->engine->ops->start(group->engine, &asked, &work->call);
    if (status != TDM_OK)
        tdmi_op_release(request->call.op);
    work->by_engine = status == TDM_OK;
    return status;
}

tdm_status tdmi_engine_call_advance(tdm_work *work, bool epilogues, bool *over)
{
    const tdmi_request *request = &work->run.request;
    tdm_status status = TDM_OK;
    if (!work->arrived && work->call != NULL)
        status = work->call->ops->test(work->call, &work->arrived);
    else
        work->arrived = true;
    *over = status == TDM_OK && work->arrived && (request->epilogue == NULL || epilogues);
    if (*over && request->epilogue != NULL) {
        size_t first, count;
        tdmi_slice(request->call.count, request->call.dtype, work->group->rank, work->group->size, &first, &count);
        if (count > 0)
            request->epilogue(request->epilogue_arg, first, count, work->slice);
    }
    return status;
}

void tdmi_engine_call_end(tdm_work *work)
{
    tdmi_op_release(work->run.request.call.op);
    if (work->call != NULL && work->arrived)
        work->call->ops->end(work->call);
    work->call = NULL;
    work->by_engine = work->arrived = false;
}

const char *tdm_group_engine(const tdm_group *group)
{
    return group->engine != NULL ? group->engine->ops->name : "native";
}
