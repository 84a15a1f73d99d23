/* cheapest.c - the cost model: what a call takes by each algorithm over links, from its step lists and what a message, a
 * byte and a sum cost. */
#include "coll/algorithm.h"
#include "coll/choice.h"

#include <math.h>

#define RANKS_LOOKED_AT 16 /* of a large group; the longest of them counts */

/* A byte between this rank and a peer. */
static double beta_of(const tdmi_topology *topology, int peer, const tdmi_costs *costs)
{
    return topology->pair_ns == NULL ? costs->beta : topology->pair_ns[topology->rank * topology->n + peer];
}

/* One after the other, what a rank exchanges, the longer of both directions, and what it sums. */
static double of_steps(const tdmi_steps *list, const tdmi_call *call, const tdmi_topology *topology, const tdmi_costs *costs)
{
    const double narrow = (double)tdm_dtype_size(call->dtype), wide = (double)tdm_dtype_size(tdmi_accumulate_dtype(call->dtype, call->op));
    double ns = 0;
    for (size_t i = 0; i < list->count; i++) {
        const tdmi_step *step = &list->step[i];
        const double sent = step->to < 0 ? 0 : (double)step->src.count * (step->src.buffer == TDMI_BUFFER_ACC ? wide : narrow);
        const double received = step->from < 0 ? 0 : (double)step->dst.count * (step->dst.buffer == TDMI_BUFFER_ACC ? wide : narrow);
        if (step->kind == TDMI_STEP_EXCHANGE || step->kind == TDMI_STEP_EXCHANGE_REDUCE)
            ns += costs->alpha + fmax(step->to < 0 ? 0 : sent * beta_of(topology, step->to, costs),
                                      step->from < 0 ? 0 : received * beta_of(topology, step->from, costs));
        if (step->kind == TDMI_STEP_EXCHANGE_REDUCE)
            ns += received * costs->gamma;
        if (step->kind == TDMI_STEP_REDUCE)
            ns += (double)step->src.count * wide * costs->gamma;
    }
    return ns;
}

/* The longest of the ranks. */
static double counted(const tdmi_algorithm *algorithm, const tdmi_call *call, const tdmi_topology *topology, const tdmi_costs *costs)
{
    const int n = topology->n, step = n > RANKS_LOOKED_AT ? n / RANKS_LOOKED_AT : 1, first = call->root > 0 ? call->root % step : 0;
    tdmi_steps list = {0};
    double longest = 0;
    for (int rank = first; rank < n; rank += step) { /* the root is one of them */
        tdmi_topology view = *topology;
        view.rank = rank;
        tdmi_steps_clear(&list);
        algorithm->steps(&list, call, &view);
        const double ns = of_steps(&list, call, &view, costs);
        longest = ns > longest ? ns : longest;
    }
    tdmi_steps_free(&list);
    return longest;
}

double tdmi_time_ns(const tdmi_algorithm *algorithm, const tdmi_call *call, const tdmi_topology *topology, const tdmi_costs *costs)
{
    return algorithm->time != NULL && topology->pair_ns == NULL ? algorithm->time(call, topology, costs) : counted(algorithm, call, topology, costs);
}

const tdmi_algorithm *tdmi_cheapest(const tdmi_call *call, const tdmi_topology *topology, bool any_order, const tdmi_costs *costs,
                                    double *ns_out)
{
    const tdmi_algorithm *best = NULL;
    const bool fixed = !any_order && tdmi_depends_on_order(call, topology->n);
    for (size_t i = 0; i < tdmi_algorithm_count; i++) {
        const tdmi_algorithm *a = tdmi_algorithms[i];
        if (a->needs != TDMI_NEEDS_LINKS || a->is_baseline || (a->reorders && fixed) || !a->supports(call->coll, call->uneven))
            continue;
        const double ns = tdmi_time_ns(a, call, topology, costs);
        if (best == NULL || ns < *ns_out) {
            best = a;
            *ns_out = ns;
        }
    }
    return best;
}
