/* ring2.c - the bidirectional ring: half of the data goes one way round, half the other.  Use: large messages over links that
 * neighbours have of their own, both directions of which would else wait for each other's turn.
 *
 *   n = 4, round k    0 ==> 1 ==> 2 ==> 3 ==> 0    chunks of the first half, as in ring.c
 *                     0 <== 1 <== 2 <== 3 <== 0    chunks of the second half
 * A chunk of n - 1 hops is half as long as that of a ring, and each cable carries as much in either direction. Where the group
 * has an order, neighbours are those in it.
 *
 * Cost   allreduce 4(n-1) alpha + 2(n-1)/n S beta + (n-1)/n S gamma, half of it for each part alone; a cable between neighbours
 *        carries S (n-1)/n in each direction, half of what it carries in one direction in a ring.
 * Sums   chunk by chunk in another rotation: n > 2 gives other bits than the canonical tree.
 * Needs  links to two neighbours; scratch of two parts in reduce-scatter, of S where sums are wider than the data.
 * Paper  Patarasuk and Yuan, JPDC 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002, for each way */
#include "coll/ring_way.h"

typedef struct ways {
    tdmi_ring_way way[2];
} ways;

/* A half each: of the whole buffer, or where `parts` of every part. */
static ways ways_of(const tdmi_call *call, const tdmi_topology *topology, bool parts)
{
    const size_t half = call->count - call->count / 2, stride = parts ? call->count : 0;
    ways w = {{tdmi_ring_way_of(topology, false, stride, 0, half),
               tdmi_ring_way_of(topology, true, stride, half, call->count - half)}};
    w.way[1].slots = 2 * half;
    return w;
}

static void allreduce(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const ways w = ways_of(call, topology, false);
    const tdmi_buffer sums = tdmi_sums_buffer(call);
    if (sums == TDMI_BUFFER_ACC)
        s->acc_count = call->count;
    tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count), tdmi_range_of(sums, 0, call->count));
    for (int k = 0; k < topology->n - 1; k++)
        for (int i = 0; i < 2; i++)
            tdmi_ring_reduce(s, &w.way[i], sums, k);
    for (int i = 0; i < 2; i++)
        tdmi_steps_finish(s, call, tdmi_ring_chunk(&w.way[i], sums, w.way[i].place),
                          tdmi_ring_chunk(&w.way[i], TDMI_BUFFER_OUT, w.way[i].place));
    for (int k = 0; k < topology->n - 1; k++)
        for (int i = 0; i < 2; i++)
            tdmi_ring_gather(s, &w.way[i], k);
}

static void reduce_scatter(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const ways w = ways_of(call, topology, true);
    s->acc_count = 2 * call->count;
    for (int i = 0; i < 2; i++)
        tdmi_ring_scatter_begin(s, &w.way[i], call);
    for (int k = 0; k < topology->n - 1; k++)
        for (int i = 0; i < 2; i++)
            tdmi_ring_scatter(s, &w.way[i], call, k);
    for (int i = 0; i < 2; i++)
        tdmi_ring_scatter_end(s, &w.way[i], call);
}

static void all_gather(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const ways w = ways_of(call, topology, true);
    tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count),
                    tdmi_range_of(TDMI_BUFFER_OUT, (size_t)topology->rank * call->count, call->count));
    for (int k = 0; k < topology->n - 1; k++)
        for (int i = 0; i < 2; i++)
            tdmi_ring_gather(s, &w.way[i], k);
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    if (topology->n == 1)
        tdmi_steps_alone(s, call);
    else if (call->coll == TDMI_COLL_ALLREDUCE)
        allreduce(s, call, topology);
    else if (call->coll == TDMI_COLL_REDUCE_SCATTER)
        reduce_scatter(s, call, topology);
    else
        all_gather(s, call, topology);
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return !uneven && (coll == TDMI_COLL_ALLREDUCE || coll == TDMI_COLL_REDUCE_SCATTER || coll == TDMI_COLL_ALL_GATHER);
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const ways w = ways_of(call, topology, call->coll != TDMI_COLL_ALLREDUCE);
    tdmi_traffic t = {0, 0};
    for (int i = 0; i < 2 && topology->n > 1; i++) {
        if (call->coll != TDMI_COLL_ALL_GATHER)
            t = tdmi_traffic_sum(t, tdmi_ring_reduce_cost(&w.way[i]));
        if (call->coll != TDMI_COLL_REDUCE_SCATTER)
            t = tdmi_traffic_sum(t, tdmi_ring_gather_cost(&w.way[i]));
    }
    return t;
}

const tdmi_algorithm tdmi_ring2 = {
    .name = "ring2", .needs = TDMI_NEEDS_LINKS, .reorders = true, .supports = supports, .steps = steps, .cost = cost};
