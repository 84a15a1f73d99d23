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
    return tdmi_group_meets_alone(group) || (engine != NULL && engine->ops->takes(group->engine, request));
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

/* Room for the counts of the call, which the caller's arrays need not outlive. */
static tdm_status make_counts(tdm_work *work)
{
    if (work->counts == NULL)
        work->counts = tdmi_calloc(2 * (size_t)work->group->size, sizeof *work->counts, "counts of an engine's call");
    return work->counts != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
}

static tdm_status own_counts(tdm_work *work)
{
    tdmi_call *call = &work->asked.call;
    const size_t n = (size_t)work->group->size;
    tdm_status status = make_counts(work);
    if (status != TDM_OK)
        return status;
    if (call->in_counts != NULL)
        call->in_counts = memcpy(work->counts, call->in_counts, n * sizeof *work->counts);
    if (call->out_counts != NULL)
        call->out_counts = memcpy(work->counts + n, call->out_counts, n * sizeof *work->counts);
    if (!tdmi_call_is_pairwise(call))
        tdmi_call_note_parts(call, work->group->size);
    return TDM_OK;
}

/* A fused reduce-scatter is an uneven one into memory of the handle, whose result is handed on at the end. */
static tdm_status unfuse(tdm_work *work, tdmi_request *request)
{
    const int n = work->group->size;
    const tdm_dtype dtype = request->call.dtype;
    const size_t each = tdmi_slice_each(request->call.count, dtype, n) * tdm_dtype_size(dtype);
    tdm_status status = make_counts(work);
    if (status != TDM_OK)
        return status;
    if (work->slice_nbytes < each) {
        tdmi_free(work->slice);
        work->slice = tdmi_aligned_alloc(4096, each, "fused reduce-scatter");
        work->slice_nbytes = work->slice != NULL ? each : 0;
    }
    if (each > 0 && work->slice == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int r = 0; r < n; r++) {
        size_t first;
        tdmi_slice(request->call.count, dtype, r, n, &first, &work->counts[r]);
    }
    request->call.count = work->counts[work->group->rank];
    request->call.uneven = true;
    request->call.in_counts = work->counts;
    request->out = work->slice;
    request->epilogue = NULL;
    return TDM_OK;
}

/* What the engine is asked to do. */
static tdm_status translate(tdm_work *work, tdmi_request *out)
{
    *out = work->asked;
    return work->asked.epilogue != NULL ? unfuse(work, out) : TDM_OK;
}

/* In the native group below the engine's. */
static tdm_status meet_natively(tdm_work *work, uint64_t number, const tdmi_request *asked)
{
    tdmi_request meeting = {.call = asked->call};
    meeting.call.op = tdmi_op_base(asked->call.op);
    meeting.call.on_device = true;
    return tdmi_run_start(&work->run, &work->group->team, number, &meeting);
}

/* Beside a call that has started. All ranks are at it, so what fails here ends the group. */
static void begin_meeting(tdm_work *work, uint64_t number, const tdmi_request *asked)
{
    tdm_status status = TDM_OK;
    work->run.number = number;
    tdmi_label_copy(work->group->team.label, &work->run.label);
    work->agreed = work->call == NULL;
    if (!work->agreed)
        status = tdmi_group_meets_alone(work->group) ? tdmi_agreement_begin(work) : meet_natively(work, number, asked);
    if (status != TDM_OK)
        tdmi_group_fail(work->group, status);
}

static tdm_status advance_meeting(tdm_work *work, tdmi_turns *turns, bool *moved)
{
    if (tdmi_group_meets_alone(work->group))
        return tdmi_agreement_advance(work);
    tdm_status status = tdmi_run_advance(&work->run, turns, &work->agreed, moved);
    if (work->agreed) {
        tdmi_run_end(&work->run);
        work->run.way = NULL;
    }
    return status;
}

tdm_status tdmi_engine_call_start(tdm_work *work, uint64_t number, const tdmi_request *request)
{
    tdm_group *group = work->group;
    tdmi_request asked;
    if (!tdmi_op_hold(request->call.op))
        return tdmi_op_check(request->call.dtype, request->call.op, tdmi_coll_name(request->call.coll), group->engine->ops->name);
    work->asked = *request;
    work->run.way = NULL;
    work->run.state = TDMI_RUN_ARRIVING;
    tdm_status status = request->call.uneven ? own_counts(work) : TDM_OK;
    if (status == TDM_OK)
        status = translate(work, &asked);
    if (status == TDM_OK && group->size == 1)
        copy_own(&asked);
    else if (status == TDM_OK)
        status = group->engine->ops->start(group->engine, &asked, &work->call);
    if (status != TDM_OK) {
        tdmi_op_release(request->call.op);
        return status;
    }
    work->by_engine = true;
    begin_meeting(work, number, &asked);
    return TDM_OK;
}

tdm_status tdmi_engine_call_again(tdm_work *work, uint64_t number)
{
    tdmi_request asked;
    tdm_status status = translate(work, &asked); /* all room for it is there */
    work->arrived = false;
    if (status == TDM_OK && work->call == NULL) /* a group of one */
        copy_own(&asked);
    else if (status == TDM_OK)
        status = work->call->ops->again(work->call);
    if (status == TDM_OK)
        begin_meeting(work, number, &asked);
    return status;
}

tdm_status tdmi_engine_call_advance(tdm_work *work, tdmi_turns *turns, bool *over, bool *moved)
{
    const tdmi_request *request = &work->asked;
    tdm_status status = work->agreed ? TDM_OK : advance_meeting(work, turns, moved);
    if (status == TDM_OK && work->agreed && !work->arrived) {
        if (work->call != NULL)
            status = work->call->ops->test(work->call, &work->arrived);
        else
            work->arrived = true;
    }
    *over = status == TDM_OK && work->arrived && (request->epilogue == NULL || turns->epilogues);
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
    tdmi_op_release(work->asked.call.op);
    if (work->call != NULL && work->arrived)
        work->call->ops->end(work->call);
    if (work->run.plan != NULL)
        tdmi_run_end(&work->run);
    work->run.way = NULL;
    work->call = work->meeting = NULL;
    work->by_engine = work->arrived = false;
}

int tdmi_engine_call_missing(const tdm_work *work, bool *missing)
{
    const tdm_group *group = work->group;
    int count = 0;
    if (work->run.plan != NULL)
        return tdmi_run_missing(&work->run, missing);
    for (int r = 0; r < group->size; r++) {
        missing[r] = tdmi_group_meets_alone(group) && r != group->rank && group->team.arrived[r] < work->run.number;
        count += missing[r];
    }
    return count;
}

const char *tdm_group_engine(const tdm_group *group)
{
    return group->engine != NULL ? group->engine->ops->name : "native";
}
