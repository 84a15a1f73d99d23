/* ring_way.h - one way round a ring, of which ring.c takes one and ring2.c two. */
#ifndef TDMI_COLL_RING_WAY_H
#define TDMI_COLL_RING_WAY_H

#include "coll/algorithm.h"

/* Place i of n sends to place i + 1. Chunk i ends its sum at place i. */
typedef struct tdmi_ring_way {
    const tdmi_topology *topology;
    bool back;             /* places count from the end of the order */
    int n, place;
    int next, before;      /* ranks */
    size_t stride;         /* 0: chunks are [first, first + count) cut in n. Otherwise chunk i is of the rank at place i: that rank's */
    size_t first, count;   /*    part of `stride` elements, from `first` on `count` */
    size_t slots;          /* where its two of `count` elements in ACC begin; for parts */
} tdmi_ring_way;

tdmi_ring_way tdmi_ring_way_of(const tdmi_topology *topology, bool back, size_t stride, size_t first, size_t count);
tdmi_range tdmi_ring_chunk(const tdmi_ring_way *way, tdmi_buffer buffer, int i);
/* Round k of n - 1: sums of [first, first + count) in `sums`. */
void tdmi_ring_reduce(tdmi_steps *s, const tdmi_ring_way *way, tdmi_buffer sums, int k);
/* Round k of n - 1: chunks of OUT. */
void tdmi_ring_gather(tdmi_steps *s, const tdmi_ring_way *way, int k);
/* Parts of IN are summed in the slots, and the last in OUT where the types agree. Before round 0, round k of n - 1, after. */
void tdmi_ring_scatter_begin(tdmi_steps *s, const tdmi_ring_way *way, const tdmi_call *call);
void tdmi_ring_scatter(tdmi_steps *s, const tdmi_ring_way *way, const tdmi_call *call, int k);
void tdmi_ring_scatter_end(tdmi_steps *s, const tdmi_ring_way *way, const tdmi_call *call);
/* What this rank sends: in all rounds of reduce or scatter, and of gather. */
tdmi_traffic tdmi_ring_reduce_cost(const tdmi_ring_way *way);
tdmi_traffic tdmi_ring_gather_cost(const tdmi_ring_way *way);

#endif
