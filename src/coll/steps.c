/* steps.c - building step lists and counting what they cost. */
#include "coll/algorithm.h"

#include "core/memory.h"

static const char *const names[TDMI_COLL_COUNT] = {"allreduce", "reduce_scatter", "all_gather", "broadcast", "barrier"};

const char *tdmi_coll_name(tdmi_coll coll)
{
    return (unsigned)coll < TDMI_COLL_COUNT ? names[coll] : "unknown";
}

void tdmi_steps_add(tdmi_steps *s, tdmi_step step)
{
    if (s->status != TDM_OK)
        return;
    if (s->count == s->capacity) {
        size_t capacity = s->capacity == 0 ? 16 : 2 * s->capacity;
        tdmi_step *grown = tdmi_realloc(s->step, capacity * sizeof *grown, "coll steps");
        if (grown == NULL) {
            s->status = TDM_ERR_NO_MEMORY;
            return;
        }
        s->step = grown;
        s->capacity = capacity;
    }
    s->step[s->count++] = step;
}

/* An exchange in which neither side moves anything is no step; a side that moves nothing has no peer. */
static void add_exchange(tdmi_steps *s, tdmi_step step)
{
    if (step.src.count == 0)
        step.to = -1;
    if (step.dst.count == 0)
        step.from = -1;
    if (step.to >= 0 || step.from >= 0)
        tdmi_steps_add(s, step);
}

void tdmi_steps_exchange(tdmi_steps *s, int to, tdmi_range src, int from, tdmi_range dst)
{
    add_exchange(s, (tdmi_step){.kind = TDMI_STEP_EXCHANGE, .to = to, .from = from, .src = src, .dst = dst});
}

void tdmi_steps_exchange_reduce(tdmi_steps *s, int to, tdmi_range src, int from, tdmi_range dst, bool received_first)
{
    add_exchange(s, (tdmi_step){.kind = TDMI_STEP_EXCHANGE_REDUCE, .to = to, .from = from, .src = src, .dst = dst,
                                .received_first = received_first});
}

void tdmi_steps_finish(tdmi_steps *s, const tdmi_call *call, tdmi_range src, tdmi_range dst)
{
    if (src.count > 0 && (call->op == TDM_AVG || src.buffer != dst.buffer))
        tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_FINISH, .to = -1, .from = -1, .src = src, .dst = dst});
}

void tdmi_steps_alone(tdmi_steps *s, const tdmi_call *call)
{
    if (call->coll != TDMI_COLL_BARRIER && call->coll != TDMI_COLL_BROADCAST)
        tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count), tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count));
}

void tdmi_steps_clear(tdmi_steps *s)
{
    s->count = s->acc_count = s->stage_count = 0;
    s->status = TDM_OK;
}

void tdmi_steps_free(tdmi_steps *s)
{
    tdmi_free(s->step);
    *s = (tdmi_steps){0};
}

tdmi_traffic tdmi_steps_traffic(const tdmi_steps *s)
{
    tdmi_traffic traffic = {0, 0};
    for (size_t i = 0; i < s->count; i++) {
        const tdmi_step *step = &s->step[i];
        if ((step->kind == TDMI_STEP_EXCHANGE || step->kind == TDMI_STEP_EXCHANGE_REDUCE) && step->to >= 0) {
            traffic.messages++;
            traffic.elements_sent += step->src.count;
        }
    }
    return traffic;
}
