/* direct_staged.c - the direct algorithm for buffers that no peer can reach (malloc): through STAGE, segment by segment.
 *
 *   n ranks, allreduce, segment k in slot k mod 3; a phase ends with one meeting
 *     phase p     copy in k = p     sum the own slice of k = p - 1     copy out k = p - 2, each slice from its owner
 *     phase p+1   copy in k = p+1   sum                k = p           copy out k = p - 1
 *
 * A rank's own values are read from IN, so what nobody else reads is not staged. A slot is filled again when a meeting lies
 * between that and its last reader: k segments take k + 1 meetings. All traffic between IN and OUT stays in the cache. Up to
 * ONE_SHOT_BYTES, and in a reduce of two ranks, a rank sums everything: one meeting a segment, two slots. A reduce is an allreduce
 * with results for the root alone; a broadcast reads each segment once: one meeting a segment, two slots. Two ranks that both
 * give and get: direct_staged_pair.c. Buffers of parts: direct_staged_parts.c.
 *
 * Cost   allreduce, n > 2: S / SEGMENT_BYTES meetings and one more; a rank copies S in, sums S / n and copies S out.
 * Sums   canonical tree.     Needs  all ranks on one node.
 * Source the pipelining of cache-sized segments is that of shared-memory collectives in MPI libraries; with the meeting at the
 *        end of a phase instead of around each step. */
#include "coll/direct_staged.h"

#define LINE_BYTES 64
#define ONE_SHOT_BYTES ((size_t)8 << 10)

static tdmi_range in_slot(const tdmi_cut *c, size_t k, size_t slots, size_t first, size_t count)
{
    return tdmi_range_of(TDMI_BUFFER_STAGE, k % slots * c->length + first, count);
}

/* A reduce is an allreduce whose results only the root takes. */
static bool wants_result(const tdmi_call *call, int rank)
{
    return call->coll == TDMI_COLL_ALLREDUCE || rank == call->root;
}

static void one_shot(tdmi_steps *s, const tdmi_call *call, int rank)
{
    const tdmi_cut c = tdmi_cut_of(call->count, call->dtype, 1);
    s->stage_count = 2 * c.length;
    for (size_t k = 0; k < c.segments; k++) {
        const tdmi_range in = tdmi_cut_segment(&c, TDMI_BUFFER_IN, k), slot = in_slot(&c, k, 2, 0, in.count);
        if (call->coll == TDMI_COLL_ALLREDUCE || rank != call->root)
            tdmi_steps_copy(s, in, slot);
        tdmi_steps_meet(s);
        if (wants_result(call, rank))
            tdmi_steps_reduce_with(s, slot, in, rank, tdmi_cut_segment(&c, TDMI_BUFFER_OUT, k));
    }
}

static void allreduce_of_two(tdmi_steps *s, const tdmi_call *call, int rank)
{
    const tdmi_range in = tdmi_range_of(TDMI_BUFFER_IN, 0, call->count);
    tdmi_staged_pair(s, call, rank, &(tdmi_exchanged){.give = in, .own = in, .sums = true,
                                                      .get = tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count)});
}

/* The slice of segment k that `owner` sums, counted from the start of the segment. */
static tdmi_range slice_of(const tdmi_cut *c, size_t line, size_t k, int owner, int n)
{
    const size_t length = tdmi_cut_segment(c, TDMI_BUFFER_IN, k).count, lines = (length + line - 1) / line;
    size_t first = line * tdmi_chunk_first(lines, n, owner), end = line * tdmi_chunk_first(lines, n, owner + 1);
    first = first < length ? first : length;
    end = end < length ? end : length;
    return tdmi_range_of(TDMI_BUFFER_STAGE, first, end - first);
}

static void allreduce(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const size_t line = LINE_BYTES / tdm_dtype_size(call->dtype);
    const tdmi_cut c = tdmi_cut_of(call->count, call->dtype, 1);
    s->stage_count = 3 * c.length;
    for (size_t phase = 0; phase <= c.segments + 1; phase++) {
        for (size_t k = phase >= 2 ? phase - 2 : 0; k <= phase && k < c.segments; k++) {
            for (int owner = 0; owner < n; owner++) {
                const tdmi_range part = slice_of(&c, line, k, owner, n), slot = in_slot(&c, k, 3, part.first, part.count);
                const tdmi_range in = tdmi_range_of(TDMI_BUFFER_IN, k * c.length + part.first, part.count);
                const tdmi_range out = tdmi_range_of(TDMI_BUFFER_OUT, in.first, in.count);
                if (k == phase && owner != rank)
                    tdmi_steps_copy(s, in, slot);
                else if (k + 1 == phase && owner == rank)
                    tdmi_steps_reduce_with(s, slot, in, rank, slot);
                else if (k + 2 == phase && !wants_result(call, rank))
                    continue;
                else if (k + 2 == phase && owner == rank)
                    tdmi_steps_copy(s, slot, out);
                else if (k + 2 == phase)
                    tdmi_steps_copy_from(s, owner, slot, out);
            }
        }
        if (phase <= c.segments)
            tdmi_steps_meet(s);
    }
}

static void broadcast(tdmi_steps *s, const tdmi_call *call, int rank)
{
    const tdmi_cut c = tdmi_cut_of(call->count, call->dtype, 1);
    s->stage_count = 2 * c.length;
    for (size_t k = 0; k < c.segments; k++) {
        const tdmi_range data = tdmi_cut_segment(&c, TDMI_BUFFER_OUT, k), slot = in_slot(&c, k, 2, 0, data.count);
        if (rank == call->root)
            tdmi_steps_copy(s, data, slot);
        tdmi_steps_meet(s);
        if (rank != call->root)
            tdmi_steps_copy_from(s, call->root, slot, data);
    }
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    if (n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    switch (call->coll) {
    case TDMI_COLL_ALLREDUCE:
    case TDMI_COLL_REDUCE:
        if (n == 2 && call->coll == TDMI_COLL_ALLREDUCE)
            allreduce_of_two(s, call, rank);
        else if (n == 2 || call->count * tdm_dtype_size(call->dtype) <= ONE_SHOT_BYTES)
            one_shot(s, call, rank);
        else
            allreduce(s, call, rank, n);
        break;
    case TDMI_COLL_BROADCAST: broadcast(s, call, rank); break;
    case TDMI_COLL_BARRIER: tdmi_steps_meet(s); break;
    default: tdmi_staged_parts(s, call, rank, n);
    }
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return !uneven || coll == TDMI_COLL_ALL_GATHER || coll == TDMI_COLL_REDUCE_SCATTER; /* else only pairs know the parts */
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    (void)call, (void)topology;
    return (tdmi_traffic){0, 0}; /* nothing goes over links */
}

const tdmi_algorithm tdmi_direct_staged = {
    .name = "direct_staged", .needs = TDMI_NEEDS_STAGE, .supports = supports, .steps = steps, .cost = cost};
