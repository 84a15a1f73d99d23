/* binomial.c - broadcast down a binomial tree.  Use: links, short messages, any n.
 *
 *   root = 0, n = 8        round 0: 0->4      round 1: 0->2 4->6      round 2: 0->1 2->3 4->5 6->7
 * Place p = rank - root receives from p without its lowest set bit, then sends to p + each smaller bit, the farthest first.
 *
 * Cost   ceil(log2 n)(alpha + S beta) until the last rank has it.     Needs  links.
 * Paper  Johnsson and Ho, IEEE Transactions on Computers 38(9), 1989, doi:10.1109/12.29465 */
#include "coll/algorithm.h"

/* The bit by which `place` hangs below its parent; for the root the first power of two that is no place. */
static int own_bit(int place, int n)
{
    int bit = 1;
    while (bit < n && (place & bit) == 0)
        bit *= 2;
    return bit;
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    if (n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    const int place = (rank - call->root + n) % n, bit = own_bit(place, n);
    const tdmi_range data = tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count), nothing = tdmi_range_of(TDMI_BUFFER_OUT, 0, 0);
    if (place > 0)
        tdmi_steps_exchange(s, -1, nothing, (place - bit + call->root) % n, data);
    for (int child = bit / 2; child > 0; child /= 2)
        if (place + child < n)
            tdmi_steps_exchange(s, (place + child + call->root) % n, data, -1, nothing);
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return coll == TDMI_COLL_BROADCAST && !uneven;
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    const int place = (rank - call->root + n) % n;
    size_t children = 0;
    for (int child = own_bit(place, n) / 2; child > 0; child /= 2)
        children += place + child < n ? 1 : 0;
    return (tdmi_traffic){children, children * call->count};
}

const tdmi_algorithm tdmi_binomial = {
    .name = "binomial", .needs = TDMI_NEEDS_LINKS, .supports = supports, .steps = steps, .cost = cost};
