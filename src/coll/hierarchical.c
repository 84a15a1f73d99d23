/* hierarchical.c - inside the node first, then between nodes, then inside the node again.  Use: nodes with several ranks.
 *
 *   2 nodes of 2 ranks, allreduce: slices a b, one a lane. Lane i is the i-th rank of every node
 *               sum inside the node        sum along each lane        spread inside the node
 *   rank 0      a01 = a0 + a1   -----.     A = a01 + a23              A B
 *   rank 1      b01 = b0 + b1   ---. |     B = b01 + b23              A B
 *   rank 2      a23 = a2 + a3   ---|-'     A                          A B
 *   rank 3      b23 = b2 + b3   ---'       B                          A B
 * Inside a node data goes through STAGE, so any memory will do; between nodes each lane runs another algorithm over links as if
 * its ranks were the group. There are as many lanes as the smallest node has ranks; what a larger node has more leads nothing.
 * Each operation is three phases (hierarchical.h): sums in hierarchical_sum.c and hierarchical_partials.c, the others in
 * hierarchical_move.c. Long data goes through them in up to 8 pieces: while one is between the nodes, in the background, the next
 * is collected and the one before delivered. A barrier is a meeting, one rank of each node that tells the others, and another meeting.
 *
 * Cost   allreduce, M nodes of L ranks: 2 log2(M) alpha + 2 (M-1)/M S/L beta over links for a rank, 2 (M-1)/M S for a node's link,
 *        once and not L times; inside a node each rank copies 2 S and sums S. Irregular: times the partial sums on the way to
 *        their sum. What the others move over a node's link: what is for other nodes, once; a reduce's sum S, once.
 * Needs  links; ranks of one node reach each other's STAGE; scratch of a leader's data for every partial sum, of what is received.
 * Paper  Karonis et al., IPDPS 2000, doi:10.1109/IPDPS.2000.846009; lanes: Traeff and Hunold, CLUSTER 2020,
 *        doi:10.1109/CLUSTER49012.2020.00045 */
#include "coll/hierarchical.h"

static const tdmi_phases *phases_of(tdmi_coll coll)
{
    switch (coll) {
    case TDMI_COLL_ALLREDUCE: return &tdmi_phases_allreduce;
    case TDMI_COLL_REDUCE: return &tdmi_phases_reduce;
    case TDMI_COLL_REDUCE_SCATTER: return &tdmi_phases_reduce_scatter;
    case TDMI_COLL_ALL_GATHER: return &tdmi_phases_all_gather;
    case TDMI_COLL_GATHER: return &tdmi_phases_gather;
    case TDMI_COLL_SCATTER: return &tdmi_phases_scatter;
    case TDMI_COLL_ALLTOALL: return &tdmi_phases_alltoall;
    default: return &tdmi_phases_broadcast;
    }
}

/* ---- the parts of a call ---- */

/* Room for the parts of one node after the other. */
typedef struct room {
    int *first, *rank;
    size_t *at;
} room;

static void add_part(const room *r, int part, int rank, size_t count)
{
    r->rank[part] = rank;
    r->at[part + 1] = r->at[part] + count;
}

static size_t part_count(const tdmi_call *call, int rank)
{
    const size_t *counts = call->coll == TDMI_COLL_ALL_GATHER ? call->out_counts : call->in_counts;
    return call->uneven ? counts[rank] : call->count;
}

/* What the ranks of each node give or get; of an alltoall, what this node has for them. */
static tdmi_parts parts_of(const tdmi_call *call, const tdmi_layout *l, const room *r)
{
    const bool one = !tdmi_coll_has_parts(call->coll), cells = call->coll == TDMI_COLL_ALLTOALL;
    const int blocks = one ? 1 : l->nodes;
    int part = 0;
    r->at[0] = 0;
    if (one)
        add_part(r, part++, -1, call->count);
    r->first[0] = 0;
    for (int m = 0; m < blocks; m++) {
        for (int rank = 0; rank < l->topology->n && !one; rank++)
            if (tdmi_layout_node(l->topology, rank) == m)
                add_part(r, part++, rank, cells ? call->count * (size_t)l->local : part_count(call, rank));
        r->first[m + 1] = part;
    }
    return (tdmi_parts){.blocks = blocks, .first = r->first, .rank = r->rank, .at = r->at, .grain = cells ? call->count : 0};
}

/* Of an alltoall: what each node has for the ranks of this one. */
static tdmi_parts coming_parts(const tdmi_call *call, const tdmi_layout *l, const room *r)
{
    int part = 0;
    r->at[0] = 0;
    r->first[0] = 0;
    for (int m = 0; m < l->nodes; m++) {
        size_t ranks = 0;
        for (int rank = 0; rank < l->topology->n; rank++)
            ranks += tdmi_layout_node(l->topology, rank) == m;
        for (int i = 0; i < l->local; i++)
            add_part(r, part++, tdmi_layout_rank(l, l->node, i), call->count * ranks);
        r->first[m + 1] = part;
    }
    return (tdmi_parts){.blocks = l->nodes, .first = r->first, .rank = r->rank, .at = r->at, .grain = call->count};
}

/* ---- all of it ---- */

static void barrier(tdmi_lanes *w)
{
    if (w->layout.local > 1)
        tdmi_steps_meet(w->s);
    if (w->layout.index == 0 && w->layout.nodes > 1)
        tdmi_lanes_along(w, &(tdmi_along){.algorithm = &tdmi_dissemination, .call = w->call});
    if (w->layout.local > 1 && w->layout.nodes > 1)
        tdmi_steps_meet(w->s);
}

/* Calls `use` with all that is known of the call. */
static void with_job(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology, const tdmi_algorithm *inner,
                     void (*use)(tdmi_job *job, void *arg), void *arg)
{
    const int n = topology->n;
    const tdmi_layout l = tdmi_layout_of(topology);
    const bool cells = call->coll == TDMI_COLL_ALLTOALL;
    int first[l.nodes + 1], rank[n], come_first[l.nodes + 1], come_rank[l.nodes * l.local];
    size_t at[n + 1], come_at[l.nodes * l.local + 1];
    tdmi_partial partial[n];
    const tdmi_parts parts = parts_of(call, &l, &(room){first, rank, at});
    const size_t data = cells ? call->count * (size_t)n : at[first[parts.blocks]];
    tdmi_job job = {.w = tdmi_lanes_of(s, call, topology, data, parts.blocks), .inner = inner};
    job.w.parts = parts;
    if (cells)
        job.come = coming_parts(call, &l, &(room){come_first, come_rank, come_at});
    if (tdmi_coll_reduces(call->coll))
        job.sums = tdmi_sums_of(&job.w, inner != NULL && inner->reorders, partial);
    use(&job, arg);
}

/* What goes between the nodes, in the background where another piece follows; gives where those steps end. */
static size_t add_between(tdmi_job *job, const tdmi_piece *piece)
{
    tdmi_steps *s = job->w.s;
    const size_t first = s->count;
    if (tdmi_lanes_leads(&job->w) && job->w.layout.nodes > 1)
        phases_of(job->w.call->coll)->between(job, piece);
    for (size_t i = first; i < s->count && job->w.pieces > 1; i++)
        s->step[i].background = true;
    return s->count;
}

/* While one piece is between the nodes, the next is collected and the one before delivered. */
static void add_steps(tdmi_job *job, void *arg)
{
    const tdmi_phases *phases = phases_of(job->w.call->coll);
    tdmi_steps *s = job->w.s;
    tdmi_piece before = {0};
    size_t sent_before = 0;
    (void)arg;
    for (size_t k = 0; k <= job->w.pieces; k++) {
        const tdmi_piece piece = {k, s->acc_count};
        size_t sent = 0;
        if (k < job->w.pieces) {
            phases->collect(job, &piece);
            sent = add_between(job, &piece);
        }
        if (k > 0) {
            if (job->w.pieces > 1 && tdmi_lanes_leads(&job->w))
                tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_AWAIT, .to = -1, .from = -1, .src = {.first = sent_before}});
            phases->deliver(job, &before);
        }
        before = piece;
        sent_before = sent;
    }
}

static void add_cost(tdmi_job *job, void *arg)
{
    tdmi_traffic *sum = arg;
    for (size_t k = 0; k < job->w.pieces && tdmi_lanes_leads(&job->w); k++)
        *sum = tdmi_traffic_sum(*sum, phases_of(job->w.call->coll)->cost(job, k));
}

static void steps_with(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology, const tdmi_algorithm *inner)
{
    if (topology->n == 1) {
        tdmi_steps_alone(s, call);
    } else if (call->coll == TDMI_COLL_BARRIER) {
        tdmi_lanes w = tdmi_lanes_of(s, call, topology, 0, 1);
        barrier(&w);
    } else {
        with_job(s, call, topology, inner, add_steps, NULL);
    }
}

static tdmi_traffic cost_with(const tdmi_call *call, const tdmi_topology *topology, const tdmi_algorithm *inner)
{
    const tdmi_layout l = tdmi_layout_of(topology);
    const tdmi_topology nodes = tdmi_layout_lane(&l);
    tdmi_traffic t = {0, 0};
    if (l.nodes == 1)
        return t;
    if (call->coll == TDMI_COLL_BARRIER)
        return l.index == 0 ? tdmi_dissemination.cost(call, &nodes) : t;
    with_job(NULL, call, topology, inner, add_cost, &t);
    return t;
}

/* Not where only pairs of ranks know their parts. */
static bool supports(tdmi_coll coll, bool uneven)
{
    return !uneven || coll == TDMI_COLL_ALL_GATHER || coll == TDMI_COLL_REDUCE_SCATTER;
}

static bool supports_allreduce(tdmi_coll coll, bool uneven)
{
    return coll == TDMI_COLL_ALLREDUCE && !uneven;
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    steps_with(s, call, topology, NULL);
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    return cost_with(call, topology, NULL);
}

const tdmi_algorithm tdmi_hierarchical = {
    .name = "hierarchical", .needs = TDMI_NEEDS_NODE, .supports = supports, .steps = steps, .cost = cost};

/* With another algorithm between the nodes; those that add in orders of their own take every node's sum at once. */
#define WITH(inner)                                                                                                    \
    static void steps_##inner(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)                    \
    {                                                                                                                  \
        steps_with(s, call, topology, &tdmi_##inner);                                                                  \
    }                                                                                                                  \
    static tdmi_traffic cost_##inner(const tdmi_call *call, const tdmi_topology *topology)                             \
    {                                                                                                                  \
        return cost_with(call, topology, &tdmi_##inner);                                                               \
    }                                                                                                                  \
    const tdmi_algorithm tdmi_hierarchical_##inner = {.name = "hierarchical_" #inner, .needs = TDMI_NEEDS_NODE,        \
                                                      .reorders = true, .supports = supports_allreduce,                \
                                                      .steps = steps_##inner, .cost = cost_##inner};
WITH(ring)
WITH(ring2)
WITH(tree)
