/* direct_staged.c - the direct algorithm for buffers that no peer can reach (malloc): through STAGE, segment by segment.
 *
 *   allreduce, segment k in slot k mod 3; a phase ends with one meeting
 *   phase p     copy in k = p     sum the own slice of k = p - 1, in place     copy out k = p - 2, each slice from its owner
 *   phase p+1   copy in k = p+1   sum                        k = p             copy out k = p - 1
 * When slot k mod 3 is filled again, a meeting lies between that and its last reader. So k segments take k + 1 meetings, and
 * all traffic between IN and OUT stays in the cache. Up to ONE_SHOT_BYTES everyone sums everything straight into its OUT: one
 * meeting. Reduce-scatter, all-gather and broadcast read each segment once, from the peers' STAGE: one meeting a segment,
 * two slots.
 *
 * Cost   allreduce 1 + S / SEGMENT_BYTES meetings; a rank copies S in and S out and sums S / n.
 * Sums   canonical tree.     Needs  all ranks on one node.
 * Source the pipelining of cache-sized segments is that of shared-memory collectives in MPI libraries; with the meeting at the
 *        end of a phase instead of around each step. */
#include "coll/algorithm.h"

#define LINE_BYTES 64
#define SEGMENT_BYTES ((size_t)256 << 10)
#define ONE_SHOT_BYTES ((size_t)8 << 10)

/* A cut of `count` elements into segments of at most `length`. A count of 0 is one segment, which meets. */
typedef struct cut {
    size_t count, length, segments;
} cut;

static cut cut_of(size_t count, size_t length)
{
    return (cut){.count = count, .length = count < length ? count : length,
                 .segments = count == 0 ? 1 : (count - 1) / length + 1};
}

static size_t length_at(const cut *c, size_t k)
{
    size_t rest = c->count - k * c->length;
    return rest < c->length ? rest : c->length;
}

static tdmi_range in_slot(const cut *c, size_t k, size_t slots, size_t first, size_t count)
{
    return tdmi_range_of(TDMI_BUFFER_STAGE, k % slots * c->length + first, count);
}

static void allreduce(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const size_t line = LINE_BYTES / tdm_dtype_size(call->dtype);
    const cut c = cut_of(call->count, SEGMENT_BYTES / tdm_dtype_size(call->dtype));
    s->stage_count = 3 * c.length;
    for (size_t phase = 0; phase <= c.segments + 1; phase++) {
        if (phase < c.segments) {
            size_t length = length_at(&c, phase);
            tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, phase * c.length, length), in_slot(&c, phase, 3, 0, length));
        }
        for (size_t k = phase >= 2 ? phase - 2 : 0; k < phase && k < c.segments; k++) {
            const size_t length = length_at(&c, k), lines = (length + line - 1) / line;
            for (int owner = 0; owner < n; owner++) {
                size_t first = line * tdmi_chunk_first(lines, n, owner), end = line * tdmi_chunk_first(lines, n, owner + 1);
                end = end < length ? end : length;
                if (first >= end)
                    continue;
                tdmi_range slice = in_slot(&c, k, 3, first, end - first);
                tdmi_range out = tdmi_range_of(TDMI_BUFFER_OUT, k * c.length + first, end - first);
                if (k + 1 == phase && owner == rank)
                    tdmi_steps_reduce_from(s, slice, rank, slice);
                else if (k + 2 == phase && owner == rank)
                    tdmi_steps_copy(s, slice, out);
                else if (k + 2 == phase)
                    tdmi_steps_copy_from(s, owner, slice, out);
            }
        }
        if (phase <= c.segments)
            tdmi_steps_meet(s);
    }
}

static void allreduce_one_shot(tdmi_steps *s, const tdmi_call *call, int rank)
{
    const tdmi_range in = tdmi_range_of(TDMI_BUFFER_IN, 0, call->count);
    const tdmi_range stage = tdmi_range_of(TDMI_BUFFER_STAGE, 0, call->count);
    s->stage_count = call->count;
    tdmi_steps_copy(s, in, stage);
    tdmi_steps_meet(s);
    tdmi_steps_reduce_from(s, stage, rank, tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count));
}

static void reduce_scatter(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    size_t length = SEGMENT_BYTES / tdm_dtype_size(call->dtype) / (size_t)n; /* of each rank's part */
    const cut c = cut_of(call->count, length > 0 ? length : 1);
    s->stage_count = 2 * c.length * (size_t)n;
    for (size_t k = 0; k < c.segments; k++) {
        const size_t part = length_at(&c, k), slot = k % 2 * c.length * (size_t)n;
        for (int owner = 0; owner < n; owner++)
            tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, (size_t)owner * call->count + k * c.length, part),
                            tdmi_range_of(TDMI_BUFFER_STAGE, slot + (size_t)owner * c.length, part));
        tdmi_steps_meet(s);
        tdmi_steps_reduce_from(s, tdmi_range_of(TDMI_BUFFER_STAGE, slot + (size_t)rank * c.length, part), rank,
                               tdmi_range_of(TDMI_BUFFER_OUT, k * c.length, part));
    }
}

static void all_gather(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const cut c = cut_of(call->count, SEGMENT_BYTES / tdm_dtype_size(call->dtype));
    s->stage_count = 2 * c.length;
    for (size_t k = 0; k < c.segments; k++) {
        const size_t length = length_at(&c, k);
        const tdmi_range in = tdmi_range_of(TDMI_BUFFER_IN, k * c.length, length), slot = in_slot(&c, k, 2, 0, length);
        tdmi_steps_copy(s, in, slot);
        tdmi_steps_meet(s);
        for (int i = 0; i < n; i++) {
            int from = (rank + i) % n;
            tdmi_range out = tdmi_range_of(TDMI_BUFFER_OUT, (size_t)from * call->count + k * c.length, length);
            if (from == rank)
                tdmi_steps_copy(s, in, out);
            else
                tdmi_steps_copy_from(s, from, slot, out);
        }
    }
}

static void broadcast(tdmi_steps *s, const tdmi_call *call, int rank)
{
    const cut c = cut_of(call->count, SEGMENT_BYTES / tdm_dtype_size(call->dtype));
    s->stage_count = 2 * c.length;
    for (size_t k = 0; k < c.segments; k++) {
        const size_t length = length_at(&c, k);
        const tdmi_range data = tdmi_range_of(TDMI_BUFFER_OUT, k * c.length, length), slot = in_slot(&c, k, 2, 0, length);
        if (rank == call->root)
            tdmi_steps_copy(s, data, slot);
        tdmi_steps_meet(s);
        if (rank != call->root)
            tdmi_steps_copy_from(s, call->root, slot, data);
    }
}

static void steps(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    if (n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    switch (call->coll) {
    case TDMI_COLL_ALLREDUCE:
        if (call->count * tdm_dtype_size(call->dtype) <= ONE_SHOT_BYTES)
            allreduce_one_shot(s, call, rank);
        else
            allreduce(s, call, rank, n);
        break;
    case TDMI_COLL_REDUCE_SCATTER: reduce_scatter(s, call, rank, n); break;
    case TDMI_COLL_ALL_GATHER: all_gather(s, call, rank, n); break;
    case TDMI_COLL_BROADCAST: broadcast(s, call, rank); break;
    default: tdmi_steps_meet(s); /* a barrier is one meeting */
    }
}

static bool supports(tdmi_coll coll)
{
    return coll < TDMI_COLL_COUNT;
}

static tdmi_traffic cost(const tdmi_call *call, int rank, int n)
{
    (void)call, (void)rank, (void)n;
    return (tdmi_traffic){0, 0}; /* nothing goes over links */
}

const tdmi_algorithm tdmi_direct_staged = {
    .name = "direct_staged", .needs = TDMI_NEEDS_STAGE, .supports = supports, .steps = steps, .cost = cost};
