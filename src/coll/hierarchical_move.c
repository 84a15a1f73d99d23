/* hierarchical_move.c - hierarchical operations that only move data: what goes to a node goes there once, a slice on each lane.
 *
 *   2 nodes of 2 ranks           inside the node                along each lane               inside the node
 *   broadcast from 0             0 -> 1                         0 -> 2 a half, 1 -> 3 half    halves 2 <-> 3
 *   all_gather                   parts 0 <-> 1, 2 <-> 3         0 <-> 2, 1 <-> 3              what came: 0 <-> 1, 2 <-> 3
 *   gather to 0                  2 and 3 swap halves            2 -> 0, 3 -> 1                0 takes from 1
 *   scatter from 0               1 takes a slice for 3          0 -> 2, 1 -> 3                2 and 3 swap halves
 *   alltoall                     0 takes what 1 has for 2       0 <-> 2, 1 <-> 3              nothing: lane i carries what is for
 *                                1 takes what 0 has for 3                                     the i-th ranks
 * The block of a node, its ranks' parts side by side, is cut into one slice a lane whatever the parts are, so lanes carry equally
 * much where parts are uneven or a node has ranks that lead nothing. Parts of a node need not be neighbours in the buffer: a
 * slice travels packed, one message from node to node on each lane (an all_gather's log2(M), a long broadcast's one a segment).
 *
 * ACC of a leader: the windows of all nodes' blocks, of an alltoall those that leave and those that come. */
#include "coll/hierarchical.h"

#define CHAIN_BYTES ((size_t)1 << 20) /* of a slice to broadcast */

static const tdmi_range nothing = {.buffer = TDMI_BUFFER_ACC, .first = 0, .count = 0};

static int root_node(const tdmi_lanes *w)
{
    return tdmi_layout_node(w->layout.topology, w->call->root);
}

static bool at_root(const tdmi_lanes *w)
{
    return root_node(w) == w->layout.node;
}

/* This leader's window of a block, in ACC. */
static tdmi_range held(const tdmi_lanes *w, const tdmi_piece *piece, int block)
{
    return tdmi_range_of(TDMI_BUFFER_ACC, piece->acc + tdmi_lanes_before(w, block, w->layout.index, piece->number),
                         tdmi_lanes_window(w, block, w->layout.index, piece->number).count);
}

/* A stretch of it. */
static tdmi_range held_stretch(const tdmi_lanes *w, const tdmi_piece *piece, const tdmi_stretch *st)
{
    return tdmi_range_of(TDMI_BUFFER_ACC, held(w, piece, st->block).first + st->in_window, st->count);
}

/* Where a stretch of a rank's part lies in a buffer of all parts. */
static tdmi_range in_parts(tdmi_range part, const tdmi_stretch *st)
{
    return tdmi_range_of(part.buffer, part.first + st->in_part, st->count);
}

static tdmi_range own_part(tdmi_buffer buffer, const tdmi_stretch *st)
{
    return tdmi_range_of(buffer, st->in_part, st->count);
}

/* ---- broadcast ---- */

static tdmi_flow from_root(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *arg)
{
    const tdmi_range data = own_part(TDMI_BUFFER_OUT, st);
    (void)lane, (void)arg;
    return (tdmi_flow){.from = w->call->root, .to = -1, .src = data, .dst = data};
}

static tdmi_flow from_leader(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *arg)
{
    tdmi_flow flow = from_root(w, lane, st, arg);
    flow.from = tdmi_lanes_leader(w, lane);
    return flow;
}

static void broadcast_collect(tdmi_job *job, const tdmi_piece *piece)
{
    if (at_root(&job->w))
        tdmi_lanes_move(&job->w, TDMI_BLOCKS_ALL, piece->number, from_root, NULL);
}

static tdmi_call broadcast_call(const tdmi_job *job, size_t piece)
{
    return (tdmi_call){.coll = TDMI_COLL_BROADCAST, .dtype = job->w.call->dtype, .op = job->w.call->op, .root = root_node(&job->w),
                       .count = tdmi_lanes_window(&job->w, 0, job->w.layout.index, piece).count};
}

static const tdmi_algorithm *broadcast_algorithm(const tdmi_call *call)
{
    return call->count * tdm_dtype_size(call->dtype) >= CHAIN_BYTES ? &tdmi_ring : &tdmi_binomial;
}

static void broadcast_between(tdmi_job *job, const tdmi_piece *piece)
{
    const tdmi_call call = broadcast_call(job, piece->number);
    tdmi_lanes_along(&job->w, &(tdmi_along){.algorithm = broadcast_algorithm(&call), .call = &call, .acc = piece->acc,
                                            .data = tdmi_lanes_window(&job->w, 0, job->w.layout.index, piece->number)});
}

static void broadcast_deliver(tdmi_job *job, const tdmi_piece *piece)
{
    if (!at_root(&job->w))
        tdmi_lanes_move(&job->w, TDMI_BLOCKS_ALL, piece->number, from_leader, NULL);
}

static tdmi_traffic broadcast_cost(const tdmi_job *job, size_t piece)
{
    const tdmi_call call = broadcast_call(job, piece);
    const tdmi_topology nodes = tdmi_layout_lane(&job->w.layout);
    return broadcast_algorithm(&call)->cost(&call, &nodes);
}

/* ---- all_gather ---- */

static tdmi_flow part_to_all(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *arg)
{
    (void)lane, (void)arg;
    return (tdmi_flow){.from = st->rank, .to = -1, .src = own_part(TDMI_BUFFER_IN, st),
                       .dst = in_parts(tdmi_call_out_part(w->call, st->rank), st)};
}

static tdmi_flow held_to_all(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *piece)
{
    const bool leads = tdmi_lanes_leads(w);
    return (tdmi_flow){.from = tdmi_lanes_leader(w, lane), .to = -1, .src = leads ? held_stretch(w, piece, st) : nothing,
                       .dst = in_parts(tdmi_call_out_part(w->call, st->rank), st)};
}

static void all_gather_collect(tdmi_job *job, const tdmi_piece *piece)
{
    tdmi_lanes *w = &job->w;
    tdmi_stretch st;
    tdmi_lanes_move(w, TDMI_BLOCKS_OWN, piece->number, part_to_all, NULL);
    if (!tdmi_lanes_leads(w) || w->layout.nodes == 1)
        return;
    tdmi_lanes_need(w, piece->acc + tdmi_job_total(job, piece->number));
    for (size_t k = 0; k < tdmi_lanes_segments(w, TDMI_BLOCKS_OWN, piece->number); k++)
        for (size_t at = 0; tdmi_lanes_stretch(w, TDMI_BLOCKS_OWN, w->layout.index, piece->number, k, at, &st); at += st.count)
            tdmi_steps_copy(w->s, in_parts(tdmi_call_out_part(w->call, st.rank), &st), held_stretch(w, piece, &st));
}

/* counts: [nodes] */
static tdmi_call all_gather_call(const tdmi_job *job, size_t piece, size_t *counts)
{
    const tdmi_lanes *w = &job->w;
    for (int b = 0; b < w->layout.nodes; b++)
        counts[b] = tdmi_lanes_window(w, b, w->layout.index, piece).count;
    return (tdmi_call){.coll = TDMI_COLL_ALL_GATHER, .dtype = w->call->dtype, .op = w->call->op, .root = -1, .uneven = true,
                       .out_counts = counts, .count = counts[w->layout.node]};
}

static void all_gather_between(tdmi_job *job, const tdmi_piece *piece)
{
    size_t counts[job->w.layout.nodes];
    const tdmi_call call = all_gather_call(job, piece->number, counts);
    tdmi_lanes_along(&job->w, &(tdmi_along){.algorithm = &tdmi_halving_doubling, .call = &call, .acc = piece->acc,
                                            .data = tdmi_range_of(TDMI_BUFFER_ACC, piece->acc, tdmi_job_total(job, piece->number))});
}

static void all_gather_deliver(tdmi_job *job, const tdmi_piece *piece)
{
    tdmi_lanes_move(&job->w, TDMI_BLOCKS_OTHERS, piece->number, held_to_all, piece);
}

static tdmi_traffic all_gather_cost(const tdmi_job *job, size_t piece)
{
    size_t counts[job->w.layout.nodes];
    const tdmi_topology nodes = tdmi_layout_lane(&job->w.layout);
    const tdmi_call call = all_gather_call(job, piece, counts);
    return tdmi_halving_doubling.cost(&call, &nodes);
}

/* ---- gather ---- */

static tdmi_flow part_to_root_or_leader(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *piece)
{
    tdmi_flow flow = {.from = st->rank, .to = at_root(w) ? w->call->root : tdmi_lanes_leader(w, lane), .src = own_part(TDMI_BUFFER_IN, st)};
    if (flow.to == w->layout.topology->rank)
        flow.dst = at_root(w) ? in_parts(tdmi_call_out_part(w->call, st->rank), st) : held_stretch(w, piece, st);
    return flow;
}

static tdmi_flow held_to_root(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *piece)
{
    tdmi_flow flow = held_to_all(w, lane, st, piece);
    flow.to = w->call->root;
    return flow;
}

static void gather_collect(tdmi_job *job, const tdmi_piece *piece)
{
    if (tdmi_lanes_leads(&job->w))
        tdmi_lanes_need(&job->w, piece->acc + tdmi_job_total(job, piece->number));
    tdmi_lanes_move(&job->w, TDMI_BLOCKS_OWN, piece->number, part_to_root_or_leader, piece);
}

static void gather_between(tdmi_job *job, const tdmi_piece *piece)
{
    tdmi_lanes *w = &job->w;
    const int root = root_node(w);
    if (!at_root(w))
        tdmi_steps_exchange(w->s, tdmi_lanes_peer(w, root), held(w, piece, w->layout.node), -1, nothing);
    for (int k = 1; k < w->layout.nodes && at_root(w); k++) {
        const int from = (root + k) % w->layout.nodes;
        tdmi_steps_exchange(w->s, -1, nothing, tdmi_lanes_peer(w, from), held(w, piece, from));
    }
}

static void gather_deliver(tdmi_job *job, const tdmi_piece *piece)
{
    if (at_root(&job->w))
        tdmi_lanes_move(&job->w, TDMI_BLOCKS_OTHERS, piece->number, held_to_root, piece);
}

static tdmi_traffic gather_cost(const tdmi_job *job, size_t piece)
{
    const size_t own = tdmi_lanes_window(&job->w, job->w.layout.node, job->w.layout.index, piece).count;
    return at_root(&job->w) ? (tdmi_traffic){0, 0} : (tdmi_traffic){1, own};
}

/* ---- scatter ---- */

static tdmi_flow root_to_rank_or_leader(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *piece)
{
    const bool stays = st->block == w->layout.node;
    tdmi_flow flow = {.from = w->call->root, .to = stays ? st->rank : tdmi_lanes_leader(w, lane)};
    if (flow.from == w->layout.topology->rank)
        flow.src = in_parts(tdmi_call_in_part(w->call, st->rank), st);
    if (flow.to == w->layout.topology->rank)
        flow.dst = stays ? own_part(TDMI_BUFFER_OUT, st) : held_stretch(w, piece, st);
    return flow;
}

static tdmi_flow held_to_owner(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *piece)
{
    return (tdmi_flow){.from = tdmi_lanes_leader(w, lane), .to = st->rank, .dst = own_part(TDMI_BUFFER_OUT, st),
                       .src = tdmi_lanes_leads(w) ? held_stretch(w, piece, st) : nothing};
}

static void scatter_collect(tdmi_job *job, const tdmi_piece *piece)
{
    if (tdmi_lanes_leads(&job->w))
        tdmi_lanes_need(&job->w, piece->acc + tdmi_job_total(job, piece->number));
    if (at_root(&job->w))
        tdmi_lanes_move(&job->w, TDMI_BLOCKS_ALL, piece->number, root_to_rank_or_leader, piece);
}

static void scatter_between(tdmi_job *job, const tdmi_piece *piece)
{
    tdmi_lanes *w = &job->w;
    const int root = root_node(w);
    if (!at_root(w))
        tdmi_steps_exchange(w->s, -1, nothing, tdmi_lanes_peer(w, root), held(w, piece, w->layout.node));
    for (int k = 1; k < w->layout.nodes && at_root(w); k++) {
        const int to = (root + k) % w->layout.nodes;
        tdmi_steps_exchange(w->s, tdmi_lanes_peer(w, to), held(w, piece, to), -1, nothing);
    }
}

static void scatter_deliver(tdmi_job *job, const tdmi_piece *piece)
{
    if (!at_root(&job->w))
        tdmi_lanes_move(&job->w, TDMI_BLOCKS_OWN, piece->number, held_to_owner, piece);
}

/* What a leader sends of all blocks but its own node's. */
static tdmi_traffic others_once(const tdmi_job *job, size_t piece)
{
    const tdmi_lanes *w = &job->w;
    const size_t own = tdmi_lanes_window(w, w->layout.node, w->layout.index, piece).count;
    return (tdmi_traffic){(size_t)w->layout.nodes - 1, tdmi_job_total(job, piece) - own};
}

static tdmi_traffic scatter_cost(const tdmi_job *job, size_t piece)
{
    return at_root(&job->w) ? others_once(job, piece) : (tdmi_traffic){0, 0};
}

/* ---- alltoall: a block has for each rank of its node what all ranks of another node have for it ---- */

/* The index-th rank of a node. */
static int source_of(const tdmi_lanes *w, int node, const tdmi_stretch *st)
{
    return tdmi_layout_rank(&w->layout, node, (int)(st->in_part / w->parts.grain));
}

static tdmi_range in_cell(tdmi_range part, const tdmi_lanes *w, const tdmi_stretch *st)
{
    return tdmi_range_of(part.buffer, part.first + st->in_part % w->parts.grain, st->count);
}

static tdmi_flow cell_to_rank_or_leader(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *piece)
{
    const bool stays = st->block == w->layout.node;
    tdmi_flow flow = {.from = source_of(w, w->layout.node, st), .to = stays ? st->rank : tdmi_lanes_leader(w, lane)};
    flow.src = in_cell(tdmi_call_in_part(w->call, st->rank), w, st);
    if (flow.to == w->layout.topology->rank)
        flow.dst = stays ? in_cell(tdmi_call_out_part(w->call, flow.from), w, st) : held_stretch(w, piece, st);
    return flow;
}

static tdmi_flow cell_to_owner(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *piece)
{
    return (tdmi_flow){.from = tdmi_lanes_leader(w, lane), .to = st->rank,
                       .src = tdmi_lanes_leads(w) ? held_stretch(w, piece, st) : nothing,
                       .dst = in_cell(tdmi_call_out_part(w->call, source_of(w, st->block, st)), w, st)};
}

static void alltoall_collect(tdmi_job *job, const tdmi_piece *piece)
{
    if (tdmi_lanes_leads(&job->w))
        tdmi_lanes_need(&job->w, piece->acc + tdmi_job_total(job, piece->number));
    tdmi_lanes_move(&job->w, TDMI_BLOCKS_ALL, piece->number, cell_to_rank_or_leader, piece);
}

/* The same where what comes is looked at; its data lies behind what leaves. */
static tdmi_lanes coming(const tdmi_job *job, const tdmi_piece *piece, tdmi_piece *behind)
{
    tdmi_lanes w = job->w;
    w.parts = job->come;
    *behind = (tdmi_piece){piece->number, piece->acc + (tdmi_lanes_leads(&w) ? tdmi_job_total(job, piece->number) : 0)};
    return w;
}

static void alltoall_between(tdmi_job *job, const tdmi_piece *piece)
{
    tdmi_piece behind;
    const tdmi_lanes come = coming(job, piece, &behind);
    const int nodes = come.layout.nodes, node = come.layout.node;
    tdmi_lanes_need(&job->w, behind.acc + tdmi_lanes_before(&come, nodes, come.layout.index, piece->number));
    for (int k = 1; k < nodes; k++) {
        const int to = (node + k) % nodes, from = (node + nodes - k) % nodes;
        tdmi_steps_exchange(job->w.s, tdmi_lanes_peer(&job->w, to), held(&job->w, piece, to), tdmi_lanes_peer(&job->w, from),
                            held(&come, &behind, from));
    }
}

static void alltoall_deliver(tdmi_job *job, const tdmi_piece *piece)
{
    tdmi_piece behind;
    tdmi_lanes come = coming(job, piece, &behind);
    tdmi_lanes_move(&come, TDMI_BLOCKS_OTHERS, piece->number, cell_to_owner, &behind);
    job->w.meetings = come.meetings;
}

const tdmi_phases tdmi_phases_broadcast = {broadcast_collect, broadcast_between, broadcast_deliver, broadcast_cost};
const tdmi_phases tdmi_phases_all_gather = {all_gather_collect, all_gather_between, all_gather_deliver, all_gather_cost};
const tdmi_phases tdmi_phases_gather = {gather_collect, gather_between, gather_deliver, gather_cost};
const tdmi_phases tdmi_phases_scatter = {scatter_collect, scatter_between, scatter_deliver, scatter_cost};
const tdmi_phases tdmi_phases_alltoall = {alltoall_collect, alltoall_between, alltoall_deliver, others_once};
