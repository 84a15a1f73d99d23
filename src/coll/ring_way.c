/* ring_way.c - the rounds of one way round a ring. */
#include "coll/ring_way.h"

static int rank_at(const tdmi_ring_way *way, int i)
{
    const int place = tdmi_modulo(i, way->n);
    return tdmi_rank_at(way->topology, TDMI_SHAPE_RING, way->back ? way->n - 1 - place : place);
}

tdmi_ring_way tdmi_ring_way_of(const tdmi_topology *topology, bool back, size_t stride, size_t first, size_t count)
{
    tdmi_ring_way way = {.topology = topology, .back = back, .n = topology->n, .stride = stride, .first = first, .count = count};
    const int place = tdmi_place_of(topology, TDMI_SHAPE_RING, topology->rank);
    way.place = back ? way.n - 1 - place : place;
    way.next = rank_at(&way, way.place + 1);
    way.before = rank_at(&way, way.place - 1);
    return way;
}

tdmi_range tdmi_ring_chunk(const tdmi_ring_way *way, tdmi_buffer buffer, int i)
{
    if (way->stride > 0)
        return tdmi_range_of(buffer, (size_t)rank_at(way, i) * way->stride + way->first, way->count);
    tdmi_range chunk = tdmi_chunk(buffer, way->count, way->n, tdmi_modulo(i, way->n));
    chunk.first += way->first;
    return chunk;
}

void tdmi_ring_reduce(tdmi_steps *s, const tdmi_ring_way *way, tdmi_buffer sums, int k)
{
    tdmi_steps_exchange_reduce(s, way->next, tdmi_ring_chunk(way, sums, way->place - k - 1), way->before,
                               tdmi_ring_chunk(way, sums, way->place - k - 2), way->before < way->topology->rank);
}

void tdmi_ring_gather(tdmi_steps *s, const tdmi_ring_way *way, int k)
{
    tdmi_steps_exchange(s, way->next, tdmi_ring_chunk(way, TDMI_BUFFER_OUT, way->place - k), way->before,
                        tdmi_ring_chunk(way, TDMI_BUFFER_OUT, way->place - k - 1));
}

/* ---- parts ---- */

static tdmi_range slot(const tdmi_ring_way *way, int k)
{
    return tdmi_range_of(TDMI_BUFFER_ACC, way->slots + (size_t)(k % 2) * way->count, way->count);
}

/* Where the sum received in round k goes; -1: what is sent in round 0. */
static tdmi_range sum_of(const tdmi_ring_way *way, const tdmi_call *call, int k)
{
    if (k == way->n - 2 && !tdmi_widens(call))
        return tdmi_range_of(TDMI_BUFFER_OUT, way->first, way->count);
    return k < 0 && !tdmi_widens(call) ? tdmi_ring_chunk(way, TDMI_BUFFER_IN, way->place - 1) : slot(way, k + 2);
}

void tdmi_ring_scatter_begin(tdmi_steps *s, const tdmi_ring_way *way, const tdmi_call *call)
{
    if (tdmi_widens(call))
        tdmi_steps_copy(s, tdmi_ring_chunk(way, TDMI_BUFFER_IN, way->place - 1), sum_of(way, call, -1));
}

void tdmi_ring_scatter(tdmi_steps *s, const tdmi_ring_way *way, const tdmi_call *call, int k)
{
    const tdmi_range sum = sum_of(way, call, k);
    tdmi_steps_copy(s, tdmi_ring_chunk(way, TDMI_BUFFER_IN, way->place - k - 2), sum);
    tdmi_steps_exchange_reduce(s, way->next, sum_of(way, call, k - 1), way->before, sum, way->before < way->topology->rank);
}

void tdmi_ring_scatter_end(tdmi_steps *s, const tdmi_ring_way *way, const tdmi_call *call)
{
    tdmi_steps_finish(s, call, sum_of(way, call, way->n - 2), tdmi_range_of(TDMI_BUFFER_OUT, way->first, way->count));
}

/* ---- traffic ---- */

/* All chunks but the i-th; empty ones are no messages. */
static tdmi_traffic all_but(const tdmi_ring_way *way, int i)
{
    const size_t rounds = (size_t)way->n - 1, skipped = tdmi_ring_chunk(way, TDMI_BUFFER_OUT, i).count;
    if (way->stride > 0)
        return (tdmi_traffic){way->count > 0 ? rounds : 0, rounds * way->count};
    const size_t chunks = way->count < rounds + 1 ? way->count : rounds + 1;
    return (tdmi_traffic){chunks - (skipped > 0 ? 1 : 0), way->count - skipped};
}

tdmi_traffic tdmi_ring_reduce_cost(const tdmi_ring_way *way)
{
    return all_but(way, way->place);
}

tdmi_traffic tdmi_ring_gather_cost(const tdmi_ring_way *way)
{
    return all_but(way, way->place + 1);
}
