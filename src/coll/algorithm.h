/* algorithm.h - what the algorithm files share: ranges, the cutting of a buffer, where sums are kept. */
#ifndef TDMI_COLL_ALGORITHM_H
#define TDMI_COLL_ALGORITHM_H

#include "coll/steps.h"

static inline tdmi_range tdmi_range_of(tdmi_buffer buffer, size_t first, size_t count)
{
    return (tdmi_range){.buffer = buffer, .first = first, .count = count};
}

/* First element of chunk i when `count` elements are cut into n nearly equal chunks; i == n gives the end. */
static inline size_t tdmi_chunk_first(size_t count, int n, int i)
{
    size_t whole = count / (size_t)n, rest = count % (size_t)n;
    return (size_t)i * whole + ((size_t)i < rest ? (size_t)i : rest);
}

static inline tdmi_range tdmi_chunk(tdmi_buffer buffer, size_t count, int n, int i)
{
    size_t first = tdmi_chunk_first(count, n, i);
    return tdmi_range_of(buffer, first, tdmi_chunk_first(count, n, i + 1) - first);
}

static inline void tdmi_steps_copy(tdmi_steps *s, tdmi_range src, tdmi_range dst)
{
    if (src.count > 0)
        tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_COPY, .to = -1, .from = -1, .src = src, .dst = dst});
}

/* dst <- dst op src, or src op dst. */
static inline void tdmi_steps_reduce(tdmi_steps *s, tdmi_range src, tdmi_range dst, bool src_first)
{
    if (src.count > 0)
        tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_REDUCE, .to = -1, .from = -1, .src = src, .dst = dst,
                                      .received_first = src_first});
}

/* dst <- finished src; left out where the sum is the result already. */
void tdmi_steps_finish(tdmi_steps *s, const tdmi_call *call, tdmi_range src, tdmi_range dst);

static inline void tdmi_steps_publish(tdmi_steps *s)
{
    tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_PUBLISH, .to = -1, .from = -1});
}

/* Publishes and waits for one rank, which need not wait for this one; -1: for all. */
static inline void tdmi_steps_meet_with(tdmi_steps *s, int rank)
{
    tdmi_steps_publish(s);
    tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_MEET, .to = -1, .from = rank});
}

/* Waits until the others have published as often as this rank, or `behind` times less. */
static inline void tdmi_steps_meet_behind(tdmi_steps *s, unsigned behind)
{
    tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_MEET, .to = -1, .from = -1, .behind = behind});
}

static inline void tdmi_steps_meet(tdmi_steps *s)
{
    tdmi_steps_meet_with(s, -1);
}

/* dst of rank `to` (-1: all) <- the reduction of src over all ranks, with this rank's own values in `own`. */
static inline void tdmi_steps_reduce_with(tdmi_steps *s, tdmi_range src, tdmi_range own, int to, tdmi_range dst)
{
    if (src.count == 0)
        return;
    tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_REDUCE_FROM, .to = -1, .from = -1, .src = src, .own = own});
    tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_COPY_TO, .to = to, .from = -1, .src = src, .dst = dst});
}

/* The same where src of this rank holds them. */
static inline void tdmi_steps_reduce_from(tdmi_steps *s, tdmi_range src, int to, tdmi_range dst)
{
    tdmi_steps_reduce_with(s, src, (tdmi_range){.count = 0}, to, dst);
}

static inline void tdmi_steps_rotate(tdmi_steps *s)
{
    tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_ROTATE, .to = -1, .from = -1});
}

/* Own dst <- src of rank `from`, which may be this rank itself. */
static inline void tdmi_steps_copy_from(tdmi_steps *s, int from, tdmi_range src, tdmi_range dst)
{
    if (src.count > 0)
        tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_COPY_FROM, .to = -1, .from = from, .src = src, .dst = dst});
}

/* dst, STAGE of rank `to` <- own src: in one pass with the steps at the end of the list where those have just read all of it. */
void tdmi_steps_refill(tdmi_steps *s, int to, tdmi_range src, tdmi_range dst);

/* The one list of every operation for a group of one: the input is the result. */
void tdmi_steps_alone(tdmi_steps *s, const tdmi_call *call);

/* Whether sums need the ACC buffer, because their type is not the dtype. */
static inline bool tdmi_widens(const tdmi_call *call)
{
    return tdmi_call_acc_dtype(call) != call->dtype;
}

static inline tdmi_traffic tdmi_traffic_sum(tdmi_traffic a, tdmi_traffic b)
{
    return (tdmi_traffic){a.messages + b.messages, a.elements_sent + b.elements_sent};
}

/* Where sums of whole vectors are kept. */
static inline tdmi_buffer tdmi_sums_buffer(const tdmi_call *call)
{
    return tdmi_widens(call) ? TDMI_BUFFER_ACC : TDMI_BUFFER_OUT;
}

static inline int tdmi_modulo(int i, int n)
{
    return (i % n + n) % n;
}

/* The largest power of two up to x >= 1. */
static inline int tdmi_highest_bit(int x)
{
    int bit = 1;
    while (bit <= x / 2)
        bit *= 2;
    return bit;
}

/* The rank at a place of a shape, and the place of a rank. */
static inline int tdmi_rank_at(const tdmi_topology *topology, tdmi_shape shape, int place)
{
    return topology->order[shape] == NULL ? place : topology->order[shape][place];
}

static inline int tdmi_place_of(const tdmi_topology *topology, tdmi_shape shape, int rank)
{
    int place = rank;
    for (int i = 0; topology->order[shape] != NULL && i < topology->n; i++)
        if (topology->order[shape][i] == rank)
            place = i;
    return place;
}

/* A list that was written for places becomes one for ranks. */
static inline void tdmi_steps_use_order(tdmi_steps *s, const tdmi_topology *topology, tdmi_shape shape)
{
    for (size_t i = 0; i < s->count && topology->order[shape] != NULL; i++) {
        s->step[i].to = s->step[i].to < 0 ? -1 : tdmi_rank_at(topology, shape, s->step[i].to);
        s->step[i].from = s->step[i].from < 0 ? -1 : tdmi_rank_at(topology, shape, s->step[i].from);
    }
}

extern const tdmi_algorithm tdmi_direct, tdmi_direct_read, tdmi_direct_staged, tdmi_eager, tdmi_halving_doubling,
    tdmi_recursive_doubling, tdmi_ring, tdmi_ring2, tdmi_tree, tdmi_binomial, tdmi_dissemination, tdmi_parameter_server, tdmi_gather_to_one,
    tdmi_hierarchical, tdmi_hierarchical_ring, tdmi_hierarchical_ring2, tdmi_hierarchical_tree,
    tdmi_pairwise, tdmi_bruck, tdmi_linear_parts;

#endif
