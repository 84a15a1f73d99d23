/* ring.c - reduce-scatter, then all-gather, around a ring.  Use: large messages, neighbour links, any n, any count.
 *
 *            start       reduce-scatter: 2 steps     all-gather: 2 steps       n = 3, chunks a b c
 *   rank 0   a0 b0 c0    a0  b0  c02   A   b0  c02   A  b0 C    A B C          c02 = c0 + c2, A = finished
 *   rank 1   a1 b1 c1    a01 b1  c1    a01 B   c1    A  B  c1   A B C          every rank sends to rank + 1
 *   rank 2   a2 b2 c2    a2  b12 c2    a2  b12 C     a2 B  C    A B C          and ends its sums with its own chunk
 * A broadcast is a chain from root to root + 1 ..., in segments, so that all links are busy.
 *
 * Cost   allreduce 2(n-1) alpha + 2(n-1)/n S beta + (n-1)/n S gamma, half of it for each part alone;
 *        broadcast (segments + n - 2)(alpha + S beta / segments);  S bytes, alpha s/message, beta s/byte, gamma s/byte summed
 * Sums   chunk by chunk in another rotation: n > 2 gives other bits than the canonical tree.
 * Needs  links to two neighbours; scratch of two chunks in reduce-scatter, of S where sums are wider than the data.
 * Paper  Patarasuk and Yuan, JPDC 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002 */
#include "coll/algorithm.h"

#define SEGMENT_BYTES ((size_t)256 << 10)

static int modulo(int i, int n)
{
    return (i % n + n) % n;
}

static void gather(tdmi_steps *s, size_t total, int rank, int n)
{
    const int right = modulo(rank + 1, n), left = modulo(rank - 1, n);
    for (int k = 0; k < n - 1; k++)
        tdmi_steps_exchange(s, right, tdmi_chunk(TDMI_BUFFER_OUT, total, n, modulo(rank - k, n)), left,
                            tdmi_chunk(TDMI_BUFFER_OUT, total, n, modulo(rank - k - 1, n)));
}

static void allreduce(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const int right = modulo(rank + 1, n), left = modulo(rank - 1, n);
    const size_t count = call->count;
    const tdmi_buffer sums = tdmi_widens(call) ? TDMI_BUFFER_ACC : TDMI_BUFFER_OUT;
    if (sums == TDMI_BUFFER_ACC)
        s->acc_count = count;
    tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, count), tdmi_range_of(sums, 0, count));
    for (int k = 0; k < n - 1; k++)
        tdmi_steps_exchange_reduce(s, right, tdmi_chunk(sums, count, n, modulo(rank - k - 1, n)), left,
                                   tdmi_chunk(sums, count, n, modulo(rank - k - 2, n)), false);
    tdmi_steps_finish(s, call, tdmi_chunk(sums, count, n, rank), tdmi_chunk(TDMI_BUFFER_OUT, count, n, rank));
    gather(s, count, rank, n);
}

/* IN stays as it is: partial sums live in two slots of ACC, and the last in OUT where the types agree. */
static void reduce_scatter(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const int right = modulo(rank + 1, n), left = modulo(rank - 1, n);
    const size_t count = call->count;
    const bool widens = tdmi_widens(call);
    tdmi_range sent = tdmi_range_of(TDMI_BUFFER_IN, (size_t)left * count, count);
    s->acc_count = 2 * count;
    if (widens) {
        tdmi_steps_copy(s, sent, tdmi_range_of(TDMI_BUFFER_ACC, count, count));
        sent = tdmi_range_of(TDMI_BUFFER_ACC, count, count);
    }
    for (int k = 0; k < n - 1; k++) {
        tdmi_range sum = tdmi_range_of(TDMI_BUFFER_ACC, (size_t)(k % 2) * count, count);
        if (k == n - 2 && !widens)
            sum = tdmi_range_of(TDMI_BUFFER_OUT, 0, count);
        tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, (size_t)modulo(rank - k - 2, n) * count, count), sum);
        tdmi_steps_exchange_reduce(s, right, sent, left, sum, false);
        sent = sum;
    }
    tdmi_steps_finish(s, call, sent, tdmi_range_of(TDMI_BUFFER_OUT, 0, count));
}

static int segments_of(const tdmi_call *call)
{
    size_t nbytes = call->count * tdm_dtype_size(call->dtype), segments = (nbytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES;
    return segments > 1 << 20 ? 1 << 20 : (int)segments;
}

static void broadcast(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const int place = modulo(rank - call->root, n), segments = segments_of(call);
    const int next = place == n - 1 ? -1 : modulo(rank + 1, n), before = place == 0 ? -1 : modulo(rank - 1, n);
    const tdmi_range nothing = tdmi_range_of(TDMI_BUFFER_OUT, 0, 0);
    for (int k = 0; k <= segments; k++) /* pass on what came in the round before */
        tdmi_steps_exchange(s, next, k > 0 && next >= 0 ? tdmi_chunk(TDMI_BUFFER_OUT, call->count, segments, k - 1) : nothing,
                            before, k < segments && before >= 0 ? tdmi_chunk(TDMI_BUFFER_OUT, call->count, segments, k) : nothing);
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    if (n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    switch (call->coll) {
    case TDMI_COLL_ALLREDUCE: allreduce(s, call, rank, n); break;
    case TDMI_COLL_REDUCE_SCATTER: reduce_scatter(s, call, rank, n); break;
    case TDMI_COLL_ALL_GATHER:
        tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count),
                        tdmi_range_of(TDMI_BUFFER_OUT, (size_t)rank * call->count, call->count));
        gather(s, call->count * (size_t)n, rank, n);
        break;
    default: broadcast(s, call, rank, n);
    }
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return !uneven && (coll == TDMI_COLL_ALLREDUCE || coll == TDMI_COLL_REDUCE_SCATTER || coll == TDMI_COLL_ALL_GATHER ||
                       coll == TDMI_COLL_BROADCAST);
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    const size_t count = call->count, hops = (size_t)n - 1;
    const int right = modulo(rank + 1, n);
    tdmi_traffic none = {0, 0};
    if (n == 1)
        return none;
    switch (call->coll) {
    case TDMI_COLL_ALLREDUCE: /* all chunks but its own, then all but its right neighbour's */
        return (tdmi_traffic){2 * hops, 2 * count - tdmi_chunk(TDMI_BUFFER_OUT, count, n, rank).count -
                                            tdmi_chunk(TDMI_BUFFER_OUT, count, n, right).count};
    case TDMI_COLL_BROADCAST:
        return right == call->root ? none : (tdmi_traffic){(size_t)segments_of(call), count};
    default: return (tdmi_traffic){hops, hops * count};
    }
}

const tdmi_algorithm tdmi_ring = {
    .name = "ring", .needs = TDMI_NEEDS_LINKS, .reorders = true, .supports = supports, .steps = steps, .cost = cost};
