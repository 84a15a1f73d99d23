/* direct_staged.c - the direct algorithm for buffers that no peer can reach (malloc): through STAGE, segment by segment.
 *
 *   2 ranks: everyone sums everything. Segment k in slot k mod 2 of STAGE; behind every two the blocks change hands
 *     rank 0    copy in a to X | meet | a + b from Y -> out | rotate | copy in a' to Y | meet | a' + b' from X -> out
 *     rank 1    copy in b to Y | meet | a from X + b -> out | rotate | copy in b' to X | meet | a' from Y + b' -> out
 *   n ranks, allreduce, segment k in slot k mod 3; a phase ends with one meeting
 *     phase p     copy in k = p     sum the own slice of k = p - 1     copy out k = p - 2, each slice from its owner
 *     phase p+1   copy in k = p+1   sum                k = p           copy out k = p - 1
 *
 * A rank's own values are read from IN, so what nobody else reads is not staged. Two ranks move as many cache lines by summing
 * everything as by halves, in half the meetings; since each writes where it has just read, a line goes from cache to cache once
 * and not twice. With more, a slot is filled again when a meeting lies between that and its last reader: k segments take k + 1
 * meetings. All traffic between IN and OUT stays in the cache. Up to ONE_SHOT_BYTES any number of ranks sums everything: one
 * meeting. Reduce-scatter, all-gather and broadcast read each segment once: one meeting a segment, two slots.
 *
 * Cost   allreduce S / SEGMENT_BYTES meetings, for n > 2 one more; a rank copies S in; n = 2: it sums S, n > 2: it sums S / n and
 *        copies S out.
 * Sums   canonical tree.     Needs  all ranks on one node.
 * Source the pipelining of cache-sized segments is that of shared-memory collectives in MPI libraries; with the meeting at the
 *        end of a phase instead of around each step. */
#include "coll/algorithm.h"

#define LINE_BYTES 64
#define WHOLE_BYTES ((size_t)256 << 10) /* up to here one segment: the second meeting costs more than the first-level cache gives */
#define SEGMENT_BYTES ((size_t)128 << 10)
#define ONE_SHOT_BYTES ((size_t)8 << 10)

/* A cut of `count` elements into segments of at most `length`. A count of 0 is one segment, which meets. */
typedef struct cut {
    size_t count, length, segments;
} cut;

/* `parts` of `count` elements each are in STAGE at a time. */
static cut cut_of(size_t count, tdm_dtype dtype, size_t parts)
{
    const size_t size = tdm_dtype_size(dtype) * parts;
    size_t length = (count * size <= WHOLE_BYTES ? WHOLE_BYTES : SEGMENT_BYTES) / size;
    if (length == 0)
        length = 1;
    return (cut){.count = count, .length = count < length ? count : length,
                 .segments = count == 0 ? 1 : (count - 1) / length + 1};
}

static size_t length_at(const cut *c, size_t k)
{
    size_t rest = c->count - k * c->length;
    return rest < c->length ? rest : c->length;
}

static tdmi_range segment(tdmi_buffer buffer, const cut *c, size_t k)
{
    return tdmi_range_of(buffer, k * c->length, length_at(c, k));
}

static tdmi_range in_slot(const cut *c, size_t k, size_t slots, size_t first, size_t count)
{
    return tdmi_range_of(TDMI_BUFFER_STAGE, k % slots * c->length + first, count);
}

/* Behind segment k of two slots. With more than two ranks it would win nothing: others hold the lines as well. */
static void rotate(tdmi_steps *s, const cut *c, size_t k, int n)
{
    if (n == 2 && (k % 2 == 1 || k + 1 == c->segments))
        tdmi_steps_rotate(s);
}

static void allreduce_one_shot(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const cut c = cut_of(call->count, call->dtype, 1);
    s->stage_count = 2 * c.length;
    for (size_t k = 0; k < c.segments; k++) {
        const tdmi_range in = segment(TDMI_BUFFER_IN, &c, k), slot = in_slot(&c, k, 2, 0, in.count);
        tdmi_steps_copy(s, in, slot);
        tdmi_steps_meet(s);
        tdmi_steps_reduce_with(s, slot, in, rank, segment(TDMI_BUFFER_OUT, &c, k));
        rotate(s, &c, k, n);
    }
}

/* The slice of segment k that `owner` sums, counted from the start of the segment. */
static tdmi_range slice_of(const cut *c, size_t line, size_t k, int owner, int n)
{
    const size_t length = length_at(c, k), lines = (length + line - 1) / line;
    size_t first = line * tdmi_chunk_first(lines, n, owner), end = line * tdmi_chunk_first(lines, n, owner + 1);
    first = first < length ? first : length;
    end = end < length ? end : length;
    return tdmi_range_of(TDMI_BUFFER_STAGE, first, end - first);
}

static void allreduce(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const size_t line = LINE_BYTES / tdm_dtype_size(call->dtype);
    const cut c = cut_of(call->count, call->dtype, 1);
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

static void reduce_scatter(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const cut c = cut_of(call->count, call->dtype, (size_t)n);
    s->stage_count = 2 * c.length * (size_t)n;
    for (size_t k = 0; k < c.segments; k++) {
        const size_t part = length_at(&c, k), slot = k % 2 * c.length * (size_t)n;
        for (int owner = 0; owner < n; owner++)
            if (owner != rank)
                tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, (size_t)owner * call->count + k * c.length, part),
                                tdmi_range_of(TDMI_BUFFER_STAGE, slot + (size_t)owner * c.length, part));
        tdmi_steps_meet(s);
        tdmi_steps_reduce_with(s, tdmi_range_of(TDMI_BUFFER_STAGE, slot + (size_t)rank * c.length, part),
                               tdmi_range_of(TDMI_BUFFER_IN, (size_t)rank * call->count + k * c.length, part), rank,
                               segment(TDMI_BUFFER_OUT, &c, k));
        rotate(s, &c, k, n);
    }
}

static void all_gather(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const cut c = cut_of(call->count, call->dtype, 1);
    s->stage_count = 2 * c.length;
    for (size_t k = 0; k < c.segments; k++) {
        const tdmi_range in = segment(TDMI_BUFFER_IN, &c, k), slot = in_slot(&c, k, 2, 0, in.count);
        tdmi_steps_copy(s, in, slot);
        tdmi_steps_meet(s);
        for (int i = 0; i < n; i++) {
            int from = (rank + i) % n;
            tdmi_range out = tdmi_range_of(TDMI_BUFFER_OUT, (size_t)from * call->count + in.first, in.count);
            if (from == rank)
                tdmi_steps_copy(s, in, out);
            else
                tdmi_steps_copy_from(s, from, slot, out);
        }
        rotate(s, &c, k, n);
    }
}

static void broadcast(tdmi_steps *s, const tdmi_call *call, int rank)
{
    const cut c = cut_of(call->count, call->dtype, 1);
    s->stage_count = 2 * c.length;
    for (size_t k = 0; k < c.segments; k++) {
        const tdmi_range data = segment(TDMI_BUFFER_OUT, &c, k), slot = in_slot(&c, k, 2, 0, data.count);
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
        if (n == 2 || call->count * tdm_dtype_size(call->dtype) <= ONE_SHOT_BYTES)
            allreduce_one_shot(s, call, rank, n);
        else
            allreduce(s, call, rank, n);
        break;
    case TDMI_COLL_REDUCE_SCATTER: reduce_scatter(s, call, rank, n); break;
    case TDMI_COLL_ALL_GATHER: all_gather(s, call, rank, n); break;
    case TDMI_COLL_BROADCAST: broadcast(s, call, rank); break;
    default: tdmi_steps_meet(s); /* a barrier is one meeting */
    }
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return !uneven && (coll <= TDMI_COLL_BROADCAST || coll == TDMI_COLL_BARRIER);
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    (void)call, (void)topology;
    return (tdmi_traffic){0, 0}; /* nothing goes over links */
}

const tdmi_algorithm tdmi_direct_staged = {
    .name = "direct_staged", .needs = TDMI_NEEDS_STAGE, .supports = supports, .steps = steps, .cost = cost};
