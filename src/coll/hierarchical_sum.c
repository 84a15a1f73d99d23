/* hierarchical_sum.c - hierarchical allreduce, reduce and reduce_scatter: each node's sum, then the sum of those.
 *
 *   2 nodes of 2 ranks, reduce_scatter of parts a b c d: lane 0 sums a and c, lane 1 b and d; the nodes swap what is not their own
 *               sum inside the node        sum along each lane          (4 ranks a node, 2 lanes: hand on inside it)
 *   rank 0      a01, c01     -----.        A = a01 + a23
 *   rank 1      b01, d01     ---. |        B = b01 + b23
 *   rank 2      a23, c23     ---|-'        C = c01 + c23
 *   rank 3      b23, d23     ---'          D = d01 + d23
 * One sum a node, in the order of the canonical tree; where that cannot be: hierarchical_partials.c. A reduce_scatter sums the
 * blocks of all nodes, so its parts need not be neighbours either.
 *
 * ACC    of a leader: the windows of all blocks, where the sum cannot be made in OUT. */
#include "coll/hierarchical.h"

#define SHORT_BYTES ((size_t)16 << 10) /* between nodes: few messages count more than few bytes */

static bool scatters(const tdmi_job *job)
{
    return job->w.call->coll == TDMI_COLL_REDUCE_SCATTER;
}

/* A call along the lane; counts: [nodes], of a reduce_scatter. */
static tdmi_call lane_call(const tdmi_job *job, size_t piece, size_t *counts)
{
    const tdmi_lanes *w = &job->w;
    tdmi_call call = {.coll = w->call->coll, .dtype = w->call->dtype, .op = w->call->op, .root = -1, .count = tdmi_job_total(job, piece)};
    if (call.coll == TDMI_COLL_REDUCE)
        call.root = tdmi_layout_node(w->layout.topology, w->call->root);
    if (!scatters(job))
        return call;
    for (int b = 0; b < w->layout.nodes; b++)
        counts[b] = tdmi_lanes_window(w, b, w->layout.index, piece).count;
    call.uneven = true;
    call.in_counts = counts;
    call.count = counts[w->layout.node];
    return call;
}

static const tdmi_algorithm *algorithm_of(const tdmi_job *job, tdmi_coll coll)
{
    const size_t nbytes = tdmi_lanes_window(&job->w, 0, 0, 0).count * tdm_dtype_size(job->w.call->dtype);
    if (job->inner != NULL)
        return job->inner;
    if (coll == TDMI_COLL_REDUCE)
        return &tdmi_binomial;
    return coll == TDMI_COLL_ALLREDUCE && nbytes <= SHORT_BYTES ? &tdmi_recursive_doubling : &tdmi_halving_doubling;
}

/* Where the window of a block begins in this leader's data. A reduce_scatter along the lane has an order of its own, which the
 * copies tell that it begins with. */
static size_t place_of(const tdmi_job *job, size_t piece, int block)
{
    const tdmi_topology nodes = tdmi_layout_lane(&job->w.layout);
    size_t counts[nodes.n], place = tdmi_lanes_before(&job->w, block, job->w.layout.index, piece);
    tdmi_steps list = {0};
    if (!scatters(job) || !job->sums.regular || nodes.n == 1)
        return place;
    const tdmi_call call = lane_call(job, piece, counts);
    const size_t first = tdmi_call_in_part(&call, block).first;
    algorithm_of(job, call.coll)->steps(&list, &call, &nodes);
    for (size_t i = 0; i < list.count; i++)
        if (list.step[i].src.buffer == TDMI_BUFFER_IN && list.step[i].src.first == first)
            place = list.step[i].dst.first;
    if (list.status != TDM_OK)
        job->w.s->status = list.status;
    tdmi_steps_free(&list);
    return place;
}

/* ---- inside the node ---- */

/* Where a node's sum goes, the first if it gives several. */
static tdmi_range single_sum(const tdmi_job *job, const tdmi_piece *piece)
{
    const tdmi_call *call = job->w.call;
    if (call->coll != TDMI_COLL_ALLREDUCE || !job->sums.regular || tdmi_widens(call) || call->op == TDM_AVG)
        return tdmi_range_of(TDMI_BUFFER_ACC, piece->acc, tdmi_job_total(job, piece->number));
    return tdmi_lanes_window(&job->w, 0, job->w.layout.index, piece->number);
}

/* The sums of a stretch: from `sums` on, and `each` behind one another. */
static void sum_stretch(tdmi_job *job, tdmi_range in, tdmi_range stage, tdmi_range sums, size_t each)
{
    const tdmi_layout *l = &job->w.layout;
    for (int i = 0; i < job->sums.count; i++) {
        const tdmi_partial *partial = &job->sums.partial[i];
        if (partial->node != l->node)
            continue;
        if (l->local == 1) {
            tdmi_steps_copy(job->w.s, in, sums);
        } else {
            tdmi_steps_add(job->w.s, (tdmi_step){.kind = TDMI_STEP_REDUCE_FROM, .from = partial->first, .to = partial->end,
                                                 .src = stage, .own = in});
            tdmi_steps_add(job->w.s, (tdmi_step){.kind = TDMI_STEP_COPY_TO, .to = l->topology->rank, .from = -1, .src = stage,
                                                 .dst = sums});
        }
        sums.first += each;
    }
}

static tdmi_range in_of(const tdmi_job *job, const tdmi_stretch *st)
{
    return tdmi_range_of(TDMI_BUFFER_IN, tdmi_call_in_part(job->w.call, st->rank).first + st->in_part, st->count);
}

/* Inputs meet in STAGE; each leader sums its own lane's. */
static void collect(tdmi_job *job, const tdmi_piece *piece)
{
    tdmi_lanes *w = &job->w;
    const bool leads = tdmi_lanes_leads(w);
    const tdmi_range single = leads ? single_sum(job, piece) : tdmi_range_of(TDMI_BUFFER_ACC, piece->acc, 0);
    size_t place[w->parts.blocks];
    tdmi_stretch st;
    for (int b = 0; b < w->parts.blocks && leads; b++)
        place[b] = place_of(job, piece->number, b);
    if (leads && single.buffer == TDMI_BUFFER_ACC)
        tdmi_lanes_need(w, piece->acc + (size_t)job->sums.own_count * single.count);
    for (size_t k = 0; k < tdmi_lanes_segments(w, TDMI_BLOCKS_ALL, piece->number); k++) {
        const tdmi_lanes before = *w;
        for (int lane = 0; lane < w->count && w->layout.local > 1; lane++)
            for (size_t at = 0; tdmi_lanes_stretch(w, TDMI_BLOCKS_ALL, lane, piece->number, k, at, &st); at += st.count)
                if (lane != w->layout.index)
                    tdmi_steps_copy(w->s, in_of(job, &st), tdmi_lanes_stage(w, lane, at, st.count));
        if (w->layout.local > 1)
            tdmi_lanes_meet(w);
        for (size_t at = 0; leads && tdmi_lanes_stretch(w, TDMI_BLOCKS_ALL, w->layout.index, piece->number, k, at, &st); at += st.count) {
            const size_t first = single.first + place[st.block] + st.in_window;
            sum_stretch(job, in_of(job, &st), tdmi_lanes_stage(&before, w->layout.index, at, st.count),
                        tdmi_range_of(single.buffer, first, st.count), single.count);
        }
    }
}

/* ---- between nodes ---- */

static void along(tdmi_job *job, const tdmi_piece *piece)
{
    tdmi_lanes *w = &job->w;
    size_t counts[w->layout.nodes];
    const tdmi_call call = lane_call(job, piece->number, counts);
    const tdmi_range single = single_sum(job, piece);
    tdmi_range data = tdmi_range_of(TDMI_BUFFER_ACC, piece->acc, single.count);
    if (call.coll == TDMI_COLL_ALLREDUCE) {
        data = tdmi_lanes_window(w, 0, w->layout.index, piece->number);
        if (single.buffer == TDMI_BUFFER_ACC && !tdmi_widens(w->call))
            tdmi_steps_copy(w->s, single, data);
    }
    tdmi_lanes_along(w, &(tdmi_along){.algorithm = algorithm_of(job, call.coll), .call = &call, .data = data, .acc = piece->acc,
                                      .finishes = call.coll == TDMI_COLL_ALLREDUCE});
}

static void between(tdmi_job *job, const tdmi_piece *piece)
{
    if (job->sums.regular)
        along(job, piece);
    else
        tdmi_partials_between(job, piece);
}

/* ---- from the leaders ---- */

/* ACC of this leader, of the piece's sums that are to be finished. */
static size_t sum_first(const tdmi_job *job, const tdmi_piece *piece)
{
    if (job->w.layout.nodes > 1 && !job->sums.regular)
        return tdmi_partials_result(job, piece);
    return piece->acc + (scatters(job) ? place_of(job, piece->number, job->w.layout.node) : 0);
}

static tdmi_flow result_to_all(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *arg)
{
    const tdmi_range out = tdmi_range_of(TDMI_BUFFER_OUT, st->in_part, st->count);
    (void)arg;
    return (tdmi_flow){.from = tdmi_lanes_leader(w, lane), .to = -1, .src = out, .dst = out};
}

static tdmi_flow sum_to_owner(const tdmi_lanes *w, int lane, const tdmi_stretch *st, const void *first)
{
    const int to = w->call->coll == TDMI_COLL_REDUCE ? w->call->root : st->rank;
    return (tdmi_flow){.from = tdmi_lanes_leader(w, lane), .to = to,
                       .src = tdmi_range_of(TDMI_BUFFER_ACC, *(const size_t *)first + st->in_window, st->count),
                       .dst = tdmi_range_of(TDMI_BUFFER_OUT, st->in_part, st->count)};
}

static void deliver_to_all(tdmi_job *job, const tdmi_piece *piece)
{
    if (job->w.layout.nodes == 1 && tdmi_lanes_leads(&job->w))
        tdmi_steps_finish(job->w.s, job->w.call, single_sum(job, piece), tdmi_lanes_window(&job->w, 0, job->w.layout.index, piece->number));
    tdmi_lanes_move(&job->w, TDMI_BLOCKS_ALL, piece->number, result_to_all, NULL);
}

static void deliver(tdmi_job *job, const tdmi_piece *piece)
{
    const tdmi_coll coll = job->w.call->coll;
    const size_t first = tdmi_lanes_leads(&job->w) ? sum_first(job, piece) : 0;
    if (coll == TDMI_COLL_REDUCE && tdmi_layout_node(job->w.layout.topology, job->w.call->root) != job->w.layout.node)
        return;
    tdmi_lanes_move(&job->w, scatters(job) ? TDMI_BLOCKS_OWN : TDMI_BLOCKS_ALL, piece->number, sum_to_owner, &first);
}

/* ---- cost ---- */

static tdmi_traffic cost(const tdmi_job *job, size_t piece)
{
    const tdmi_lanes *w = &job->w;
    const tdmi_topology nodes = tdmi_layout_lane(&w->layout);
    size_t counts[nodes.n];
    const tdmi_call call = lane_call(job, piece, counts);
    return job->sums.regular ? algorithm_of(job, call.coll)->cost(&call, &nodes) : tdmi_partials_cost(job, piece);
}

const tdmi_phases tdmi_phases_allreduce = {collect, between, deliver_to_all, cost};
const tdmi_phases tdmi_phases_reduce = {collect, between, deliver, cost};
const tdmi_phases tdmi_phases_reduce_scatter = {collect, between, deliver, cost};
