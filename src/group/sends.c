/* sends.c - bytes of a call, for whoever counts what a step sends. */
#include "group/sends.h"

#include "core/dtype.h"
#include "group/group.h"

static size_t to_others(const size_t *counts, int n, int rank)
{
    size_t sum = 0;
    for (int r = 0; r < n; r++)
        sum += r == rank ? 0 : counts[r];
    return sum;
}

/* Elements. */
static size_t sends(const tdmi_call *call, bool fused, int n, int rank)
{
    const size_t others = (size_t)n - 1;
    switch (call->coll) {
    case TDMI_COLL_ALLREDUCE:
        return 2 * others * call->count / (size_t)n;
    case TDMI_COLL_REDUCE_SCATTER: /* fused: count is the whole */
        return call->uneven ? to_others(call->in_counts, n, rank) : fused ? others * call->count / (size_t)n : others * call->count;
    case TDMI_COLL_ALL_GATHER:
        return others * call->count;
    case TDMI_COLL_ALLTOALL:
        return call->uneven ? to_others(call->in_counts, n, rank) : others * call->count;
    case TDMI_COLL_BROADCAST:
        return rank == call->root ? call->count : 0;
    case TDMI_COLL_SCATTER:
        return rank != call->root ? 0 : call->uneven ? to_others(call->in_counts, n, rank) : others * call->count;
    case TDMI_COLL_REDUCE:
    case TDMI_COLL_GATHER:
        return rank == call->root ? 0 : call->count;
    default:
        return 0;
    }
}

size_t tdmi_work_sends(const tdm_work *work)
{
    if (work == NULL || work->is_message || work->set != NULL || work->group->size < 2)
        return 0;
    /* The plan is this call's until it is waited for; its counts are its own. */
    const tdmi_call *call = work->by_engine ? &work->asked.call : &work->run.plan->call;
    const bool fused = (work->by_engine ? &work->asked : &work->run.request)->epilogue != NULL;
    return sends(call, fused, work->group->size, work->group->rank) * tdm_dtype_size(call->dtype);
}
