/* hierarchical_partials.c - which sums a node makes of its ranks' inputs, and how those of several a node become one.
 *
 *   2 nodes of 3 ranks     the canonical tree ((0 1) (2 3)) (4 5) is cut where the nodes part: node 0 gives 01 and 2, node 1 3 and 45
 *   lane 0, two chunks     node 0 gets 3 and 45 of chunk 0, node 1 gets 01 and 2 of chunk 1; each adds up (01 + (2 + 3)) + 45
 *
 * Where each node's ranks are one aligned subtree of the canonical tree and nodes are equally wide (the last may be narrower), or
 * order does not matter, a node gives one sum and the tree goes on over the nodes (`regular`: hierarchical_sum.c). Otherwise it
 * gives the sums of the largest subtrees it has all ranks of, up to 2 log2 n where its ranks are neighbours; every node gets them
 * for its chunk of the lane's data and adds up in the tree. An allreduce then gives the chunks back to all nodes, a reduce to the
 * root's; a reduce_scatter's chunks are where they belong.
 *
 * Cost   of a leader with p partial sums of data S: p (M-1) alpha + p (M-1)/M S beta; allreduce + (M-1)(alpha + S/M beta), reduce
 *        + alpha + S/M beta.
 * ACC    own partial sums side by side, each as long as the lane's data, then those received, each a chunk long. */
#include "coll/hierarchical.h"

tdmi_sums tdmi_sums_of(const tdmi_lanes *w, bool any_order, tdmi_partial *partial)
{
    const tdmi_topology *topology = w->layout.topology;
    tdmi_sums p = {.partial = partial};
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

static bool scatters(const tdmi_job *job)
{
    return job->w.call->coll == TDMI_COLL_REDUCE_SCATTER;
}

static int partials_of(const tdmi_sums *p, int node)
{
    int count = 0;
    for (int i = 0; i < p->count; i++)
        count += p->partial[i].node == node;
    return count;
}

/* The i-th partial of a node, as an index of all. */
static int nth_of(const tdmi_sums *p, int node, int i)
{
    for (int k = 0; k < p->count; k++)
        if (p->partial[k].node == node && i-- == 0)
            return k;
    return -1;
}

/* What a node adds up of the lane's data: every node a chunk. */
static tdmi_range chunk_of(const tdmi_job *job, size_t piece, int node)
{
    const int lane = job->w.layout.index;
    if (!scatters(job))
        return tdmi_chunk(TDMI_BUFFER_ACC, tdmi_job_total(job, piece), job->w.layout.nodes, node);
    return tdmi_range_of(TDMI_BUFFER_ACC, tdmi_lanes_before(&job->w, node, lane, piece), tdmi_lanes_window(&job->w, node, lane, piece).count);
}

/* Where a partial sum of this node's chunk lies. */
static tdmi_range partial_at(const tdmi_job *job, const tdmi_piece *piece, int partial)
{
    const tdmi_sums *p = &job->sums;
    const int node = job->w.layout.node;
    const size_t total = tdmi_job_total(job, piece->number);
    const tdmi_range chunk = chunk_of(job, piece->number, node);
    size_t own = 0, others = 0;
    for (int i = 0; i < partial; i++) {
        own += p->partial[i].node == node;
        others += p->partial[i].node != node;
    }
    if (p->partial[partial].node == node)
        return tdmi_range_of(TDMI_BUFFER_ACC, piece->acc + own * total + chunk.first, chunk.count);
    return tdmi_range_of(TDMI_BUFFER_ACC, piece->acc + (size_t)p->own_count * total + others * chunk.count, chunk.count);
}

/* Where the scratch of the partial sums ends. */
static size_t partials_end(const tdmi_job *job, const tdmi_piece *piece)
{
    const tdmi_sums *p = &job->sums;
    return piece->acc + (size_t)p->own_count * tdmi_job_total(job, piece->number) +
           (size_t)(p->count - p->own_count) * chunk_of(job, piece->number, job->w.layout.node).count;
}

/* Adds up the tree over partials from *next on that lies in [first, first + size); gives where the sum is. */
static tdmi_range add_up(tdmi_job *job, const tdmi_piece *piece, int first, int size, int *next)
{
    const tdmi_partial *partial = &job->sums.partial[*next];
    const int n = job->w.layout.topology->n;
    if (partial->first == first && (partial->end == first + size || partial->end == n))
        return partial_at(job, piece, (*next)++);
    const tdmi_range left = add_up(job, piece, first, size / 2, next);
    if (first + size / 2 < n) {
        const tdmi_range right = add_up(job, piece, first + size / 2, size / 2, next);
        tdmi_steps_reduce(job->w.s, right, left, false);
    }
    return left;
}

/* All partial sums of a chunk meet at its node; gives the sum of the own chunk. */
static tdmi_range sum_partials(tdmi_job *job, const tdmi_piece *piece)
{
    tdmi_lanes *w = &job->w;
    const tdmi_sums *p = &job->sums;
    const int nodes = w->layout.nodes, node = w->layout.node, n = w->layout.topology->n, bit = tdmi_highest_bit(n);
    const size_t total = tdmi_job_total(job, piece->number);
    tdmi_lanes_need(w, partials_end(job, piece));
    for (int k = 1; k < nodes; k++) {
        const int to = (node + k) % nodes, from = (node + nodes - k) % nodes, gives = p->own_count, takes = partials_of(p, from);
        for (int i = 0; i < gives || i < takes; i++) {
            tdmi_range src = chunk_of(job, piece->number, to), dst = tdmi_range_of(TDMI_BUFFER_ACC, 0, 0);
            src.first += piece->acc + (size_t)i * total;
            src.count = i < gives ? src.count : 0;
            if (i < takes)
                dst = partial_at(job, piece, nth_of(p, from, i));
            tdmi_steps_exchange(w->s, tdmi_lanes_peer(w, to), src, tdmi_lanes_peer(w, from), dst);
        }
    }
    int next = 0;
    return add_up(job, piece, 0, bit < n ? 2 * bit : bit, &next);
}

/* Every node's chunk of the result goes to all. */
static void give_back(tdmi_job *job, const tdmi_piece *piece, tdmi_range sum)
{
    tdmi_lanes *w = &job->w;
    const int nodes = w->layout.nodes, node = w->layout.node;
    const size_t first = tdmi_lanes_window(w, 0, w->layout.index, piece->number).first;
    tdmi_range own = chunk_of(job, piece->number, node);
    own.buffer = TDMI_BUFFER_OUT;
    own.first += first;
    tdmi_steps_finish(w->s, w->call, sum, own);
    for (int k = 1; k < nodes; k++) {
        const int to = (node + k) % nodes, from = (node + nodes - k) % nodes;
        tdmi_range dst = chunk_of(job, piece->number, from);
        dst.buffer = TDMI_BUFFER_OUT;
        dst.first += first;
        tdmi_steps_exchange(w->s, tdmi_lanes_peer(w, to), own, tdmi_lanes_peer(w, from), dst);
    }
}

/* Every node's chunk of the sum goes to the root's node, behind the partial sums. */
static void give_to_root(tdmi_job *job, const tdmi_piece *piece, tdmi_range sum)
{
    tdmi_lanes *w = &job->w;
    const int root = tdmi_layout_node(w->layout.topology, w->call->root);
    const tdmi_range nothing = tdmi_range_of(TDMI_BUFFER_ACC, 0, 0);
    const size_t end = partials_end(job, piece);
    if (w->layout.node != root) {
        tdmi_steps_exchange(w->s, tdmi_lanes_peer(w, root), sum, -1, nothing);
        return;
    }
    tdmi_lanes_need(w, end + tdmi_job_total(job, piece->number));
    for (int m = 0; m < w->layout.nodes; m++) {
        tdmi_range dst = chunk_of(job, piece->number, m);
        dst.first += end;
        if (m == root)
            tdmi_steps_copy(w->s, sum, dst);
        else
            tdmi_steps_exchange(w->s, -1, nothing, tdmi_lanes_peer(w, m), dst);
    }
}

void tdmi_partials_between(tdmi_job *job, const tdmi_piece *piece)
{
    const tdmi_range sum = sum_partials(job, piece);
    if (job->w.call->coll == TDMI_COLL_ALLREDUCE)
        give_back(job, piece, sum);
    else if (job->w.call->coll == TDMI_COLL_REDUCE)
        give_to_root(job, piece, sum);
}

size_t tdmi_partials_result(const tdmi_job *job, const tdmi_piece *piece)
{
    return scatters(job) ? partial_at(job, piece, 0).first : partials_end(job, piece);
}

tdmi_traffic tdmi_partials_cost(const tdmi_job *job, size_t piece)
{
    const tdmi_lanes *w = &job->w;
    const int nodes = w->layout.nodes, node = w->layout.node;
    const size_t own = chunk_of(job, piece, node).count, sums = (size_t)job->sums.own_count;
    tdmi_traffic t = {0, sums * (tdmi_job_total(job, piece) - own)}; /* every chunk but the own, of each sum */
    size_t takers = 0;                                        /* of the result */
    for (int m = 0; m < nodes; m++)
        t.messages += m != node && chunk_of(job, piece, m).count > 0 ? sums : 0;
    if (own > 0 && w->call->coll == TDMI_COLL_ALLREDUCE)
        takers = (size_t)nodes - 1;
    else if (own > 0 && w->call->coll == TDMI_COLL_REDUCE)
        takers = tdmi_layout_node(w->layout.topology, w->call->root) != node;
    return tdmi_traffic_sum(t, (tdmi_traffic){takers, takers * own});
}
