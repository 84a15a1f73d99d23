/* steps.c - building step lists and counting what they cost. */
#include "coll/algorithm.h"

#include "core/memory.h"

static const char *const names[TDMI_COLL_COUNT] = {"allreduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                                   "gather",    "scatter",        "alltoall",   "barrier"};

const char *tdmi_coll_name(tdmi_coll coll)
{
    return (unsigned)coll < TDMI_COLL_COUNT ? names[coll] : "unknown";
}

bool tdmi_coll_has_parts(tdmi_coll coll)
{
    return coll == TDMI_COLL_REDUCE_SCATTER || coll == TDMI_COLL_ALL_GATHER || coll == TDMI_COLL_GATHER ||
           coll == TDMI_COLL_SCATTER || coll == TDMI_COLL_ALLTOALL;
}

bool tdmi_coll_reduces(tdmi_coll coll)
{
    return coll == TDMI_COLL_ALLREDUCE || coll == TDMI_COLL_REDUCE_SCATTER || coll == TDMI_COLL_REDUCE;
}

/* ---- what a call's buffers hold ---- */

static size_t sum_of(const size_t *counts, int n)
{
    size_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += counts[i];
    return sum;
}

/* Of a buffer of n parts. */
static size_t all_parts(const tdmi_call *call, const size_t *counts, int n)
{
    return call->uneven ? sum_of(counts, n) : call->count * (size_t)n;
}

size_t tdmi_call_in_count(const tdmi_call *call, int rank, int n)
{
    switch (call->coll) {
    case TDMI_COLL_REDUCE_SCATTER:
    case TDMI_COLL_ALLTOALL: return all_parts(call, call->in_counts, n);
    case TDMI_COLL_SCATTER: return rank == call->root ? all_parts(call, call->in_counts, n) : 0;
    case TDMI_COLL_BARRIER: return 0;
    default: return call->count;
    }
}

size_t tdmi_call_out_count(const tdmi_call *call, int rank, int n)
{
    switch (call->coll) {
    case TDMI_COLL_ALL_GATHER:
    case TDMI_COLL_ALLTOALL: return all_parts(call, call->out_counts, n);
    case TDMI_COLL_GATHER: return rank == call->root ? all_parts(call, call->out_counts, n) : 0;
    case TDMI_COLL_REDUCE: return rank == call->root ? call->count : 0;
    case TDMI_COLL_BARRIER: return 0;
    default: return call->count;
    }
}

tdm_dtype tdmi_call_acc_dtype(const tdmi_call *call)
{
    return tdmi_coll_reduces(call->coll) ? tdmi_accumulate_dtype(call->dtype, call->op) : call->dtype;
}

static tdmi_range part_of(const tdmi_call *call, tdmi_buffer buffer, const size_t *counts, int peer)
{
    tdmi_range range = {.buffer = buffer, .first = (size_t)peer * call->count, .count = call->count};
    if (call->uneven) {
        range.first = sum_of(counts, peer);
        range.count = counts[peer];
    }
    return range;
}

tdmi_range tdmi_call_in_part(const tdmi_call *call, int peer)
{
    const bool parts = call->coll == TDMI_COLL_REDUCE_SCATTER || call->coll == TDMI_COLL_ALLTOALL || call->coll == TDMI_COLL_SCATTER;
    return parts ? part_of(call, TDMI_BUFFER_IN, call->in_counts, peer) : tdmi_range_of(TDMI_BUFFER_IN, 0, call->count);
}

tdmi_range tdmi_call_out_part(const tdmi_call *call, int peer)
{
    const bool parts = call->coll == TDMI_COLL_ALL_GATHER || call->coll == TDMI_COLL_ALLTOALL || call->coll == TDMI_COLL_GATHER;
    return parts ? part_of(call, TDMI_BUFFER_OUT, call->out_counts, peer) : tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count);
}

void tdmi_call_note_parts(tdmi_call *call, int n)
{
    const size_t *counts = call->coll == TDMI_COLL_ALL_GATHER ? call->out_counts : call->in_counts;
    uint64_t hash = 0;
    call->parts_total = sum_of(counts, n);
    for (int i = 0; i < n; i++)
        hash = (hash ^ counts[i]) * 0x9e3779b97f4a7c15ull + (uint64_t)i + 1;
    call->parts_hash = hash;
}

bool tdmi_call_is_pairwise(const tdmi_call *call)
{
    return call->uneven &&
           (call->coll == TDMI_COLL_GATHER || call->coll == TDMI_COLL_SCATTER || call->coll == TDMI_COLL_ALLTOALL);
}

size_t tdmi_call_gives(const tdmi_call *call, int rank, int peer)
{
    if (call->coll == TDMI_COLL_GATHER)
        return peer == call->root ? call->count : 0;
    if (call->coll == TDMI_COLL_SCATTER && rank != call->root)
        return 0;
    return call->uneven ? call->in_counts[peer] : call->count;
}

size_t tdmi_call_expects(const tdmi_call *call, int rank, int peer)
{
    if (call->coll == TDMI_COLL_SCATTER)
        return peer == call->root ? call->count : 0;
    if (call->coll == TDMI_COLL_GATHER && rank != call->root)
        return 0;
    return call->uneven ? call->out_counts[peer] : call->count;
}

size_t tdmi_call_bytes(const tdmi_call *call, int n)
{
    const size_t size = tdm_dtype_size(call->dtype);
    switch (call->coll) {
    case TDMI_COLL_REDUCE_SCATTER: return all_parts(call, call->in_counts, n) * size;
    case TDMI_COLL_ALL_GATHER: return all_parts(call, call->out_counts, n) * size;
    case TDMI_COLL_GATHER:
    case TDMI_COLL_SCATTER:
    case TDMI_COLL_ALLTOALL: return call->uneven ? TDMI_UNKNOWN_BYTES : call->count * (size_t)n * size;
    default: return call->count * size;
    }
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

void tdmi_steps_exchange_leaf(tdmi_steps *s, int to, tdmi_range src, int from, tdmi_range dst)
{
    add_exchange(s, (tdmi_step){.kind = TDMI_STEP_EXCHANGE, .to = to, .from = from, .src = src, .dst = dst, .leaf = true});
}

void tdmi_steps_exchange_reduce_leaf(tdmi_steps *s, int to, tdmi_range src, int from, tdmi_range dst, bool received_first)
{
    add_exchange(s, (tdmi_step){.kind = TDMI_STEP_EXCHANGE_REDUCE, .to = to, .from = from, .src = src, .dst = dst,
                                .received_first = received_first, .leaf = true});
}

void tdmi_steps_finish(tdmi_steps *s, const tdmi_call *call, tdmi_range src, tdmi_range dst)
{
    if (src.count > 0 && (call->op == TDM_AVG || src.buffer != dst.buffer))
        tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_FINISH, .to = -1, .from = -1, .src = src, .dst = dst});
}

void tdmi_steps_refill(tdmi_steps *s, int to, tdmi_range src, tdmi_range dst)
{
    if (src.count == 0)
        return;
    tdmi_step *reader = s->count > 0 ? &s->step[s->count - 1] : NULL;
    if (reader != NULL && reader->kind == TDMI_STEP_COPY_TO)
        reader--;
    if (reader != NULL && (reader->kind == TDMI_STEP_REDUCE_FROM || (reader->kind == TDMI_STEP_COPY_FROM && reader->from == to)))
        reader->refilled = reader->src.buffer == dst.buffer && reader->src.first == dst.first && reader->src.count == dst.count;
    tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_REFILL, .to = to, .from = -1, .src = src, .dst = dst});
}

void tdmi_steps_alone(tdmi_steps *s, const tdmi_call *call)
{
    const size_t count = tdmi_call_in_count(call, 0, 1);
    if (call->coll != TDMI_COLL_BROADCAST)
        tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, count), tdmi_range_of(TDMI_BUFFER_OUT, 0, count));
}

void tdmi_steps_clear(tdmi_steps *s)
{
    s->count = s->acc_count = s->stage_count = 0;
    s->turns = false;
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
