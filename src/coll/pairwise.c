/* pairwise.c - every rank exchanges with every other once, in rounds of pairs.  Use: links, long messages; few ranks.
 *
 *     round        1          2          3          n = 4: in round k rank r exchanges with rank r xor k
 *     pairs     0-1 2-3    0-2 1-3    0-3 1-2      other n: a rank whose partner does not exist sits the round out
 * An alltoall is the rounds alone, and an all-gather sends every time the same part. A reduce-scatter sends each rank its part
 * of the input as it is, in the input's own type; the owner sums what comes. Because the partner is r xor k, the first 2^j
 * inputs to come are those of an aligned block of 2^j ranks, so the sums grow like a binary counter into the canonical tree:
 *     comes   r   r^1        r^2   r^3                 r^4 ...      (r = 0: order of the ranks)
 *     sums    a   a+b        c     (a+b)+(c+d)         e            at most log2(n) + 1 of them wait at a time
 * An allreduce gathers the parts afterwards, a reduce gathers them at the root.
 *
 * Cost   alltoall, all_gather and reduce_scatter (n-1) alpha + (n-1)/n S beta, reduce_scatter + (n-1)/n S gamma;
 *        allreduce the last two; reduce n alpha + (n-1)/n S beta + S/n beta.  Halves and averages of integers travel as they
 *        are: half, or less, of the bytes that partial sums take in float32 or int64.
 * Sums   canonical tree.     Needs  links to all; scratch of log2(n) + 1 parts in sums.
 * Paper  Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521 (pairwise exchange) */
#include "coll/algorithm.h"

/* Rounds are 1 to rounds_of(n) - 1. */
static int rounds_of(int n)
{
    int rounds = 1;
    while (rounds < n)
        rounds *= 2;
    return rounds;
}

/* Part p of the buffer that is summed, and of the one that is gathered. */
static tdmi_range in_part(const tdmi_call *call, int n, int p)
{
    return tdmi_coll_has_parts(call->coll) ? tdmi_call_in_part(call, p) : tdmi_chunk(TDMI_BUFFER_IN, call->count, n, p);
}

static tdmi_range out_part(const tdmi_call *call, int n, int p)
{
    return tdmi_coll_has_parts(call->coll) ? tdmi_call_out_part(call, p) : tdmi_chunk(TDMI_BUFFER_OUT, call->count, n, p);
}

/* The sums that wait: of every block of 2^level ranks at most one, each in a piece of ACC. */
typedef struct counter {
    int piece[32]; /* of the sum of `level`, -1: there is none */
    int pieces;    /* ever used */
    size_t count;  /* elements of a piece */
} counter;

static tdmi_range piece_at(const counter *c, int piece)
{
    return tdmi_range_of(TDMI_BUFFER_ACC, (size_t)piece * c->count, c->count);
}

static int free_piece(const counter *c)
{
    for (int piece = 0;; piece++) {
        bool taken = false;
        for (int level = 0; level < 32; level++)
            taken |= c->piece[level] == piece;
        if (!taken)
            return piece;
    }
}

/* Behind the k-th input: where it completes a block, the two halves become one sum; and so on upwards. The half that came last
 * is the left one where the rank lies in the right one. */
static void carry(tdmi_steps *s, counter *c, int rank, int k, int piece)
{
    int level = 0;
    for (; (k >> level & 1) != 0; level++) {
        const int before = c->piece[level];
        c->piece[level] = -1;
        if (before >= 0 && piece >= 0 && before != piece)
            tdmi_steps_reduce(s, piece_at(c, piece), piece_at(c, before), (rank >> level & 1) != 0);
        piece = before >= 0 ? before : piece;
    }
    c->piece[level] = piece;
}

/* Every rank's part of the reduction comes to it; the piece of ACC with the unfinished sum is given back. */
static tdmi_range reduce_scatter(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const tdmi_range own = in_part(call, n, rank);
    const int rounds = rounds_of(n);
    counter c = {.count = own.count};
    for (int level = 0; level < 32; level++)
        c.piece[level] = -1;
    tdmi_steps_copy(s, own, piece_at(&c, 0));
    c.piece[0] = 0;
    c.pieces = 1;
    for (int k = 1; k < rounds; k++) {
        const int peer = rank ^ k;
        int piece = -1;
        if (peer < n && (k & 1) != 0 && c.piece[0] >= 0) {
            piece = c.piece[0]; /* the first sum of all is made as the bytes come */
            tdmi_steps_exchange_reduce_leaf(s, peer, in_part(call, n, peer), peer, piece_at(&c, piece), (rank & 1) != 0);
        } else if (peer < n) {
            piece = free_piece(&c);
            tdmi_steps_exchange_leaf(s, peer, in_part(call, n, peer), peer, piece_at(&c, piece));
        }
        c.pieces = piece + 1 > c.pieces ? piece + 1 : c.pieces;
        carry(s, &c, rank, k, piece);
    }
    s->acc_count = (size_t)c.pieces * c.count;
    int top = 0;
    while (1 << top < rounds)
        top++;
    return piece_at(&c, c.piece[top]);
}

/* This rank's part of OUT goes to all, and theirs come. */
static void all_gather(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    for (int k = 1; k < rounds_of(n); k++)
        if ((rank ^ k) < n)
            tdmi_steps_exchange(s, rank ^ k, out_part(call, n, rank), rank ^ k, out_part(call, n, rank ^ k));
}

/* The unfinished sums go to the root; where they are wider than the data it keeps them behind its own, to finish them. */
static void gather_sums(tdmi_steps *s, const tdmi_call *call, int rank, int n, tdmi_range sum)
{
    const tdmi_range nothing = tdmi_range_of(TDMI_BUFFER_OUT, 0, 0), whole = tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count);
    if (rank != call->root) {
        tdmi_steps_exchange(s, call->root, sum, -1, nothing);
        return;
    }
    tdmi_range sums = whole;
    if (tdmi_widens(call)) {
        sums = tdmi_range_of(TDMI_BUFFER_ACC, s->acc_count, call->count);
        s->acc_count += call->count;
    }
    for (int k = 0; k < rounds_of(n); k++) {
        const int peer = rank ^ k;
        if (peer >= n)
            continue;
        tdmi_range part = tdmi_chunk(sums.buffer, call->count, n, peer);
        part.first += sums.first;
        if (peer == rank)
            tdmi_steps_copy(s, sum, part);
        else
            tdmi_steps_exchange(s, -1, nothing, peer, part);
    }
    tdmi_steps_finish(s, call, sums, whole);
}

static void alltoall(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    tdmi_steps_copy(s, tdmi_call_in_part(call, rank), tdmi_call_out_part(call, rank));
    for (int k = 1; k < rounds_of(n); k++)
        if ((rank ^ k) < n)
            tdmi_steps_exchange(s, rank ^ k, tdmi_call_in_part(call, rank ^ k), rank ^ k, tdmi_call_out_part(call, rank ^ k));
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    if (n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    switch (call->coll) {
    case TDMI_COLL_ALLTOALL: alltoall(s, call, rank, n); break;
    case TDMI_COLL_ALL_GATHER:
        tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count), out_part(call, n, rank));
        all_gather(s, call, rank, n);
        break;
    case TDMI_COLL_REDUCE: gather_sums(s, call, rank, n, reduce_scatter(s, call, rank, n)); break;
    case TDMI_COLL_ALLREDUCE:
        tdmi_steps_finish(s, call, reduce_scatter(s, call, rank, n), out_part(call, n, rank));
        all_gather(s, call, rank, n);
        break;
    default: tdmi_steps_finish(s, call, reduce_scatter(s, call, rank, n), tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count));
    }
}

static bool supports(tdmi_coll coll, bool uneven)
{
    const bool moves = coll == TDMI_COLL_ALLTOALL || coll == TDMI_COLL_ALL_GATHER || coll == TDMI_COLL_REDUCE_SCATTER;
    return moves || (!uneven && (coll == TDMI_COLL_ALLREDUCE || coll == TDMI_COLL_REDUCE));
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    const size_t others = (size_t)n - 1, own = tdmi_chunk(TDMI_BUFFER_OUT, call->count, n, rank).count;
    if (n == 1)
        return (tdmi_traffic){0, 0};
    switch (call->coll) {
    case TDMI_COLL_ALLREDUCE: return (tdmi_traffic){2 * others, call->count - own + others * own};
    case TDMI_COLL_REDUCE: return rank == call->root ? (tdmi_traffic){others, call->count - own} : (tdmi_traffic){(size_t)n, call->count};
    case TDMI_COLL_ALL_GATHER: return (tdmi_traffic){others, others * call->count};
    default: return (tdmi_traffic){others, tdmi_call_in_count(call, rank, n) - tdmi_call_in_part(call, rank).count};
    }
}

const tdmi_algorithm tdmi_pairwise = {
    .name = "pairwise", .needs = TDMI_NEEDS_LINKS, .supports = supports, .steps = steps, .cost = cost};
