/* eager.c - short messages travel with the meeting itself.  Use: up to TDMI_EAGER_BYTES, all ranks on one node, any memory.
 *
 *     slot of rank 0   | call 7, allreduce of 2 float32 | a |        every rank writes one slot and reads the others':
 *     slot of rank 1   | call 7, allreduce of 2 float32 | b |  --->  out = (a + b) + c on all of them
 *     slot of rank 2   | call 7, allreduce of 2 float32 | c |
 *
 * What announces a call carries its data: up to 48 bytes lie in the cache line that the peers poll anyway. Everyone sums
 * everything. A slot is written again many calls later, so nobody has to say that it has been read, and who only gives (the
 * root of a broadcast or scatter, all others of a reduce or gather) waits for nobody: it may be up to 64 calls ahead.
 *
 * Cost   1 meeting, or with one rank half a one; a rank copies its input in, and reads what it needs of the others' slots.
 * Sums   canonical tree.     Needs  all ranks on one node.
 * Paper  the eager protocol of MPI libraries, with a board of flags and data as in Graham and Shipman, EuroPVM/MPI 2008,
 *        doi:10.1007/978-3-540-87475-1_21 */
#include "coll/algorithm.h"

static tdmi_range in_slot(tdmi_range part)
{
    part.buffer = TDMI_BUFFER_SLOT;
    return part;
}

/* dst <- what `from` has in its slot; its own values a rank takes from IN. */
static void fetch(tdmi_steps *s, int from, int rank, tdmi_range part, tdmi_range dst)
{
    if (from == rank)
        tdmi_steps_copy(s, part, dst);
    else
        tdmi_steps_copy_from(s, from, in_slot(part), dst);
}

/* Whether the root alone gives something, or alone gets something. */
static bool is_from_root(const tdmi_call *call)
{
    return call->coll == TDMI_COLL_BROADCAST || call->coll == TDMI_COLL_SCATTER;
}

static bool is_to_root(const tdmi_call *call)
{
    return call->coll == TDMI_COLL_REDUCE || call->coll == TDMI_COLL_GATHER;
}

/* A rank meets those of whom it gets something; a barrier is all meeting. */
static void meet(tdmi_steps *s, const tdmi_call *call, int rank)
{
    if (is_from_root(call) && rank != call->root)
        tdmi_steps_meet_with(s, call->root);
    else if (is_from_root(call) || (is_to_root(call) && rank != call->root))
        tdmi_steps_publish(s);
    else
        tdmi_steps_meet(s);
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    if (n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    const tdmi_range in = tdmi_range_of(TDMI_BUFFER_IN, 0, tdmi_call_in_count(call, rank, n));
    if ((!is_from_root(call) || rank == call->root) && (!is_to_root(call) || rank != call->root))
        tdmi_steps_copy(s, in, in_slot(in));
    meet(s, call, rank);
    const size_t out_count = tdmi_call_out_count(call, rank, n);
    if (tdmi_coll_reduces(call->coll) && out_count > 0) {
        const tdmi_range own = tdmi_call_in_part(call, rank);
        tdmi_steps_reduce_with(s, in_slot(own), own, rank, tdmi_range_of(TDMI_BUFFER_OUT, 0, out_count));
    } else if (call->coll == TDMI_COLL_BROADCAST) {
        if (rank != call->root)
            fetch(s, call->root, rank, in, tdmi_range_of(TDMI_BUFFER_OUT, 0, out_count));
    } else if (call->coll == TDMI_COLL_SCATTER) {
        const tdmi_range part = tdmi_range_of(TDMI_BUFFER_IN, (size_t)rank * out_count, out_count);
        fetch(s, call->root, rank, part, tdmi_range_of(TDMI_BUFFER_OUT, 0, out_count));
    } else if (out_count > 0) {
        for (int k = 0; k < n; k++) {
            const int from = (rank + k) % n;
            const tdmi_range dst = tdmi_call_out_part(call, from);
            const size_t first = call->coll == TDMI_COLL_ALLTOALL ? tdmi_call_in_part(call, rank).first : 0;
            fetch(s, from, rank, tdmi_range_of(TDMI_BUFFER_IN, first, dst.count), dst);
        }
    }
}

/* What is in a slot, its reader must know: not so where only pairs of ranks know of each other's parts. */
static bool supports(tdmi_coll coll, bool uneven)
{
    return coll < TDMI_COLL_COUNT && (!uneven || coll == TDMI_COLL_ALL_GATHER || coll == TDMI_COLL_REDUCE_SCATTER);
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    (void)call, (void)topology;
    return (tdmi_traffic){0, 0}; /* nothing goes over links */
}

const tdmi_algorithm tdmi_eager = {.name = "eager", .needs = TDMI_NEEDS_SLOT, .max_bytes = TDMI_EAGER_BYTES,
                                   .supports = supports, .steps = steps, .cost = cost};
