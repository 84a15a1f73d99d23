/* ring.c - reduce-scatter, then all-gather, around a ring.  Use: large messages, neighbour links, any n, any count.
 *
 *            start       reduce-scatter: 2 steps     all-gather: 2 steps       n = 3, chunks a b c
 *   rank 0   a0 b0 c0    a0  b0  c02   A   b0  c02   A  b0 C    A B C          c02 = c0 + c2, A = finished
 *   rank 1   a1 b1 c1    a01 b1  c1    a01 B   c1    A  B  c1   A B C          every rank sends to rank + 1
 *   rank 2   a2 b2 c2    a2  b12 c2    a2  b12 C     a2 B  C    A B C          and ends its sums with its own chunk
 * A broadcast is a chain from root to root + 1 ..., in segments, so that all links are busy.
 * Where the group has an order (links of different speed), rank + 1 is the next rank in it.
 *
 * Cost   allreduce 2(n-1) alpha + 2(n-1)/n S beta + (n-1)/n S gamma, half of it for each part alone;
 *        broadcast (segments + n - 2)(alpha + S beta / segments);  S bytes, alpha s/message, beta s/byte, gamma s/byte summed
 * Sums   chunk by chunk in another rotation: n > 2 gives other bits than the canonical tree.
 * Needs  links to two neighbours; scratch of two chunks in reduce-scatter, of S where sums are wider than the data.
 * Paper  Patarasuk and Yuan, JPDC 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002 */
#include "coll/ring_way.h"

#define SEGMENT_BYTES ((size_t)256 << 10)

static void allreduce(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const tdmi_ring_way way = tdmi_ring_way_of(topology, false, 0, 0, call->count);
    const tdmi_buffer sums = tdmi_sums_buffer(call);
    if (sums == TDMI_BUFFER_ACC)
        s->acc_count = call->count;
    tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count), tdmi_range_of(sums, 0, call->count));
    for (int k = 0; k < way.n - 1; k++)
        tdmi_ring_reduce(s, &way, sums, k);
    tdmi_steps_finish(s, call, tdmi_ring_chunk(&way, sums, way.place), tdmi_ring_chunk(&way, TDMI_BUFFER_OUT, way.place));
    for (int k = 0; k < way.n - 1; k++)
        tdmi_ring_gather(s, &way, k);
}

static void reduce_scatter(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const tdmi_ring_way way = tdmi_ring_way_of(topology, false, call->count, 0, call->count);
    s->acc_count = 2 * call->count;
    tdmi_ring_scatter_begin(s, &way, call);
    for (int k = 0; k < way.n - 1; k++)
        tdmi_ring_scatter(s, &way, call, k);
    tdmi_ring_scatter_end(s, &way, call);
}

static void all_gather(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const tdmi_ring_way way = tdmi_ring_way_of(topology, false, call->count, 0, call->count);
    tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count), tdmi_ring_chunk(&way, TDMI_BUFFER_OUT, way.place));
    for (int k = 0; k < way.n - 1; k++)
        tdmi_ring_gather(s, &way, k);
}

static int segments_of(const tdmi_call *call)
{
    size_t nbytes = call->count * tdm_dtype_size(call->dtype), segments = (nbytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES;
    return segments > 1 << 20 ? 1 << 20 : (int)segments;
}

static void broadcast(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const tdmi_ring_way way = tdmi_ring_way_of(topology, false, 0, 0, call->count);
    const int segments = segments_of(call);
    const int next = way.next == call->root ? -1 : way.next, before = topology->rank == call->root ? -1 : way.before;
    const tdmi_range nothing = tdmi_range_of(TDMI_BUFFER_OUT, 0, 0);
    for (int k = 0; k <= segments; k++) /* pass on what came in the round before */
        tdmi_steps_exchange(s, next, k > 0 && next >= 0 ? tdmi_chunk(TDMI_BUFFER_OUT, call->count, segments, k - 1) : nothing,
                            before, k < segments && before >= 0 ? tdmi_chunk(TDMI_BUFFER_OUT, call->count, segments, k) : nothing);
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    if (topology->n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    switch (call->coll) {
    case TDMI_COLL_ALLREDUCE: allreduce(s, call, topology); break;
    case TDMI_COLL_REDUCE_SCATTER: reduce_scatter(s, call, topology); break;
    case TDMI_COLL_ALL_GATHER: all_gather(s, call, topology); break;
    default: broadcast(s, call, topology);
    }
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return !uneven && (coll == TDMI_COLL_ALLREDUCE || coll == TDMI_COLL_REDUCE_SCATTER || coll == TDMI_COLL_ALL_GATHER ||
                       coll == TDMI_COLL_BROADCAST);
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const bool parts = call->coll == TDMI_COLL_REDUCE_SCATTER || call->coll == TDMI_COLL_ALL_GATHER;
    const tdmi_ring_way way = tdmi_ring_way_of(topology, false, parts ? call->count : 0, 0, call->count);
    tdmi_traffic t = {0, 0};
    if (topology->n == 1)
        return t;
    if (call->coll == TDMI_COLL_BROADCAST)
        return way.next == call->root ? t : (tdmi_traffic){(size_t)segments_of(call), call->count};
    if (tdmi_coll_reduces(call->coll))
        t = tdmi_ring_reduce_cost(&way);
    return call->coll == TDMI_COLL_REDUCE_SCATTER ? t : tdmi_traffic_sum(t, tdmi_ring_gather_cost(&way));
}

/* A chain is over when the last segment has made all hops. */
static double time(const tdmi_call *call, const tdmi_topology *topology, const tdmi_costs *costs)
{
    const tdmi_traffic t = cost(call, topology);
    const double size = (double)tdm_dtype_size(call->dtype), segments = segments_of(call) > 0 ? segments_of(call) : 1;
    if (call->coll == TDMI_COLL_BROADCAST)
        return (segments + topology->n - 2) * (costs->alpha + (double)call->count * size * costs->beta / segments);
    return (double)t.messages * costs->alpha + (double)t.elements_sent * size * (costs->beta + costs->gamma / 2);
}

const tdmi_algorithm tdmi_ring = {
    .name = "ring", .needs = TDMI_NEEDS_LINKS, .reorders = true, .supports = supports, .steps = steps, .cost = cost,
    .time = time};
