/* linear.c - the root talks to every other rank itself.  Use: gather and scatter of long or uneven parts over links.
 *
 *     gather, n = 4, root 1     0 --> 1     2 --> 1     3 --> 1        scatter: the same arrows, turned round
 * Every part goes once over one link, which for long parts no tree can do with fewer bytes; and where parts are uneven only the
 * root and the rank of a part know how long it is.
 *
 * Cost   root (n-1) alpha + (n-1)/n S beta; the others alpha + S/n beta.     Needs  links to the root.
 * Paper  Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521 (what trees are compared with) */
#include "coll/algorithm.h"

static const tdmi_range nothing = {.buffer = TDMI_BUFFER_OUT, .first = 0, .count = 0};

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n, root = call->root;
    const bool gathers = call->coll == TDMI_COLL_GATHER;
    if (n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    if (rank != root && gathers)
        tdmi_steps_exchange(s, root, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count), -1, nothing);
    else if (rank != root)
        tdmi_steps_exchange(s, -1, nothing, root, tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count));
    if (rank != root)
        return;
    tdmi_range in = tdmi_call_in_part(call, rank);
    in.count = call->count; /* of an uneven part the root may say two lengths, which must be equal */
    tdmi_steps_copy(s, in, tdmi_range_of(TDMI_BUFFER_OUT, tdmi_call_out_part(call, rank).first, in.count));
    for (int k = 1; k < n; k++) {
        const int peer = (root + k) % n;
        if (gathers)
            tdmi_steps_exchange(s, -1, nothing, peer, tdmi_call_out_part(call, peer));
        else
            tdmi_steps_exchange(s, peer, tdmi_call_in_part(call, peer), -1, nothing);
    }
}

static bool supports(tdmi_coll coll, bool uneven)
{
    (void)uneven;
    return coll == TDMI_COLL_GATHER || coll == TDMI_COLL_SCATTER;
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const int rank = topology->rank, n = topology->n;
    if (n == 1)
        return (tdmi_traffic){0, 0};
    if (call->coll == TDMI_COLL_GATHER)
        return rank == call->root ? (tdmi_traffic){0, 0} : (tdmi_traffic){1, call->count};
    if (rank != call->root)
        return (tdmi_traffic){0, 0};
    return (tdmi_traffic){(size_t)n - 1, tdmi_call_in_count(call, rank, n) - tdmi_call_in_part(call, rank).count};
}

const tdmi_algorithm tdmi_linear_parts = {
    .name = "linear", .needs = TDMI_NEEDS_LINKS, .supports = supports, .steps = steps, .cost = cost};
