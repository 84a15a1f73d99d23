/* cheapest.c - the cost model: what a call takes by each algorithm over links, from its step lists and what a message, a
 * byte and a sum cost.
 *
 * Where a node has several ranks they share its link: what all of them send, or receive, goes over it at beta a byte, behind the
 * messages that the busiest rank waits for. Between ranks of one node a byte costs two sums' worth of memory traffic. */
#include "coll/algorithm.h"
#include "coll/choice.h"

#include <math.h>

#define RANKS_LOOKED_AT 16 /* of a large group; the longest of them counts */
#define NEAR_NS 1000       /* a message to a rank of the same node, a meeting */
#define ENOUGH_BYTES ((size_t)16 << 20)

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

/* ---- nodes of several ranks ---- */

typedef struct load {
    double wait, work;     /* of a rank: for messages, with sums of what they bring; what it moves and sums inside the node */
    double sent, received; /* time on the node's link */
    double pieces;         /* of which one is worked on while another is under way */
} load;

static load load_of(const tdmi_steps *list, const tdmi_call *call, const tdmi_topology *topology, const tdmi_costs *costs)
{
    const double narrow = (double)tdm_dtype_size(call->dtype), wide = (double)tdm_dtype_size(tdmi_call_acc_dtype(call));
    load l = {0};
    for (size_t i = 0; i < list->count; i++) {
        const tdmi_step *step = &list->step[i];
        const double sent = (double)step->src.count * (step->src.buffer == TDMI_BUFFER_ACC ? wide : narrow);
        const double received = (double)step->dst.count * (step->dst.buffer == TDMI_BUFFER_ACC ? wide : narrow);
        l.pieces += step->kind == TDMI_STEP_AWAIT ? 1 : 0;
        if (step->kind == TDMI_STEP_EXCHANGE || step->kind == TDMI_STEP_EXCHANGE_REDUCE) {
            const bool near_to = step->to >= 0 && topology->node[step->to] == topology->node[topology->rank];
            const bool near_from = step->from >= 0 && topology->node[step->from] == topology->node[topology->rank];
            const bool near = (step->to < 0 || near_to) && (step->from < 0 || near_from);
            l.wait += near ? NEAR_NS : costs->alpha;
            l.wait += step->kind == TDMI_STEP_EXCHANGE_REDUCE ? received * costs->gamma : 0;
            l.work += ((near_to ? sent : 0) + (near_from ? received : 0)) * costs->gamma;
            l.sent += step->to < 0 || near_to ? 0 : sent * beta_of(topology, step->to, costs);
            l.received += step->from < 0 || near_from ? 0 : received * beta_of(topology, step->from, costs);
        } else if (step->kind == TDMI_STEP_MEET) {
            l.work += NEAR_NS;
        } else {
            *(step->background ? &l.wait : &l.work) += sent * costs->gamma;
        }
    }
    return l;
}

static double of_node(const tdmi_algorithm *algorithm, const tdmi_call *call, const tdmi_topology *topology, const tdmi_costs *costs)
{
    const int node = topology->node[call->root > 0 ? call->root : 0]; /* the root's, else one as good as any */
    tdmi_steps list = {0};
    load all = {0};
    for (int rank = 0; rank < topology->n; rank++) {
        if (topology->node[rank] != node)
            continue;
        tdmi_topology view = *topology;
        view.rank = rank;
        tdmi_steps_clear(&list);
        algorithm->steps(&list, call, &view);
        const load one = load_of(&list, call, &view, costs);
        all.wait = fmax(all.wait, one.wait);
        all.work = fmax(all.work, one.work);
        all.sent += one.sent;
        all.received += one.received;
        all.pieces = fmax(all.pieces, one.pieces);
    }
    tdmi_steps_free(&list);
    const double link = all.wait + fmax(all.sent, all.received);
    return fmax(link, all.work) + fmin(link, all.work) / fmax(all.pieces, 1);
}

/* Time grows with the bytes beyond some: no need for longer lists. */
static double over_nodes(const tdmi_algorithm *algorithm, const tdmi_call *call, const tdmi_topology *topology, const tdmi_costs *costs)
{
    tdmi_call part = *call;
    const size_t nbytes = tdmi_call_bytes(call, topology->n);
    if (nbytes <= ENOUGH_BYTES)
        return of_node(algorithm, call, topology, costs);
    part.count = call->count / (nbytes / ENOUGH_BYTES);
    return of_node(algorithm, &part, topology, costs) * ((double)call->count / (double)part.count);
}

static bool has_two_levels(const tdmi_topology *topology)
{
    const int nodes = tdmi_topology_nodes(topology);
    return nodes > 1 && nodes < topology->n;
}

double tdmi_time_ns(const tdmi_algorithm *algorithm, const tdmi_call *call, const tdmi_topology *topology, const tdmi_costs *costs)
{
    if (has_two_levels(topology))
        return over_nodes(algorithm, call, topology, costs);
    return algorithm->time != NULL && topology->pair_ns == NULL ? algorithm->time(call, topology, costs)
                                                                : counted(algorithm, call, topology, costs);
}

const tdmi_algorithm *tdmi_cheapest(const tdmi_call *call, const tdmi_topology *topology, unsigned reach, bool any_order,
                                    const tdmi_costs *costs, double *ns_out)
{
    const tdmi_algorithm *best = NULL;
    const bool fixed = !any_order && tdmi_depends_on_order(call, topology->n);
    for (size_t i = 0; i < tdmi_algorithm_count; i++) {
        const tdmi_algorithm *a = tdmi_algorithms[i];
        if ((a->needs & ~(reach & (TDMI_NEEDS_LINKS | TDMI_NEEDS_NODE))) != 0 || a->is_baseline || (a->reorders && fixed) || !a->supports(call->coll, call->uneven))
            continue;
        const double ns = tdmi_time_ns(a, call, topology, costs);
        if (best == NULL || ns < *ns_out) {
            best = a;
            *ns_out = ns;
        }
    }
    return best;
}
