/* direct_staged_parts.c - direct_staged for buffers of parts, one a rank: one meeting a segment, two slots.
 *
 *     alltoall, n = 3, segment k of every part in slot k mod 2 of the rank it comes from
 *     rank 0 stages   . 01 02        rank 0 copies out   00 10 20       xy: from rank x for rank y; 00 goes straight
 *     rank 1 stages  10  . 12        rank 1 copies out   01 11 21
 *     rank 2 stages  20 21  .        rank 2 copies out   02 12 22
 * Each part is staged by whom it comes from and read by whom it is for, a reduce-scatter's summed on the way; a gather and a
 * scatter are the column and the row of the root. When a slot is filled again, a meeting lies between that and its last reader.
 * Uneven parts of an all-gather and a reduce-scatter are as good, since all ranks know them all: the longest decides how many
 * segments there are.
 *
 * Cost   1 + S / SEGMENT_BYTES meetings; what a rank has for others is copied in, what it gets copied out or summed.
 * Sums   canonical tree.     Needs  all ranks on one node.     Source  as direct_staged.c */
#include "coll/direct_staged.h"

/* Of the slot of segment k, which has room for `parts` pieces: where piece `i` lies. */
static tdmi_range staged(const tdmi_cut *c, size_t k, int parts, int i, size_t count)
{
    return tdmi_range_of(TDMI_BUFFER_STAGE, (k % 2 * (size_t)parts + (size_t)i) * c->length, count);
}

static tdmi_cut cut(tdmi_steps *s, const tdmi_call *call, const size_t *counts, int n, int parts)
{
    size_t longest = call->count;
    for (int i = 0; i < n && call->uneven; i++)
        longest = counts[i] > longest ? counts[i] : longest;
    const tdmi_cut c = tdmi_cut_of(longest, call->dtype, (size_t)parts);
    s->stage_count = 2 * c.length * (size_t)parts;
    return c;
}

static void reduce_scatter(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const tdmi_cut c = cut(s, call, call->in_counts, n, n);
    for (size_t k = 0; k < c.segments; k++) {
        for (int owner = 0; owner < n; owner++) {
            const tdmi_range in = tdmi_cut_piece(&c, tdmi_call_in_part(call, owner), k);
            if (owner != rank)
                tdmi_steps_copy(s, in, staged(&c, k, n, owner, in.count));
        }
        tdmi_steps_meet(s);
        const tdmi_range own = tdmi_cut_piece(&c, tdmi_call_in_part(call, rank), k);
        tdmi_steps_reduce_with(s, staged(&c, k, n, rank, own.count), own, rank,
                               tdmi_cut_piece(&c, tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count), k));
    }
}

static void all_gather(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const tdmi_cut c = cut(s, call, call->out_counts, n, 1);
    for (size_t k = 0; k < c.segments; k++) {
        const tdmi_range in = tdmi_cut_piece(&c, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count), k);
        tdmi_steps_copy(s, in, staged(&c, k, 1, 0, in.count));
        tdmi_steps_meet(s);
        for (int i = 0; i < n; i++) {
            const int from = (rank + i) % n;
            const tdmi_range out = tdmi_cut_piece(&c, tdmi_call_out_part(call, from), k);
            if (from == rank)
                tdmi_steps_copy(s, in, out);
            else
                tdmi_steps_copy_from(s, from, staged(&c, k, 1, 0, out.count), out);
        }
    }
}

static void alltoall(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const tdmi_cut c = cut(s, call, NULL, n, n);
    for (size_t k = 0; k < c.segments; k++) {
        for (int i = 0; i < n; i++) {
            const tdmi_range in = tdmi_cut_piece(&c, tdmi_call_in_part(call, i), k);
            tdmi_steps_copy(s, in, i == rank ? tdmi_cut_piece(&c, tdmi_call_out_part(call, i), k) : staged(&c, k, n, i, in.count));
        }
        tdmi_steps_meet(s);
        for (int i = 1; i < n; i++) {
            const int from = (rank + i) % n;
            const tdmi_range out = tdmi_cut_piece(&c, tdmi_call_out_part(call, from), k);
            tdmi_steps_copy_from(s, from, staged(&c, k, n, rank, out.count), out);
        }
    }
}

/* Two ranks: each gives one part and gets one. */
static void swap(tdmi_steps *s, const tdmi_call *call, int rank)
{
    const int peer = 1 - rank;
    tdmi_exchanged what = {.give = tdmi_call_in_part(call, peer), .get = tdmi_call_out_part(call, peer)};
    if (call->coll == TDMI_COLL_REDUCE_SCATTER) {
        what.own = tdmi_call_in_part(call, rank);
        what.sums = true;
    } else {
        what.kept = tdmi_call_in_part(call, rank);
        what.kept_in = tdmi_call_out_part(call, rank);
    }
    tdmi_staged_pair(s, call, rank, &what);
}

static void gather(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const tdmi_cut c = cut(s, call, NULL, n, 1);
    for (size_t k = 0; k < c.segments; k++) {
        const tdmi_range in = tdmi_cut_segment(&c, TDMI_BUFFER_IN, k);
        if (rank != call->root)
            tdmi_steps_copy(s, in, staged(&c, k, 1, 0, in.count));
        tdmi_steps_meet(s);
        for (int i = 0; i < n && rank == call->root; i++) {
            const tdmi_range out = tdmi_cut_piece(&c, tdmi_call_out_part(call, i), k);
            if (i == rank)
                tdmi_steps_copy(s, in, out);
            else
                tdmi_steps_copy_from(s, i, staged(&c, k, 1, 0, out.count), out);
        }
    }
}

static void scatter(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    const tdmi_cut c = cut(s, call, NULL, n, n);
    for (size_t k = 0; k < c.segments; k++) {
        const tdmi_range out = tdmi_cut_segment(&c, TDMI_BUFFER_OUT, k);
        for (int i = 0; i < n && rank == call->root; i++) {
            const tdmi_range in = tdmi_cut_piece(&c, tdmi_call_in_part(call, i), k);
            tdmi_steps_copy(s, in, i == rank ? out : staged(&c, k, n, i, in.count));
        }
        tdmi_steps_meet(s);
        if (rank != call->root)
            tdmi_steps_copy_from(s, call->root, staged(&c, k, n, rank, out.count), out);
    }
}

void tdmi_staged_parts(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    if (n == 2 && call->coll != TDMI_COLL_GATHER && call->coll != TDMI_COLL_SCATTER) {
        swap(s, call, rank);
        return;
    }
    switch (call->coll) {
    case TDMI_COLL_REDUCE_SCATTER: reduce_scatter(s, call, rank, n); break;
    case TDMI_COLL_ALL_GATHER: all_gather(s, call, rank, n); break;
    case TDMI_COLL_ALLTOALL: alltoall(s, call, rank, n); break;
    case TDMI_COLL_GATHER: gather(s, call, rank, n); break;
    default: scatter(s, call, rank, n);
    }
}
