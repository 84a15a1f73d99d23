/* recursive_doubling.c - all ranks swap all they have, log2 n times.  Use: links, short messages, any n.
 *
 *   n = 4         distance 1     distance 2                 n = 7 = 4 + 2 + 1 (binary blocks)
 *   rank 0   a    a+b            (a+b) + (c+d)              blocks A = 0..3, B = 4..5, C = 6 add up on their own
 *   rank 1   b    a+b            (a+b) + (c+d)              4 <-> 6: B + C           rank 5 gets it from 4's side
 *   rank 2   c    c+d            (a+b) + (c+d)              0 <-> 4, 1 <-> 5, 2 <-> 6: A + (B + C)
 *   rank 3   d    c+d            (a+b) + (c+d)              rank 3 gets it from 0
 * Ranks [base, base + size) with size no power of two: the first block and the rest add up on their own at the same time, rank i
 * of the rest swaps sums with rank i of the block, and those of the block pass the total on to the others, 1, 2, 4 ... at once.
 * No rank folds into another first: that would give other sums.
 *
 * Cost   log2(n) (alpha + S beta + S gamma); n no power of two: up to 2 log2(n) + 1 rounds.
 * Sums   canonical tree over the places, which are the ranks unless sums may be reordered.
 * Needs  links; scratch of S, of 2 S where sums are wider than the data.
 * Paper  Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521 */
#include "coll/algorithm.h"

typedef struct buffers {
    tdmi_range sums, came;
} buffers;

static void swap(tdmi_steps *s, const buffers *b, int rank, int peer)
{
    tdmi_steps_exchange(s, peer, b->sums, peer, b->came);
    tdmi_steps_reduce(s, b->came, b->sums, peer < rank);
}

/* The first `have` of the `size` ranks from `base` on have the total; all get it. Calls `message` for what `rank` does. */
typedef void (*message)(void *arg, int to, int from);
static void spread(int rank, int base, int have, int size, message tell, void *arg)
{
    for (const int place = rank - base; have < size; have *= 2) {
        if (place < have && place + have < size)
            tell(arg, rank + have, -1);
        if (place >= have && place < 2 * have)
            tell(arg, -1, rank - have);
    }
}

typedef struct passing {
    tdmi_steps *s;
    tdmi_range data;
} passing;

static void pass_on(void *arg, int to, int from)
{
    const passing *p = arg;
    tdmi_steps_exchange(p->s, to, p->data, from, p->data);
}

static void add_up(tdmi_steps *s, const buffers *b, int rank, int base, int size)
{
    const int block = tdmi_highest_bit(size), rest = size - block;
    if (rank >= base + block) {
        add_up(s, b, rank, base + block, rest);
        swap(s, b, rank, rank - block);
        return;
    }
    for (int distance = 1; distance < block; distance *= 2)
        swap(s, b, rank, base + ((rank - base) ^ distance));
    if (rest == 0)
        return;
    if (rank - base < rest)
        swap(s, b, rank, rank + block);
    spread(rank, base, rest, block, pass_on, &(passing){s, b->sums});
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const size_t count = call->count;
    if (topology->n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    const bool widens = tdmi_widens(call);
    const buffers b = {tdmi_range_of(tdmi_sums_buffer(call), 0, count), tdmi_range_of(TDMI_BUFFER_ACC, widens ? count : 0, count)};
    s->acc_count = widens ? 2 * count : count;
    tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, count), b.sums);
    add_up(s, &b, tdmi_place_of(topology, TDMI_SHAPE_DOUBLING, topology->rank), 0, topology->n);
    tdmi_steps_use_order(s, topology, TDMI_SHAPE_DOUBLING);
    tdmi_steps_finish(s, call, b.sums, tdmi_range_of(TDMI_BUFFER_OUT, 0, count));
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return coll == TDMI_COLL_ALLREDUCE && !uneven;
}

static void count_sends(void *arg, int to, int from)
{
    (void)from;
    *(size_t *)arg += to >= 0 ? 1 : 0;
}

static size_t messages(int rank, int base, int size)
{
    const int block = tdmi_highest_bit(size), rest = size - block;
    size_t count = 0;
    if (rank >= base + block)
        return messages(rank, base + block, rest) + 1;
    for (int distance = 1; distance < block; distance *= 2)
        count++;
    if (rest > 0) {
        count += rank - base < rest ? 1 : 0;
        spread(rank, base, rest, block, count_sends, &count);
    }
    return count;
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const size_t count = messages(tdmi_place_of(topology, TDMI_SHAPE_DOUBLING, topology->rank), 0, topology->n);
    return (tdmi_traffic){count, count * call->count};
}

const tdmi_algorithm tdmi_recursive_doubling = {
    .name = "recursive_doubling", .needs = TDMI_NEEDS_LINKS, .supports = supports, .steps = steps, .cost = cost};
