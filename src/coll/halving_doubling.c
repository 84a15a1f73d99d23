/* halving_doubling.c - reduce-scatter by recursive halving, all-gather by recursive doubling.  Use: links, any n, any count.
 *
 *   n = 4, chunks a b c d, p01 = p0 + p1: first with the neighbour, then with the neighbour's neighbour
 *            start          halve, distance 1     halve, distance 2           double, distance 2 and 1
 *   rank 0   a0 b0 c0 d0    a01 b01               a = a01 + a23               a b c d
 *   rank 1   a1 b1 c1 d1            c01 d01       c = c01 + c23               a b c d
 *   rank 2   a2 b2 c2 d2    a23 b23               b = b01 + b23               a b c d
 *   rank 3   a3 b3 c3 d3            c23 d23       d = d01 + d23               a b c d
 * The distance doubles while the data halves, so every sum is the canonical balanced tree.
 *
 * Other n: the ranks fall into aligned blocks, one for each bit of n (7 = 4 + 2 + 1), which are the maximal complete subtrees.
 * Each block halves on its own. A chunk whose owner lies to the left then goes from the smallest block towards the owner's,
 * adding up on the way (B + C); the owner takes what the blocks left of its own have, the nearest first: A + (B + C).
 * So each rank sends each chunk but its own exactly once, for any n. No rank folds into another first: that would give other
 * sums. Chunks are laid out so that all of one residue modulo each power of two are neighbours; the highest comes last.
 *
 * The all-gather doubles in pairs where n is a power of two. For other n rank v sends what it has to v - 1, v - 2, v - 4 ...
 * (Bruck's scheme, each chunk at its final place, so that a wrapped range is two messages).
 *
 * Cost   allreduce 2 log2(n) alpha + 2(n-1)/n S beta + (n-1)/n S gamma, half of it for each part alone. n no power of two:
 *        up to (larger block / smaller block) alpha more on a rank of the smaller, and one more per wrapped range.
 * Sums   canonical tree; an allreduce that may reorder them: over places, which other ranks than 0, 1, 2 ... may have.
 * Needs  links; scratch of S where sums are wider than the data, and in reduce-scatter.
 * Paper  Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521 (halving, doubling, binary blocks);
 *        Bruck et al., IEEE TPDS 8(11), 1997, doi:10.1109/71.642949 */
#include "coll/algorithm.h"

/* ---- aligned blocks of ranks ---- */

typedef struct block {
    int base, size;
} block;

static block block_of(int rank, int n)
{
    block b = {0, tdmi_highest_bit(n)};
    while (rank >= b.base + b.size) {
        b.base += b.size;
        b.size = tdmi_highest_bit(n - b.base);
    }
    return b;
}

/* ---- the order of chunks in the buffer ---- */

/* Chunks of 0..n-1 that are v modulo m. */
static int class_count(int n, int v, int m)
{
    return v < n ? (n - 1 - v) / m + 1 : 0;
}

/* First position of that class, m a power of two and v < m. Of two halves the one with the highest chunk lies behind. */
static int class_first(int n, int v, int m)
{
    int first = 0;
    for (int bit = 1; bit < m; bit *= 2) {
        int low = v & (bit - 1), highest = low + (class_count(n, low, bit) - 1) * bit;
        if ((v & bit) == (highest & bit))
            first += class_count(n, (v & (2 * bit - 1)) ^ bit, 2 * bit);
    }
    return first;
}

static int position_of(int n, int chunk)
{
    return class_first(n, chunk, tdmi_highest_bit(n) * 2);
}

static int chunk_at(int n, int position)
{
    int chunk = 0;
    for (int bit = 1; class_count(n, chunk, bit) > 1; bit *= 2) {
        int first = class_first(n, chunk, 2 * bit), other = class_first(n, chunk + bit, 2 * bit);
        if (first < other ? position >= other : position < first)
            chunk += bit;
    }
    return chunk;
}

/* How the chunks lie in the buffer that is worked on: equal ones, or those of an uneven call, in the order of places. */
typedef struct layout {
    int n;
    size_t total;         /* elements, where all chunks are as good as equal */
    const size_t *counts; /* [n] of ranks, else NULL */
    bool shuffled;        /* place v has the chunk of chunk_at(v), else of rank v */
} layout;

static layout layout_of(const tdmi_call *call, int n)
{
    const bool gathers = call->coll == TDMI_COLL_ALL_GATHER;
    return (layout){.n = n, .total = call->coll == TDMI_COLL_ALLREDUCE ? call->count : call->count * (size_t)n,
                    .counts = !call->uneven ? NULL : gathers ? call->out_counts : call->in_counts, .shuffled = !gathers};
}

/* Where the chunk of place `v` starts; v == n gives the end. */
static size_t first_at(const layout *l, int v)
{
    size_t first = 0;
    if (l->counts == NULL)
        return tdmi_chunk_first(l->total, l->n, v);
    for (int i = 0; i < v; i++)
        first += l->counts[l->shuffled ? chunk_at(l->n, i) : i];
    return first;
}

/* The chunks of `count` places from `first` on. */
static tdmi_range positions(tdmi_buffer buffer, const layout *l, int first, int count)
{
    const size_t begin = first_at(l, first);
    return tdmi_range_of(buffer, begin, first_at(l, first + count) - begin);
}

/* ---- the two phases ---- */

static const tdmi_range nothing = {.buffer = TDMI_BUFFER_OUT, .first = 0, .count = 0};

/* Every rank's chunk of `buffer` becomes the sum. */
static void halve(tdmi_steps *s, tdmi_buffer buffer, const layout *l, int rank)
{
    const int n = l->n;
    const block own = block_of(rank, n);
    const int local = rank - own.base, end = own.base + own.size; /* chunks from `end` on belong to blocks to the right */
    for (int m = 1; m < own.size; m *= 2) {
        int peer = rank ^ m, keep = local & (2 * m - 1), give = keep ^ m;
        tdmi_steps_exchange_reduce(
            s, peer, positions(buffer, l, class_first(n, give, 2 * m), class_count(n, give, 2 * m)), peer,
            positions(buffer, l, class_first(n, keep, 2 * m), class_count(n, keep, 2 * m)), peer < rank);
    }
    if (end < n) { /* what the blocks to the right have for owners up to this block */
        block right = block_of(end, n);
        int rights = local < n - end ? 1 : 0;
        tdmi_steps_exchange_reduce(s, -1, nothing, right.base + local % right.size,
                                   positions(buffer, l, class_first(n, local, own.size),
                                             class_count(n, local, own.size) - rights), false);
    }
    if (own.base > 0) {
        block left = block_of(own.base - 1, n);
        for (int i = local; i < left.size; i += own.size) {
            int rights = i < n - own.base ? 1 : 0;
            tdmi_steps_exchange_reduce(s, left.base + i,
                                       positions(buffer, l, class_first(n, i, left.size),
                                                 class_count(n, i, left.size) - rights), -1, nothing, false);
        }
    }
    if (local < n - end)
        tdmi_steps_exchange_reduce(s, end + local, positions(buffer, l, position_of(n, end + local), 1), -1, nothing,
                                   false);
    for (int base = own.base; base > 0;) {
        block left = block_of(base - 1, n);
        tdmi_steps_exchange_reduce(s, -1, nothing, left.base + rank % left.size,
                                   positions(buffer, l, position_of(n, rank), 1), true);
        base = left.base;
    }
}

/* One round of the all-gather: where place v sends, and the places [first, first + count) modulo n it sends from. */
typedef struct round {
    int to, from, send_first, receive_first, count;
} round;

static round round_of(int v, int n, int length)
{
    if (tdmi_highest_bit(n) == n) {
        int peer = v ^ length, mine = v & ~(length - 1), theirs = peer & ~(length - 1);
        return (round){.to = peer, .from = peer, .send_first = mine, .receive_first = theirs, .count = length};
    }
    return (round){.to = (v + n - length) % n, .from = (v + length) % n, .send_first = v, .receive_first = (v + length) % n,
                   .count = length < n - length ? length : n - length};
}

/* OUT, of which the rank at place v has the v-th chunk, becomes complete. */
static void gather(tdmi_steps *s, const layout *l, int rank)
{
    const int n = l->n;
    const bool shuffled = l->shuffled;
    const int v = shuffled ? position_of(n, rank) : rank;
    for (int length = 1; length < n; length *= 2) {
        round r = round_of(v, n, length);
        int to = shuffled ? chunk_at(n, r.to) : r.to, from = shuffled ? chunk_at(n, r.from) : r.from;
        int send = r.send_first + r.count <= n ? r.count : n - r.send_first; /* up to the end, the rest from the start */
        int receive = r.receive_first + r.count <= n ? r.count : n - r.receive_first;
        tdmi_steps_exchange(s, to, positions(TDMI_BUFFER_OUT, l, r.send_first, send), from,
                            positions(TDMI_BUFFER_OUT, l, r.receive_first, receive));
        tdmi_steps_exchange(s, to, positions(TDMI_BUFFER_OUT, l, 0, r.count - send), from,
                            positions(TDMI_BUFFER_OUT, l, 0, r.count - receive));
    }
}

/* Parts that callers see belong to ranks; those of an allreduce to places. */
static int place_of(const tdmi_call *call, const tdmi_topology *topology)
{
    return call->coll == TDMI_COLL_ALLREDUCE ? tdmi_place_of(topology, TDMI_SHAPE_DOUBLING, topology->rank) : topology->rank;
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = place_of(call, topology), n = topology->n;
    const size_t count = call->count;
    const layout l = layout_of(call, n);
    if (n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    if (call->coll == TDMI_COLL_ALL_GATHER) {
        tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, count), tdmi_call_out_part(call, rank));
        gather(s, &l, rank);
        return;
    }
    const int place = position_of(n, rank);
    if (call->coll == TDMI_COLL_REDUCE_SCATTER) {
        s->acc_count = first_at(&l, n);
        for (int chunk = 0; chunk < n; chunk++)
            tdmi_steps_copy(s, tdmi_call_in_part(call, chunk), positions(TDMI_BUFFER_ACC, &l, position_of(n, chunk), 1));
        halve(s, TDMI_BUFFER_ACC, &l, rank);
        tdmi_steps_finish(s, call, positions(TDMI_BUFFER_ACC, &l, place, 1), tdmi_range_of(TDMI_BUFFER_OUT, 0, count));
        return;
    }
    const tdmi_buffer sums = tdmi_widens(call) ? TDMI_BUFFER_ACC : TDMI_BUFFER_OUT;
    if (sums == TDMI_BUFFER_ACC)
        s->acc_count = count;
    tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, count), tdmi_range_of(sums, 0, count));
    halve(s, sums, &l, rank);
    tdmi_steps_finish(s, call, positions(sums, &l, place, 1), positions(TDMI_BUFFER_OUT, &l, place, 1));
    gather(s, &l, rank);
    tdmi_steps_use_order(s, topology, TDMI_SHAPE_DOUBLING);
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return coll == TDMI_COLL_REDUCE_SCATTER || coll == TDMI_COLL_ALL_GATHER || (coll == TDMI_COLL_ALLREDUCE && !uneven);
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = place_of(call, topology), n = topology->n;
    const layout l = layout_of(call, n);
    tdmi_traffic t = {0, 0};
    if (n == 1)
        return t;
    const block own = block_of(rank, n);
    const int v = call->coll == TDMI_COLL_ALL_GATHER ? rank : position_of(n, rank);
    if (call->coll != TDMI_COLL_ALL_GATHER) {
        for (int m = 1; m < own.size; m *= 2)
            t.messages++;
        if (own.base > 0)
            t.messages += (size_t)(block_of(own.base - 1, n).size / own.size);
        t.messages += rank - own.base < n - own.base - own.size ? 1 : 0;
        t.elements_sent += first_at(&l, n) - positions(TDMI_BUFFER_OUT, &l, v, 1).count; /* every chunk but the own, once */
    }
    for (int length = 1; length < n && call->coll != TDMI_COLL_REDUCE_SCATTER; length *= 2) {
        round r = round_of(v, n, length);
        int wrapped = r.send_first + r.count > n ? r.send_first + r.count - n : 0;
        t.messages += wrapped > 0 ? 2 : 1;
        t.elements_sent += positions(TDMI_BUFFER_OUT, &l, r.send_first, r.count - wrapped).count +
                           positions(TDMI_BUFFER_OUT, &l, 0, wrapped).count;
    }
    return t;
}

const tdmi_algorithm tdmi_halving_doubling = {
    .name = "halving_doubling", .needs = TDMI_NEEDS_LINKS, .supports = supports, .steps = steps, .cost = cost};
