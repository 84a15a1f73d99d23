/* dissemination.c - barrier: in round k every rank tells rank + 2^k and hears from rank - 2^k.  Use: links, any n.
 *
 *   n = 5    round 0: r -> r+1    round 1: r -> r+2    round 2: r -> r+4     after it each rank has heard of all others
 * Cost   ceil(log2 n) alpha.     Needs  links; the token is one byte of ACC.
 * Paper  Hensgen, Finkel and Manber, International Journal of Parallel Programming 17(1), 1988, doi:10.1007/BF01379320 */
#include "coll/algorithm.h"

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    (void)call;
    s->acc_count = n > 1 ? 2 : 0;
    for (int distance = 1; distance < n; distance *= 2)
        tdmi_steps_exchange(s, (rank + distance) % n, tdmi_range_of(TDMI_BUFFER_ACC, 0, 1), (rank + n - distance) % n,
                            tdmi_range_of(TDMI_BUFFER_ACC, 1, 1));
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return coll == TDMI_COLL_BARRIER && !uneven;
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const int n = topology->n;
    (void)call;
    tdmi_traffic t = {0, 0};
    for (int distance = 1; distance < n; distance *= 2)
        t.messages++, t.elements_sent++;
    return t;
}

const tdmi_algorithm tdmi_dissemination = {
    .name = "dissemination", .needs = TDMI_NEEDS_LINKS, .supports = supports, .steps = steps, .cost = cost};
