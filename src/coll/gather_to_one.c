/* gather_to_one.c - gather at rank 0, sum there, broadcast.  Use: a baseline, what data-parallel training by threads moves.
 *
 *   rank 0   a b c d   (a+b)+(c+d)   all inputs come to rank 0 and lie there side by side; it sums them in the tree; then the
 *   rank 1   b                        total goes down a binomial tree, 0->2, 0->1 2->3
 *   ...
 * Cost   (n-1)(alpha + S beta) + (n-1) S gamma, all of it at rank 0, then log2(n) (alpha + S beta).
 * Sums   canonical tree.     Needs  links; scratch of n S at rank 0.
 * Source torch.nn.DataParallel: gradients are added up on the first device, weights copied from it */
#include "coll/algorithm.h"

static tdmi_range input(size_t count, int rank)
{
    return tdmi_range_of(TDMI_BUFFER_ACC, (size_t)rank * count, count);
}

static void sum(tdmi_steps *s, const tdmi_call *call, int n)
{
    s->acc_count = (size_t)n * call->count;
    tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, call->count), input(call->count, 0));
    for (int rank = 1; rank < n; rank++)
        tdmi_steps_exchange(s, -1, tdmi_range_of(TDMI_BUFFER_OUT, 0, 0), rank, input(call->count, rank));
    for (int distance = 1; distance < n; distance *= 2)
        for (int rank = 0; rank + distance < n; rank += 2 * distance)
            tdmi_steps_reduce(s, input(call->count, rank + distance), input(call->count, rank), false);
    tdmi_steps_finish(s, call, input(call->count, 0), tdmi_range_of(TDMI_BUFFER_OUT, 0, call->count));
}

static tdmi_call broadcast_of(const tdmi_call *call)
{
    return (tdmi_call){.coll = TDMI_COLL_BROADCAST, .dtype = call->dtype, .op = TDM_SUM, .root = 0, .count = call->count};
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const size_t count = call->count;
    if (topology->n == 1) {
        tdmi_steps_alone(s, call);
        return;
    }
    if (topology->rank == 0) {
        sum(s, call, topology->n);
    } else {
        const tdmi_buffer from = tdmi_widens(call) ? TDMI_BUFFER_ACC : TDMI_BUFFER_IN;
        s->acc_count = from == TDMI_BUFFER_ACC ? count : 0;
        if (from == TDMI_BUFFER_ACC)
            tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, count), tdmi_range_of(from, 0, count));
        tdmi_steps_exchange(s, 0, tdmi_range_of(from, 0, count), -1, tdmi_range_of(TDMI_BUFFER_OUT, 0, 0));
    }
    const tdmi_call down = broadcast_of(call);
    tdmi_binomial.steps(s, &down, topology);
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return coll == TDMI_COLL_ALLREDUCE && !uneven;
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const size_t sends = topology->rank > 0 ? 1 : 0;
    const tdmi_call down = broadcast_of(call);
    return tdmi_traffic_sum((tdmi_traffic){sends, sends * call->count}, tdmi_binomial.cost(&down, topology));
}

const tdmi_algorithm tdmi_gather_to_one = {
    .name = "gather_to_one", .needs = TDMI_NEEDS_LINKS, .is_baseline = true, .supports = supports, .steps = steps, .cost = cost};
