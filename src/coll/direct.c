/* direct.c - every rank works in the others' buffers in place.  Use: all ranks on one node, buffers in shared memory.
 *
 *     allreduce, n = 3     rank 0 sums slice a of all inputs, rank 1 slice b, rank 2 slice c, each into every output
 *     IN of rank 0   a0 b0 c0           OUT of every rank   A B C
 *     IN of rank 1   a1 b1 c1   ---->                       | | `- written by rank 2 = (c0 + c1) + c2
 *     IN of rank 2   a2 b2 c2                               | `--- written by rank 1
 *                                                           `----- written by rank 0
 * A meeting before (inputs are ready) and one after (outputs are written, inputs are free again). In place is safe: a slice
 * is read by its owner alone, and each tile of it before it is written. Slices are cut at cache lines, so that no two ranks
 * write one line. Whose slice is where makes no difference to what crosses between NUMA nodes, as each is read from and written to all
 * buffers; who copies goes to near ranks first (near.c).
 *
 * `direct_read` is the same for buffers that peers can only read, from the other process: an allreduce keeps the sum of a slice
 * with its owner, and after one more meeting the others fetch it.
 *
 * Cost   2 meetings; a rank reads S and writes S bytes, which together is one copy of each rank's buffer: S bytes a rank.
 * Sums   canonical tree.     Needs  every rank reaches the others' IN and OUT.
 * Paper  reduce-scatter, then all-gather, with loads and stores for messages: Thakur, Rabenseifner and Gropp,
 *        IJHPCA 19(1), 2005, doi:10.1177/1094342005051521 */
#include "coll/algorithm.h"
#include "coll/near.h"

#define LINE_BYTES 64

static tdmi_range slice(const tdmi_call *call, tdmi_buffer buffer, int n, int rank)
{
    size_t line = LINE_BYTES / tdm_dtype_size(call->dtype), lines = (call->count + line - 1) / line;
    size_t first = line * tdmi_chunk_first(lines, n, rank), end = line * tdmi_chunk_first(lines, n, rank + 1);
    if (first > call->count)
        first = call->count;
    if (end > call->count)
        end = call->count;
    return tdmi_range_of(buffer, first, end - first);
}

/* Gather, scatter, alltoall: a rank copies its parts out of the others' inputs, its own first. */
static void fetch(tdmi_steps *s, const tdmi_call *call, int rank, int n, const int *order)
{
    for (int k = 0; k < n; k++) {
        const int from = order[k];
        const size_t count = tdmi_call_expects(call, rank, from);
        tdmi_range src = tdmi_range_of(TDMI_BUFFER_IN, 0, count);
        if (call->coll != TDMI_COLL_GATHER)
            src.first = call->uneven ? TDMI_PART_FOR_ME : (size_t)rank * count;
        if (count > 0)
            tdmi_steps_copy_from(s, from, src, tdmi_call_out_part(call, from));
    }
}

/* direct_read: nobody writes in others' buffers. The owner keeps the sum of its slice, the others fetch it. */
static void allreduce_by_reading(tdmi_steps *s, const tdmi_call *call, int rank, int n, const int *order)
{
    tdmi_steps_reduce_from(s, slice(call, TDMI_BUFFER_IN, n, rank), rank, slice(call, TDMI_BUFFER_OUT, n, rank));
    tdmi_steps_meet(s);
    for (int k = 1; k < n; k++) {
        const tdmi_range part = slice(call, TDMI_BUFFER_OUT, n, order[k]);
        tdmi_steps_copy_from(s, order[k], part, part);
    }
}

static void write_steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology, bool reads)
{
    const int rank = topology->rank, n = topology->n;
    if (n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    const size_t count = call->count;
    int order[n];
    tdmi_near_first(topology, order);
    tdmi_steps_meet(s);
    switch (call->coll) {
    case TDMI_COLL_ALLREDUCE:
        if (reads)
            allreduce_by_reading(s, call, rank, n, order);
        else
            tdmi_steps_reduce_from(s, slice(call, TDMI_BUFFER_IN, n, rank), -1, slice(call, TDMI_BUFFER_OUT, n, rank));
        break;
    case TDMI_COLL_REDUCE_SCATTER:
        tdmi_steps_reduce_from(s, tdmi_call_in_part(call, rank), rank, tdmi_range_of(TDMI_BUFFER_OUT, 0, count));
        break;
    case TDMI_COLL_ALL_GATHER:
        for (int k = 0; k < n; k++) {
            const int from = order[k];
            const tdmi_range dst = tdmi_call_out_part(call, from);
            tdmi_steps_copy_from(s, from, tdmi_range_of(TDMI_BUFFER_IN, 0, dst.count), dst);
        }
        break;
    case TDMI_COLL_REDUCE:
        tdmi_steps_reduce_from(s, slice(call, TDMI_BUFFER_IN, n, rank), call->root, slice(call, TDMI_BUFFER_OUT, n, rank));
        break;
    case TDMI_COLL_GATHER:
    case TDMI_COLL_SCATTER:
    case TDMI_COLL_ALLTOALL: fetch(s, call, rank, n, order); break;
    case TDMI_COLL_BROADCAST:
        if (rank != call->root)
            tdmi_steps_copy_from(s, call->root, tdmi_range_of(TDMI_BUFFER_IN, 0, count),
                                 tdmi_range_of(TDMI_BUFFER_OUT, 0, count));
        break;
    default: return; /* a barrier is one meeting */
    }
    tdmi_steps_meet(s);
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    write_steps(s, call, topology, false);
}

static void read_steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    write_steps(s, call, topology, true);
}

/* A reduce would be written into the root's buffer. */
static bool read_supports(tdmi_coll coll, bool uneven)
{
    return coll != TDMI_COLL_REDUCE && tdmi_direct.supports(coll, uneven);
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return coll < TDMI_COLL_COUNT && (!uneven || tdmi_coll_has_parts(coll));
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    (void)call, (void)topology;
    return (tdmi_traffic){0, 0}; /* nothing goes over links */
}

const tdmi_algorithm tdmi_direct = {
    .name = "direct", .needs = TDMI_NEEDS_SHARED, .supports = supports, .steps = steps, .cost = cost};
const tdmi_algorithm tdmi_direct_read = {
    .name = "direct_read", .needs = TDMI_NEEDS_READ, .supports = read_supports, .steps = read_steps, .cost = cost};
