/* binomial.c - broadcast, scatter, gather and reduce over binomial trees.  Use: links, short messages, any n.
 *
 *   root = 0, n = 8        round 0: 0->4      round 1: 0->2 4->6      round 2: 0->1 2->3 4->5 6->7
 * Place p = rank - root receives from p without its lowest set bit, then sends to p + each smaller bit, the farthest first: all
 * of the data (broadcast), or what is for the ranks below (scatter). A gather sends the same messages backwards. Parts of
 * several ranks travel in the order of places; to and from the root, whose buffer is in rank order, in two messages where they
 * wrap.
 *
 *   reduce, n = 7, root 5   round 0: 1->0 3->2 4->5     round 1: 2->0 6->5     round 2: 0->5
 * Ranks, not places, form the tree, so that it is the canonical one: aligned blocks of 1, 2, 4 ... ranks, of which the root or
 * else the lowest rank has the sum, which adds up what comes from its left on the left. A rank that sends its input and no sum
 * sends it in its own type.
 *
 * Cost   broadcast and reduce ceil(log2 n)(alpha + S beta), reduce + ceil(log2 n) S gamma;
 *        scatter and gather ceil(log2 n) alpha + (n-1)/n S beta at the root, which is the longest way.
 * Sums   canonical tree.     Needs  links; scratch of S in a reduce, of a subtree's parts in scatter and gather.
 * Paper  Johnsson and Ho, IEEE Transactions on Computers 38(9), 1989, doi:10.1109/12.29465 */
#include "coll/algorithm.h"

static const tdmi_range nothing = {.buffer = TDMI_BUFFER_OUT, .first = 0, .count = 0};

/* The bit by which `place` hangs below its parent; for the root the first power of two that is no place. */
static int own_bit(int place, int n)
{
    int bit = 1;
    while (bit < n && (place & bit) == 0)
        bit *= 2;
    return bit;
}

/* Places from `place` on that hang below a bit, itself included. */
static int places_below(int place, int bit, int n)
{
    return bit < n - place ? bit : n - place;
}

static void broadcast(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const int place = (rank - call->root + n) % n, bit = own_bit(place, n);
    const tdmi_range data = tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count);
    if (place > 0)
        tdmi_steps_exchange(s, -1, nothing, (place - bit + call->root) % n, data);
    for (int child = bit / 2; child > 0; child /= 2)
        if (place + child < n)
            tdmi_steps_exchange(s, (place + child + call->root) % n, data, -1, nothing);
}

/* ---- scatter and gather ---- */

/* How many of `places` places from `place` on come before rank 0, if any does behind. */
static int before_wrap(int place, int places, int root, int n)
{
    const int rank = (place + root) % n;
    return places < n - rank ? places : n - rank;
}

/* Moves the parts of the subtree at `place` between the root's buffer in rank order and `sub` of its top, in `place` order. */
static void between_root(tdmi_steps *s, const tdmi_call *call, bool is_root, bool up, int place, int places, tdmi_range sub, int n)
{
    const int top = (place + call->root) % n, first = before_wrap(place, places, call->root, n);
    for (int half = 0; half < 2; half++) {
        const size_t at = half == 0 ? 0 : (size_t)first * call->count;
        const size_t count = (size_t)(half == 0 ? first : places - first) * call->count;
        const tdmi_range there = tdmi_range_of(up ? TDMI_BUFFER_OUT : TDMI_BUFFER_IN, half == 0 ? (size_t)top * call->count : 0, count);
        const tdmi_range here = tdmi_range_of(sub.buffer, sub.first + at, count);
        if (is_root && up)
            tdmi_steps_exchange(s, -1, nothing, top, there);
        else if (is_root)
            tdmi_steps_exchange(s, top, there, -1, nothing);
        else if (up)
            tdmi_steps_exchange(s, call->root, here, -1, nothing);
        else
            tdmi_steps_exchange(s, -1, nothing, call->root, here);
    }
}

static void scatter(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const int place = (rank - call->root + n) % n, bit = own_bit(place, n), places = places_below(place, bit, n);
    const size_t count = call->count;
    const tdmi_range own = tdmi_range_of(TDMI_BUFFER_OUT, 0, count);
    tdmi_range sub = own;
    if (place > 0 && places > 1) {
        sub = tdmi_range_of(TDMI_BUFFER_ACC, 0, (size_t)places * count);
        s->acc_count = sub.count;
    }
    if (place == bit)
        between_root(s, call, false, false, place, places, sub, n);
    else if (place > 0)
        tdmi_steps_exchange(s, -1, nothing, (place - bit + call->root) % n, sub);
    for (int child = bit / 2; child > 0; child /= 2) {
        if (place + child >= n)
            continue;
        const int below = places_below(place + child, child, n);
        if (place == 0)
            between_root(s, call, true, false, child, below, nothing, n);
        else
            tdmi_steps_exchange(s, (place + child + call->root) % n,
                                tdmi_range_of(TDMI_BUFFER_ACC, (size_t)child * count, (size_t)below * count), -1, nothing);
    }
    if (place == 0)
        tdmi_steps_copy(s, tdmi_call_in_part(call, rank), own);
    else if (places > 1)
        tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_ACC, 0, count), own);
}

static void gather(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const int place = (rank - call->root + n) % n, bit = own_bit(place, n), places = places_below(place, bit, n);
    const size_t count = call->count;
    const tdmi_range own = tdmi_range_of(TDMI_BUFFER_IN, 0, count);
    tdmi_range sub = own;
    if (place == 0) {
        tdmi_steps_copy(s, own, tdmi_call_out_part(call, rank));
    } else if (places > 1) {
        sub = tdmi_range_of(TDMI_BUFFER_ACC, 0, (size_t)places * count);
        s->acc_count = sub.count;
        tdmi_steps_copy(s, own, tdmi_range_of(TDMI_BUFFER_ACC, 0, count));
    }
    for (int child = 1; child < bit; child *= 2) {
        if (place + child >= n)
            continue;
        const int below = places_below(place + child, child, n);
        if (place == 0)
            between_root(s, call, true, true, child, below, nothing, n);
        else
            tdmi_steps_exchange(s, -1, nothing, (place + child + call->root) % n,
                                tdmi_range_of(TDMI_BUFFER_ACC, (size_t)child * count, (size_t)below * count));
    }
    if (place == bit)
        between_root(s, call, false, true, place, places, sub, n);
    else if (place > 0)
        tdmi_steps_exchange(s, (place - bit + call->root) % n, sub, -1, nothing);
}

/* ---- reduce ---- */

/* Who has the sum of the block of ranks [base, base + size). */
static int holder(int base, int size, int root)
{
    return root >= base && root < base + size ? root : base;
}

static void reduce(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const tdmi_range in = tdmi_range_of(TDMI_BUFFER_IN, 0, call->count);
    const bool in_out = rank == call->root && !tdmi_widens(call);
    const tdmi_range sum = tdmi_range_of(in_out ? TDMI_BUFFER_OUT : TDMI_BUFFER_ACC, 0, call->count);
    bool is_sum = false;
    for (int size = 1; size < n; size *= 2) {
        const int base = rank & ~(size - 1), other = base ^ size;
        if (other >= n)
            continue;
        const int to = holder(base & ~size, 2 * size, call->root);
        if (to != rank) {
            if (is_sum)
                tdmi_steps_exchange_reduce(s, to, sum, -1, nothing, false);
            else
                tdmi_steps_exchange_reduce_leaf(s, to, in, -1, nothing, false);
            return;
        }
        if (!is_sum)
            tdmi_steps_copy(s, in, sum);
        is_sum = true;
        s->acc_count = in_out ? 0 : call->count;
        if (places_below(other, size, n) == 1)
            tdmi_steps_exchange_reduce_leaf(s, -1, nothing, holder(other, size, call->root), sum, other < base);
        else
            tdmi_steps_exchange_reduce(s, -1, nothing, holder(other, size, call->root), sum, other < base);
    }
    tdmi_steps_finish(s, call, sum, tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count));
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    if (n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    switch (call->coll) {
    case TDMI_COLL_SCATTER: scatter(s, call, rank, n); break;
    case TDMI_COLL_GATHER: gather(s, call, rank, n); break;
    case TDMI_COLL_REDUCE: reduce(s, call, rank, n); break;
    default: broadcast(s, call, rank, n);
    }
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return !uneven && (coll == TDMI_COLL_BROADCAST || coll == TDMI_COLL_SCATTER || coll == TDMI_COLL_GATHER ||
                       coll == TDMI_COLL_REDUCE);
}

/* Messages that a subtree's parts take between its top and its parent. */
static size_t messages_to(int place, int bit, int places, int root, int n)
{
    return place == bit && before_wrap(place, places, root, n) < places ? 2 : 1;
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    const int place = (rank - call->root + n) % n, bit = own_bit(place, n), places = places_below(place, bit, n);
    tdmi_traffic t = {0, 0};
    if (n == 1)
        return t;
    if (call->coll == TDMI_COLL_REDUCE)
        return rank == call->root ? t : (tdmi_traffic){1, call->count};
    if (call->coll == TDMI_COLL_GATHER)
        return place == 0 ? t : (tdmi_traffic){messages_to(place, bit, places, call->root, n), (size_t)places * call->count};
    for (int child = bit / 2; child > 0; child /= 2) {
        if (place + child >= n)
            continue;
        const int below = places_below(place + child, child, n);
        const bool scatters = call->coll == TDMI_COLL_SCATTER;
        t.messages += scatters ? messages_to(place + child, child, below, call->root, n) : 1;
        t.elements_sent += scatters ? (size_t)below * call->count : call->count;
    }
    return t;
}

const tdmi_algorithm tdmi_binomial = {
    .name = "binomial", .needs = TDMI_NEEDS_LINKS, .supports = supports, .steps = steps, .cost = cost};
