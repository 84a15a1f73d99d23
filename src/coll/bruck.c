/* bruck.c - all-gather and alltoall in ceil(log2 n) rounds, for any n.  Use: links, short messages.
 *
 *   all-gather, n = 5, what a rank has after each round, in its own order: itself, then the ranks behind it
 *            start   1 from r+1   2 from r+2     1 from r+4         turned into rank order
 *   rank 0   a       a b          a b c d        a b c d e          a b c d e
 *   rank 2   c       c d          c d e a        c d e a b          a b c d e
 *   alltoall: block i of a rank is meant for rank r + i; in round k every block with bit k of i set moves 2^k ranks on, so that
 *   block i has gone i ranks in all, and is then block i of the rank it was meant for, from rank r - i.
 *   n = 3     rank 0       rank 1       rank 2
 *   start     00 01 02     11 12 10     22 20 21        xy: from rank x for rank y
 *   round 0   00 20 02     11 01 10     22 12 21        block 1 moves on by 1
 *   round 1   00 20 10     11 01 21     22 12 02        block 2 moves on by 2
 * One message a round: what moves is packed into one piece of scratch.
 *
 * Cost   all_gather ceil(log2 n) alpha + (n-1)/n S beta;  alltoall ceil(log2 n)(alpha + about S/2 beta) and 3 copies of S.
 * Needs  links; scratch of S for an all-gather, of 2 S for an alltoall.
 * Paper  Bruck et al., IEEE TPDS 8(11), 1997, doi:10.1109/71.642949 */
#include "coll/algorithm.h"

/* Elements of the parts of `count` ranks from `first` on, in rank order, wrapping. */
static size_t parts_from(const tdmi_call *call, int n, int first, int count)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += tdmi_call_out_part(call, (first + i) % n).count;
    return sum;
}

static void all_gather(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const size_t total = parts_from(call, n, 0, n), before = parts_from(call, n, 0, rank);
    s->acc_count = total;
    tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count), tdmi_range_of(TDMI_BUFFER_ACC, 0, call->count));
    for (int length = 1; length < n; length *= 2) {
        const int count = length < n - length ? length : n - length;
        const size_t at = parts_from(call, n, rank, length);
        tdmi_steps_exchange(s, (rank + n - length) % n, tdmi_range_of(TDMI_BUFFER_ACC, 0, parts_from(call, n, rank, count)),
                            (rank + length) % n,
                            tdmi_range_of(TDMI_BUFFER_ACC, at, parts_from(call, n, rank + length, count)));
    }
    tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_ACC, 0, total - before), tdmi_range_of(TDMI_BUFFER_OUT, before, total - before));
    tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_ACC, total - before, before), tdmi_range_of(TDMI_BUFFER_OUT, 0, before));
}

/* Blocks of 0..n-1 that have this bit set. */
static size_t blocks_with(int n, int bit)
{
    size_t count = 0;
    for (int i = 0; i < n; i++)
        count += (i & bit) != 0 ? 1 : 0;
    return count;
}

/* Copies the blocks that have this bit set, which lie in runs, into `packed` at `at`, or back out of it. */
static void pack(tdmi_steps *s, int n, size_t count, int bit, size_t at, bool back)
{
    for (int i = bit; i < n; i += 2 * bit) {
        const size_t run = (size_t)(bit < n - i ? bit : n - i) * count;
        const tdmi_range blocks = tdmi_range_of(TDMI_BUFFER_ACC, (size_t)i * count, run);
        const tdmi_range packed = tdmi_range_of(TDMI_BUFFER_ACC, at, run);
        tdmi_steps_copy(s, back ? packed : blocks, back ? blocks : packed);
        at += run;
    }
}

static void alltoall(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const size_t count = call->count, total = count * (size_t)n, half = blocks_with(n, 1) * count;
    const size_t send = total, receive = total + half; /* no bit is set in more blocks than bit 0 */
    s->acc_count = total + 2 * half;
    for (int i = 0; i < n; i++)
        tdmi_steps_copy(s, tdmi_call_in_part(call, (rank + i) % n), tdmi_range_of(TDMI_BUFFER_ACC, (size_t)i * count, count));
    for (int bit = 1; bit < n; bit *= 2) {
        const size_t moves = blocks_with(n, bit) * count;
        pack(s, n, count, bit, send, false);
        tdmi_steps_exchange(s, (rank + bit) % n, tdmi_range_of(TDMI_BUFFER_ACC, send, moves), (rank + n - bit) % n,
                            tdmi_range_of(TDMI_BUFFER_ACC, receive, moves));
        pack(s, n, count, bit, receive, true);
    }
    for (int i = 0; i < n; i++)
        tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_ACC, (size_t)i * count, count), tdmi_call_out_part(call, (rank + n - i) % n));
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    if (n == 1)
        tdmi_steps_alone(s, call);
    else if (call->coll == TDMI_COLL_ALL_GATHER)
        all_gather(s, call, rank, n);
    else
        alltoall(s, call, rank, n);
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return coll == TDMI_COLL_ALL_GATHER || (coll == TDMI_COLL_ALLTOALL && !uneven);
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    tdmi_traffic t = {0, 0};
    for (int length = 1; length < n; length *= 2) {
        t.messages++;
        t.elements_sent += call->coll == TDMI_COLL_ALL_GATHER
                               ? parts_from(call, n, rank, length < n - length ? length : n - length)
                               : blocks_with(n, length) * call->count;
    }
    return t;
}

const tdmi_algorithm tdmi_bruck = {
    .name = "bruck", .needs = TDMI_NEEDS_LINKS, .supports = supports, .steps = steps, .cost = cost};
