/* parameter_server.c - everyone pushes to rank 0, which sums and is pulled from.  Use: a baseline, to see what others win.
 *
 *   rank 0   a          a   b   (a+b)   c   (a+b)+c       rank r sends its data, rank 0 takes them one by one and adds up what
 *   rank 1   b ---------'   |           |                 is complete in the tree, then sends the total to one rank after the
 *   rank 2   c -------------------------'                 other
 *
 * Cost   2(n-1) (alpha + S beta) + (n-1) S gamma, all of it at rank 0.
 * Sums   canonical tree.     Needs  links; scratch of log2(n) S at rank 0.
 * Paper  Li et al., OSDI 2014 (parameter server), with one server */
#include "coll/algorithm.h"

/* Slots of ACC, one for each level of the tree that waits for its right half. */
static tdmi_range slot(size_t count, int i)
{
    return tdmi_range_of(TDMI_BUFFER_ACC, (size_t)i * count, count);
}

/* A binary counter says which nodes of the tree are complete and meet; what is left meets from the right: A + (B + C). */
static void serve(tdmi_steps *s, const tdmi_call *call, int n)
{
    const size_t count = call->count;
    const tdmi_range nothing = tdmi_range_of(TDMI_BUFFER_OUT, 0, 0);
    int top = 0, most = 0;
    for (int rank = 0; rank < n; rank++) {
        const tdmi_range in = tdmi_range_of(TDMI_BUFFER_IN, 0, count);
        if (rank == 0)
            tdmi_steps_copy(s, in, slot(count, top++));
        else if (rank % 2 == 1)
            tdmi_steps_exchange_reduce(s, -1, nothing, rank, slot(count, top - 1), false);
        else
            tdmi_steps_exchange(s, -1, nothing, rank, slot(count, top++));
        most = top > most ? top : most;
        for (int nodes = (rank + 1) / 2; rank % 2 == 1 && nodes % 2 == 0; nodes /= 2, top--)
            tdmi_steps_reduce(s, slot(count, top - 1), slot(count, top - 2), false);
    }
    for (; top > 1; top--)
        tdmi_steps_reduce(s, slot(count, top - 1), slot(count, top - 2), false);
    s->acc_count = (size_t)most * count;
    tdmi_steps_finish(s, call, slot(count, 0), tdmi_range_of(TDMI_BUFFER_OUT, 0, count));
    for (int rank = 1; rank < n; rank++)
        tdmi_steps_exchange(s, rank, tdmi_range_of(TDMI_BUFFER_OUT, 0, count), -1, nothing);
}

static void steps(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology)
{
    const size_t count = call->count;
    const tdmi_range nothing = tdmi_range_of(TDMI_BUFFER_OUT, 0, 0);
    if (topology->n == 1) {
        tdmi_steps_alone(s, call);
    } else if (topology->rank == 0) {
        serve(s, call, topology->n);
    } else {
        const tdmi_buffer sums = tdmi_widens(call) ? TDMI_BUFFER_ACC : TDMI_BUFFER_IN;
        if (sums == TDMI_BUFFER_ACC) { /* leaves travel wide, as sums do */
            s->acc_count = count;
            tdmi_steps_copy(s, tdmi_range_of(TDMI_BUFFER_IN, 0, count), tdmi_range_of(sums, 0, count));
        }
        tdmi_steps_exchange(s, 0, tdmi_range_of(sums, 0, count), -1, nothing);
        tdmi_steps_exchange(s, -1, nothing, 0, tdmi_range_of(TDMI_BUFFER_OUT, 0, count));
    }
}

static bool supports(tdmi_coll coll, bool uneven)
{
    return coll == TDMI_COLL_ALLREDUCE && !uneven;
}

static tdmi_traffic cost(const tdmi_call *call, const tdmi_topology *topology)
{
    const size_t messages = topology->n == 1 ? 0 : topology->rank == 0 ? (size_t)topology->n - 1 : 1;
    return (tdmi_traffic){messages, messages * call->count};
}

const tdmi_algorithm tdmi_parameter_server = {
    .name = "parameter_server", .needs = TDMI_NEEDS_LINKS, .is_baseline = true, .supports = supports, .steps = steps, .cost = cost};
