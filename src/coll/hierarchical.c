/* hierarchical.c - inside the node first, then between nodes, then inside the node again.  Use: nodes with several ranks.
 *
 *   2 nodes of 2 ranks, allreduce: slices a b, one a lane. Lane i is the i-th rank of every node
 *               sum inside the node        sum along each lane        spread inside the node
 *   rank 0      a01 = a0 + a1   -----.     A = a01 + a23              A B
 *   rank 1      b01 = b0 + b1   ---. |     B = b01 + b23              A B
 *   rank 2      a23 = a2 + a3   ---|-'     A                          A B
 *   rank 3      b23 = b2 + b3   ---'       B                          A B
 * Inside a node data goes through STAGE, so any memory will do; between nodes each lane runs an allreduce over links as if its
 * ranks were the group. There are as many lanes as the smallest node has ranks; what a larger node has more leads nothing.
 *
 * Order. Where each node's ranks are one aligned subtree of the canonical tree and nodes are equally wide (the last may be
 * narrower), or order does not matter, a node gives one sum and the tree goes on over the nodes. Otherwise it gives the sums of
 * the largest subtrees it has all ranks of, up to 2 log2 n where its ranks are neighbours; every node gets them for its part of
 * the slice, adds up in the tree and gives back the result.
 *
 * A broadcast goes the same way: to the leaders of the root's node, along the lanes, to the others. A barrier is a meeting, one
 * rank of each node that tells the others, and another meeting.
 *
 * Cost   for M nodes of L ranks: 2 log2(M) alpha + 2 (M-1)/M S/L beta over links for a rank, 2 (M-1)/M S for a node's link, once and
 *        not L times; inside a node each rank copies 2 S and sums S. Irregular: times the partial sums on the way to their sum.
 * Needs  links; ranks of one node reach each other's STAGE; scratch of S / L for every partial sum, and of what is received.
 * Paper  Karonis et al., IPDPS 2000, doi:10.1109/IPDPS.2000.846009; lanes: Traeff and Hunold, CLUSTER 2020,
 *        doi:10.1109/CLUSTER49012.2020.00045 */
#include "coll/layout.h"

#define SEGMENT_BYTES ((size_t)256 << 10) /* of all lanes in STAGE at a time; there are two */
#define LANE_BYTES ((size_t)4 << 10)      /* a shorter slice is not worth a lane */
#define SHORT_BYTES ((size_t)16 << 10)    /* of a slice: few messages count more than few bytes */
#define CHAIN_BYTES ((size_t)1 << 20)     /* of a slice to broadcast */

typedef struct way {
    tdmi_steps *s;
    const tdmi_call *call;
    tdmi_layout layout;
    int lanes;
    size_t length;  /* of one lane's segment */
    size_t meetings; /* segment k of STAGE lies in slot k mod 2 */
} way;

static way way_of(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    way w = {.s = s, .call = call, .layout = tdmi_layout_of(topology)};
    const size_t size = tdm_dtype_size(call->dtype), wanted = call->count * size / LANE_BYTES + 1;
    w.lanes = wanted < (size_t)w.layout.smallest ? (int)wanted : w.layout.smallest;
    w.length = SEGMENT_BYTES / size / (size_t)w.lanes;
    const size_t slice = tdmi_chunk(TDMI_BUFFER_OUT, call->count, w.lanes, 0).count;
    w.length = w.length > slice ? slice : w.length;
    w.length = w.length > 0 ? w.length : 1;
    return w;
}

static bool leads(const way *w)
{
    return w->layout.index < w->lanes;
}

static tdmi_range slice_of(const way *w, tdmi_buffer buffer, int lane)
{
    return tdmi_chunk(buffer, w->call->count, w->lanes, lane);
}

/* Segments of a slice; the first lane's is the longest. */
static size_t segments_of(const way *w)
{
    return (slice_of(w, TDMI_BUFFER_OUT, 0).count + w->length - 1) / w->length;
}

/* Segment k of a range that is a slice long. */
static tdmi_range segment(const way *w, tdmi_range range, size_t k)
{
    const size_t begin = k * w->length < range.count ? k * w->length : range.count, left = range.count - begin;
    return tdmi_range_of(range.buffer, range.first + begin, left < w->length ? left : w->length);
}

static tdmi_range in_stage(const way *w, int lane, size_t count)
{
    return tdmi_range_of(TDMI_BUFFER_STAGE, (w->meetings % 2 * (size_t)w->lanes + (size_t)lane) * w->length, count);
}

static void use_stage(way *w)
{
    w->s->stage_count = 2 * (size_t)w->lanes * w->length;
}

static void meet(way *w)
{
    tdmi_steps_meet(w->s);
    w->meetings++;
}

/* Every rank of the node gets the slices of OUT that the leaders have. */
static void spread(way *w)
{
    if (w->layout.local == 1)
        return;
    use_stage(w);
    for (size_t k = 0; k < segments_of(w); k++) {
        const way before = *w;
        if (leads(w)) {
            const tdmi_range own = segment(w, slice_of(w, TDMI_BUFFER_OUT, w->layout.index), k);
            tdmi_steps_copy(w->s, own, in_stage(w, w->layout.index, own.count));
        }
        meet(w);
        for (int lane = 0; lane < w->lanes; lane++) {
            const tdmi_range out = segment(w, slice_of(w, TDMI_BUFFER_OUT, lane), k);
            if (lane != w->layout.index)
                tdmi_steps_copy_from(w->s, tdmi_layout_rank(&w->layout, w->layout.node, lane), in_stage(&before, lane, out.count), out);
        }
    }
}

/* ---- between nodes ---- */

/* Appends the steps that `inner` takes for a slice over the ranks of a lane. Its OUT is that slice of OUT, its ACC ours; it reads
 * IN in its first copies alone, whose work is done. */
static void along_lane(way *w, const tdmi_algorithm *inner, const tdmi_call *call, size_t out_first)
{
    const tdmi_layout *l = &w->layout;
    const tdmi_topology nodes = tdmi_layout_lane(l);
    int rank[l->nodes];
    tdmi_steps list = {0};
    for (int m = 0; m < l->nodes; m++)
        rank[m] = tdmi_layout_rank(l, m, l->index);
    inner->steps(&list, call, &nodes);
    for (size_t i = 0; i < list.count; i++) {
        tdmi_step step = list.step[i];
        if (step.kind == TDMI_STEP_COPY && step.src.buffer == TDMI_BUFFER_IN)
            continue;
        step.to = step.to < 0 ? -1 : rank[step.to];
        step.from = step.from < 0 ? -1 : rank[step.from];
        step.src.first += step.src.buffer == TDMI_BUFFER_OUT ? out_first : 0;
        step.dst.first += step.dst.buffer == TDMI_BUFFER_OUT ? out_first : 0;
        tdmi_steps_add(w->s, step);
    }
    if (list.status != TDM_OK)
        w->s->status = list.status;
    w->s->acc_count = list.acc_count > w->s->acc_count ? list.acc_count : w->s->acc_count;
    tdmi_steps_free(&list);
}

static tdmi_call slice_call(const way *w, tdmi_coll coll, int root)
{
    return (tdmi_call){.coll = coll, .dtype = w->call->dtype, .op = w->call->op, .root = root,
                       .count = slice_of(w, TDMI_BUFFER_OUT, w->layout.index).count};
}

static const tdmi_algorithm *inner_of(const way *w, const tdmi_algorithm *wanted)
{
    const size_t nbytes = slice_of(w, TDMI_BUFFER_OUT, 0).count * tdm_dtype_size(w->call->dtype);
    return wanted != NULL ? wanted : nbytes <= SHORT_BYTES ? &tdmi_recursive_doubling : &tdmi_halving_doubling;
}

/* ---- allreduce ---- */

/* ACC: own partial sums side by side, then those received, each a chunk long. */
typedef struct sums {
    int count, own_count;
    bool regular;
    tdmi_partial *partial;
} sums;

static sums sums_of(const way *w, bool any_order, tdmi_partial *partial)
{
    const tdmi_topology *topology = w->layout.topology;
    sums p = {.partial = partial};
    if (any_order || !tdmi_depends_on_order(w->call, topology->n)) {
        p.count = w->layout.nodes;
        for (int m = 0; m < p.count; m++)
            partial[m] = (tdmi_partial){0, topology->n, m};
        p.regular = true;
    } else {
        p.count = tdmi_layout_partials(topology, partial);
        p.regular = tdmi_layout_is_regular(partial, p.count, w->layout.nodes);
    }
    for (int i = 0; i < p.count; i++)
        p.own_count += partial[i].node == w->layout.node;
    return p;
}

static int partials_of(const sums *p, int node)
{
    int count = 0;
    for (int i = 0; i < p->count; i++)
        count += p->partial[i].node == node;
    return count;
}

static tdmi_range own_sum(size_t slice, int i)
{
    return tdmi_range_of(TDMI_BUFFER_ACC, (size_t)i * slice, slice);
}

/* The slices of IN meet in STAGE; each leader sums its own. */
static void sum_node(way *w, const sums *p)
{
    const tdmi_layout *l = &w->layout;
    const size_t slice = slice_of(w, TDMI_BUFFER_IN, l->index).count;
    if (l->local == 1) {
        tdmi_steps_copy(w->s, slice_of(w, TDMI_BUFFER_IN, 0), own_sum(w->call->count, 0));
        return;
    }
    use_stage(w);
    for (size_t k = 0; k < segments_of(w); k++) {
        const way before = *w;
        for (int lane = 0; lane < w->lanes; lane++) {
            const tdmi_range in = segment(w, slice_of(w, TDMI_BUFFER_IN, lane), k);
            if (lane != l->index)
                tdmi_steps_copy(w->s, in, in_stage(w, lane, in.count));
        }
        meet(w);
        const tdmi_range in = leads(w) ? segment(w, slice_of(w, TDMI_BUFFER_IN, l->index), k) : tdmi_range_of(TDMI_BUFFER_IN, 0, 0);
        for (int i = 0, own = 0; i < p->count && in.count > 0; i++) {
            if (p->partial[i].node != l->node)
                continue;
            const tdmi_range src = in_stage(&before, l->index, in.count);
            tdmi_steps_add(w->s, (tdmi_step){.kind = TDMI_STEP_REDUCE_FROM, .from = p->partial[i].first, .to = p->partial[i].end,
                                             .src = src, .own = in});
            tdmi_steps_add(w->s, (tdmi_step){.kind = TDMI_STEP_COPY_TO, .to = l->topology->rank, .from = -1, .src = src,
                                             .dst = segment(w, own_sum(slice, own++), k)});
        }
    }
}

/* Where a partial sum of this rank's chunk of the slice lies. */
typedef struct place {
    size_t slice;
    tdmi_range chunk; /* of the slice */
    size_t received;  /* where received ones begin */
} place;

static tdmi_range at(const way *w, const sums *p, const place *pl, int partial)
{
    size_t own = 0, others = 0;
    for (int i = 0; i < partial; i++) {
        own += p->partial[i].node == w->layout.node;
        others += p->partial[i].node != w->layout.node;
    }
    if (p->partial[partial].node == w->layout.node)
        return tdmi_range_of(TDMI_BUFFER_ACC, own * pl->slice + pl->chunk.first, pl->chunk.count);
    return tdmi_range_of(TDMI_BUFFER_ACC, pl->received + others * pl->chunk.count, pl->chunk.count);
}

/* Adds up the tree over partials from *next on that lies in [first, first + size); gives where the sum is. */
static tdmi_range add_up(const way *w, const sums *p, const place *pl, int first, int size, int *next)
{
    const tdmi_partial *partial = &p->partial[*next];
    if (partial->first == first && (partial->end == first + size || partial->end == w->layout.topology->n))
        return at(w, p, pl, (*next)++);
    const tdmi_range left = add_up(w, p, pl, first, size / 2, next);
    if (first + size / 2 < w->layout.topology->n) {
        const tdmi_range right = add_up(w, p, pl, first + size / 2, size / 2, next);
        tdmi_steps_reduce(w->s, right, left, false);
    }
    return left;
}

/* The i-th partial of a node, as an index of all. */
static int nth_of(const sums *p, int node, int i)
{
    for (int k = 0; k < p->count; k++)
        if (p->partial[k].node == node && i-- == 0)
            return k;
    return -1;
}

/* All partial sums of a chunk meet at one rank of the lane, and the result goes to all. */
static void sum_partials(way *w, const sums *p)
{
    const tdmi_layout *l = &w->layout;
    const tdmi_range out = slice_of(w, TDMI_BUFFER_OUT, l->index);
    const int nodes = l->nodes, n = l->topology->n, bit = tdmi_highest_bit(n);
    const place pl = {.slice = out.count, .chunk = tdmi_chunk(TDMI_BUFFER_ACC, out.count, nodes, l->node),
                      .received = (size_t)p->own_count * out.count};
    const size_t acc = pl.received + (size_t)(p->count - p->own_count) * pl.chunk.count;
    w->s->acc_count = acc > w->s->acc_count ? acc : w->s->acc_count;
    for (int k = 1; k < nodes; k++) {
        const int to = (l->node + k) % nodes, from = (l->node + nodes - k) % nodes, gives = p->own_count, takes = partials_of(p, from);
        for (int i = 0; i < gives || i < takes; i++) {
            tdmi_range src = tdmi_chunk(TDMI_BUFFER_ACC, out.count, nodes, to), dst = tdmi_range_of(TDMI_BUFFER_ACC, 0, 0);
            src.first += (size_t)i * out.count;
            src.count = i < gives ? src.count : 0;
            if (i < takes)
                dst = at(w, p, &pl, nth_of(p, from, i));
            tdmi_steps_exchange(w->s, tdmi_layout_rank(l, to, l->index), src, tdmi_layout_rank(l, from, l->index), dst);
        }
    }
    int next = 0;
    const tdmi_range sum = add_up(w, p, &pl, 0, bit < n ? 2 * bit : bit, &next);
    tdmi_steps_finish(w->s, w->call, sum, tdmi_range_of(TDMI_BUFFER_OUT, out.first + pl.chunk.first, pl.chunk.count));
    for (int k = 1; k < nodes; k++) {
        const int to = (l->node + k) % nodes, from = (l->node + nodes - k) % nodes;
        tdmi_range dst = tdmi_chunk(TDMI_BUFFER_OUT, out.count, nodes, from);
        dst.first += out.first;
        tdmi_steps_exchange(w->s, tdmi_layout_rank(l, to, l->index),
                            tdmi_range_of(TDMI_BUFFER_OUT, out.first + pl.chunk.first, pl.chunk.count),
                            tdmi_layout_rank(l, from, l->index), dst);
    }
}

static void allreduce(way *w, const tdmi_algorithm *wanted)
{
    tdmi_partial partial[w->layout.topology->n];
    const sums p = sums_of(w, wanted != NULL && wanted->reorders, partial);
    const tdmi_range out = slice_of(w, TDMI_BUFFER_OUT, leads(w) ? w->layout.index : 0);
    if (leads(w))
        w->s->acc_count = (size_t)p.own_count * out.count;
    sum_node(w, &p);
    if (leads(w) && w->layout.nodes == 1) {
        tdmi_steps_finish(w->s, w->call, own_sum(out.count, 0), out);
    } else if (leads(w) && p.regular) {
        const tdmi_call inner = slice_call(w, TDMI_COLL_ALLREDUCE, -1);
        if (!tdmi_widens(w->call))
            tdmi_steps_copy(w->s, own_sum(out.count, 0), out);
        along_lane(w, inner_of(w, wanted), &inner, out.first);
    } else if (leads(w)) {
        sum_partials(w, &p);
    }
    spread(w);
}

/* ---- broadcast ---- */

static void broadcast(way *w)
{
    const tdmi_layout *l = &w->layout;
    const int root = w->call->root, root_node = tdmi_layout_node(l->topology, root);
    const size_t size = tdm_dtype_size(w->call->dtype);
    if (l->node == root_node && l->local > 1) {
        use_stage(w);
        for (size_t k = 0; k < segments_of(w); k++) {
            const way before = *w;
            for (int lane = 0; lane < w->lanes && root == l->topology->rank; lane++) {
                const tdmi_range data = segment(w, slice_of(w, TDMI_BUFFER_OUT, lane), k);
                tdmi_steps_copy(w->s, data, in_stage(w, lane, data.count));
            }
            meet(w);
            for (int lane = 0; lane < w->lanes && root != l->topology->rank; lane++) {
                const tdmi_range data = segment(w, slice_of(w, TDMI_BUFFER_OUT, lane), k);
                tdmi_steps_copy_from(w->s, root, in_stage(&before, lane, data.count), data);
            }
        }
    }
    if (leads(w) && l->nodes > 1) {
        const tdmi_call inner = slice_call(w, TDMI_COLL_BROADCAST, root_node);
        along_lane(w, inner.count * size >= CHAIN_BYTES ? &tdmi_ring : &tdmi_binomial, &inner,
                   slice_of(w, TDMI_BUFFER_OUT, l->index).first);
    }
    if (l->node != root_node)
        spread(w);
}

/* ---- barrier ---- */

static void barrier(way *w)
{
    if (w->layout.local > 1)
        meet(w);
    if (w->layout.index == 0 && w->layout.nodes > 1)
        along_lane(w, &tdmi_dissemination, w->call, 0);
    if (w->layout.local > 1 && w->layout.nodes > 1)
        meet(w);
}

/* ---- all of it ---- */

static void steps_with(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology, const tdmi_algorithm *inner)
{
    if (topology->n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    way w = way_of(s, call, topology);
    if (call->coll == TDMI_COLL_ALLREDUCE)
        allreduce(&w, inner);
    else if (call->coll == TDMI_COLL_BROADCAST)
        broadcast(&w);
    else
        barrier(&w);
}

static tdmi_traffic cost_with(const tdmi_call *call, const tdmi_topology *topology, const tdmi_algorithm *inner)
{
    const way w = way_of(NULL, call, topology);
    const tdmi_layout *l = &w.layout;
    const tdmi_topology nodes = tdmi_layout_lane(l);
    tdmi_partial partial[topology->n];
    tdmi_traffic t = {0, 0};
    if (l->nodes == 1 || !leads(&w) || (call->coll == TDMI_COLL_BARRIER && l->index > 0))
        return t;
    if (call->coll == TDMI_COLL_BARRIER)
        return tdmi_dissemination.cost(call, &nodes);
    tdmi_call lane = slice_call(&w, call->coll, -1);
    if (call->coll == TDMI_COLL_BROADCAST) {
        lane.root = tdmi_layout_node(topology, call->root);
        return (lane.count * tdm_dtype_size(call->dtype) >= CHAIN_BYTES ? &tdmi_ring : &tdmi_binomial)->cost(&lane, &nodes);
    }
    const sums p = sums_of(&w, inner != NULL && inner->reorders, partial);
    if (p.regular)
        return inner_of(&w, inner)->cost(&lane, &nodes);
    const size_t own = tdmi_chunk(TDMI_BUFFER_OUT, lane.count, l->nodes, l->node).count;
    t.elements_sent = (size_t)p.own_count * (lane.count - own) + (size_t)(l->nodes - 1) * own;
    for (int m = 0; m < l->nodes; m++)
        if (m != l->node && tdmi_chunk(TDMI_BUFFER_OUT, lane.count, l->nodes, m).count > 0)
            t.messages += (size_t)p.own_count;
    t.messages += own > 0 ? (size_t)l->nodes - 1 : 0;
    return t;
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return !uneven && (coll == TDMI_COLL_ALLREDUCE || coll == TDMI_COLL_BROADCAST || coll == TDMI_COLL_BARRIER);
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
