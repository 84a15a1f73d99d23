/* tree.c - two binary trees at once, each for half of the data, in chunks.  Use: large messages, many ranks.
 *
 *        tree 0               tree 1               Places 1..m below the root, m = n - 1, here 6. Who has children in one
 *          root                 root               tree has none in the other, so every rank sends and receives all the
 *           |                    |                 time. Tree 0 is a search tree over 1..m; tree 1 is its mirror image
 *           4                    3                 (m even), or the same moved on by one place (m odd).
 *         /   \                /   \
 *        2     6              1     5              An edge is used at even or at odd times. No rank receives from both
 *       / \   /              (2)   / \             its parents, or sends to both its children, at the same time: edges
 *      1   3 5                    4   6            that meet at a rank have different colours.
 * Chunk k of a tree follows chunk k - 1 two times later. A reduction is the broadcast backwards; an allreduce is both.
 *
 * Cost   (2 K + 2 log2 n)(alpha + S beta / 2K) for broadcast and reduce with K chunks of a half; allreduce twice that.
 * Sums   child by child: n > 2 gives other bits than the canonical tree.
 * Needs  links; scratch of S where sums are wider than the data, and for a reduce off the root.
 * Paper  Sanders, Speck and Traeff, Parallel Computing 35(12), 2009, doi:10.1016/j.parco.2009.09.001 */
#include "coll/algorithm.h"

#include "core/memory.h"

#define CHUNK_BYTES ((size_t)128 << 10)
#define CHUNKS_MAX ((size_t)1 << 16)

/* ---- shape: places 0 (the root) to m ---- */

/* The parent in the search tree over 1..m; 0 for its root. */
static int search_parent(int place, int m)
{
    int low = 1, high = m, parent = 0;
    for (;;) {
        const int top = low - 1 + tdmi_highest_bit(high - low + 1);
        if (place == top)
            return parent;
        parent = top;
        if (place < top)
            high = top - 1;
        else
            low = top + 1;
    }
}

static int parent_of(int tree, int place, int m)
{
    if (tree == 0)
        return search_parent(place, m);
    if (m % 2 == 0) {
        const int parent = search_parent(m + 1 - place, m);
        return parent == 0 ? 0 : m + 1 - parent;
    }
    const int parent = search_parent(place == 1 ? m : place - 1, m);
    return parent == 0 ? 0 : parent == m ? 1 : parent + 1;
}

/* ---- when: the edge into each place, in each tree ---- */

typedef struct edge {
    int parent;
    int sibling;  /* the other child of the parent, -1: none; for the children of the root that of the other tree */
    int colour;   /* -1: not coloured yet */
    int time;     /* chunk 0 arrives; -1: not known yet */
} edge;

typedef struct forest {
    int m, last;  /* time at which the last place gets its chunk 0 */
    edge *edge;   /* [2][m + 1], by tree and place */
} forest;

static edge *edge_of(const forest *f, int tree, int place)
{
    return &f->edge[tree * (f->m + 1) + place];
}

/* Colours the edges met on the way from a coloured one: from sibling to the other edge into the same place and on, or the other
 * way round. These ways are paths, or rings of even length, so two colours do. */
static void colour_along(const forest *f, int tree, int place, bool to_sibling)
{
    int colour = edge_of(f, tree, place)->colour;
    for (;; to_sibling = !to_sibling) {
        const edge *e = edge_of(f, tree, place);
        if (to_sibling && e->sibling < 0)
            return;
        if (!to_sibling || e->parent == 0)
            tree = 1 - tree;
        if (to_sibling)
            place = e->sibling;
        colour = 1 - colour;
        if (edge_of(f, tree, place)->colour >= 0)
            return;
        edge_of(f, tree, place)->colour = colour;
    }
}

static int time_of(const forest *f, int tree, int place)
{
    edge *e = edge_of(f, tree, place);
    if (e->time < 0) {
        const int ready = e->parent == 0 ? 0 : time_of(f, tree, e->parent) + 1;
        e->time = ready + (ready % 2 == e->colour ? 0 : 1);
    }
    return e->time;
}

static tdm_status plant(forest *f, int m)
{
    int top[2] = {0, 0};
    *f = (forest){.m = m, .edge = tdmi_calloc(2 * ((size_t)m + 1), sizeof *f->edge, "coll tree")};
    if (f->edge == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int tree = 0; tree < 2; tree++)
        for (int place = 1; place <= m; place++) {
            *edge_of(f, tree, place) = (edge){parent_of(tree, place, m), -1, -1, -1};
            if (edge_of(f, tree, place)->parent == 0)
                top[tree] = place;
            for (int other = 1; other < place && edge_of(f, tree, place)->parent > 0; other++)
                if (edge_of(f, tree, other)->parent == edge_of(f, tree, place)->parent) {
                    edge_of(f, tree, place)->sibling = other;
                    edge_of(f, tree, other)->sibling = place;
                }
        }
    edge_of(f, 0, top[0])->sibling = top[1];
    edge_of(f, 1, top[1])->sibling = top[0];
    for (int tree = 0; tree < 2; tree++)
        for (int place = 1; place <= m; place++)
            if (edge_of(f, tree, place)->colour < 0) {
                edge_of(f, tree, place)->colour = 0;
                colour_along(f, tree, place, true);
                colour_along(f, tree, place, false);
            }
    for (int tree = 0; tree < 2; tree++)
        for (int place = 1; place <= m; place++)
            f->last = time_of(f, tree, place) > f->last ? time_of(f, tree, place) : f->last;
    return TDM_OK;
}

/* ---- steps ---- */

/* A rank's view: the edges into its place and those to its children, and the cut of the data. */
typedef struct view {
    const tdmi_topology *topology;
    int root_place, n, place;
    size_t count;
    int chunks;
    forest forest;
} view;

static int rank_of(const view *v, int place)
{
    return tdmi_rank_at(v->topology, TDMI_SHAPE_TREE, (place + v->root_place) % v->n);
}

static tdmi_range chunk_of(const view *v, tdmi_buffer buffer, int tree, int k)
{
    const size_t half = v->count - v->count / 2;
    tdmi_range chunk = tdmi_chunk(buffer, tree == 0 ? half : v->count - half, v->chunks, k);
    chunk.first += tree == 0 ? 0 : half;
    return chunk;
}

static tdm_status look(view *v, const tdmi_call *call, const tdmi_topology *topology)
{
    const size_t nbytes = call->count * tdm_dtype_size(call->dtype) / 2, chunks = (nbytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    *v = (view){.topology = topology, .n = topology->n, .count = call->count,
                .root_place = call->root < 0 ? 0 : tdmi_place_of(topology, TDMI_SHAPE_TREE, call->root)};
    v->chunks = chunks > CHUNKS_MAX ? (int)CHUNKS_MAX : chunks > 0 ? (int)chunks : 1;
    v->place = tdmi_modulo(tdmi_place_of(topology, TDMI_SHAPE_TREE, topology->rank) - v->root_place, v->n);
    return plant(&v->forest, v->n - 1);
}

/* A chunk that goes down an edge at some time; rank -1: none does. */
typedef struct delivery {
    int rank, tree, chunk;
} delivery;

static void note(const view *v, int tree, int place, int time, int peer, delivery *out)
{
    const edge *e = edge_of(&v->forest, tree, place);
    const int chunk = (time - e->time) / 2;
    if (time >= e->time && (time - e->time) % 2 == 0 && chunk < v->chunks)
        *out = (delivery){rank_of(v, peer), tree, chunk};
}

/* What comes from a parent and goes to a child of this rank at `time`. */
static void deliveries(const view *v, int time, delivery *down, delivery *on)
{
    *down = *on = (delivery){-1, 0, 0};
    for (int tree = 0; tree < 2; tree++) {
        if (v->place > 0)
            note(v, tree, v->place, time, edge_of(&v->forest, tree, v->place)->parent, down);
        for (int child = 1; child < v->n; child++)
            if (edge_of(&v->forest, tree, child)->parent == v->place)
                note(v, tree, child, time, child, on);
    }
}

static int times_of(const view *v)
{
    return v->forest.last + 2 * (v->chunks - 1);
}

static tdmi_range range_of(const view *v, const delivery *d, tdmi_buffer buffer)
{
    return d->rank < 0 ? tdmi_range_of(buffer, 0, 0) : chunk_of(v, buffer, d->tree, d->chunk);
}

static void reduce(tdmi_steps *s, const view *v, tdmi_buffer sums)
{
    delivery down, on;
    for (int time = times_of(v); time >= 0; time--) {
        deliveries(v, time, &down, &on);
        tdmi_steps_exchange_reduce(s, down.rank, range_of(v, &down, sums), on.rank, range_of(v, &on, sums),
                                   on.rank < v->topology->rank);
    }
}

static void broadcast(tdmi_steps *s, const view *v)
{
    delivery down, on;
    for (int time = 0; time <= times_of(v); time++) {
        deliveries(v, time, &down, &on);
        tdmi_steps_exchange(s, on.rank, range_of(v, &on, TDMI_BUFFER_OUT), down.rank, range_of(v, &down, TDMI_BUFFER_OUT));
    }
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const tdmi_range whole = tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count);
    view v;
    if (topology->n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    s->status = look(&v, call, topology);
    if (s->status != TDM_OK)
        return;
    if (call->coll != TDMI_COLL_BROADCAST) {
        const bool has_out = call->coll == TDMI_COLL_ALLREDUCE || topology->rank == call->root;
        const tdmi_buffer sums = has_out ? tdmi_sums_buffer(call) : TDMI_BUFFER_ACC;
        if (sums == TDMI_BUFFER_ACC)
            s->acc_count = call->count;
        tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count), tdmi_range_of(sums, 0, call->count));
        reduce(s, &v, sums);
        if (v.place == 0)
            tdmi_steps_finish(s, call, tdmi_range_of(sums, 0, call->count), whole);
    }
    if (call->coll != TDMI_COLL_REDUCE)
        broadcast(s, &v);
    tdmi_free(v.forest.edge);
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return !uneven && (coll == TDMI_COLL_ALLREDUCE || coll == TDMI_COLL_BROADCAST || coll == TDMI_COLL_REDUCE);
}

/* Every chunk once up to each parent, once down to each child; empty ones are no messages. */
static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    tdmi_traffic t = {0, 0};
    view v;
    if (topology->n == 1 || look(&v, call, topology) != TDM_OK)
        return t;
    for (int tree = 0; tree < 2; tree++) {
        const size_t half = chunk_of(&v, TDMI_BUFFER_OUT, tree, v.chunks).first - chunk_of(&v, TDMI_BUFFER_OUT, tree, 0).first;
        const size_t chunks = half < (size_t)v.chunks ? half : (size_t)v.chunks;
        size_t edges = v.place > 0 && call->coll != TDMI_COLL_BROADCAST ? 1 : 0;
        for (int child = 1; child < v.n && call->coll != TDMI_COLL_REDUCE; child++)
            edges += edge_of(&v.forest, tree, child)->parent == v.place ? 1 : 0;
        t = tdmi_traffic_sum(t, (tdmi_traffic){edges * chunks, edges * half});
    }
    tdmi_free(v.forest.edge);
    return t;
}

static double time(const tdmi_call *call, const tdmi_topology *topology, const tdmi_costs *costs)
{
    const size_t nbytes = call->count * tdm_dtype_size(call->dtype), half = nbytes / 2;
    const double chunks = half > CHUNK_BYTES ? (double)half / (double)CHUNK_BYTES : 1, sums = call->coll != TDMI_COLL_BROADCAST;
    int log = 0;
    while (1 << log < topology->n)
        log++;
    const double once = (2 * chunks + 2 * log) * (costs->alpha + (double)nbytes / (2 * chunks) * (costs->beta + sums * costs->gamma / 2));
    return call->coll == TDMI_COLL_ALLREDUCE ? 2 * once : once;
}

const tdmi_algorithm tdmi_tree = {
    .name = "tree", .needs = TDMI_NEEDS_LINKS, .reorders = true, .supports = supports, .steps = steps, .cost = cost,
    .time = time};
