/* select.c - which algorithm a call takes: the one the user forces (forced.c), else what was measured here (tuning.h),
 * else over links the cheapest by the cost model (cheapest.c), else the first of the table of defaults that can. */
#include "coll/algorithm.h"
#include "coll/tuning.h"

#include "core/config.h"

#include <tandem/collective.h>

#include <stdio.h>
#include <string.h>
#include <strings.h>

const tdmi_algorithm *const tdmi_algorithms[] = {
    &tdmi_direct,        &tdmi_direct_read,   &tdmi_direct_staged,
    &tdmi_eager,         &tdmi_halving_doubling, &tdmi_recursive_doubling, &tdmi_binomial,
    &tdmi_dissemination, &tdmi_ring,          &tdmi_ring2, &tdmi_tree,             &tdmi_gather_to_one,      &tdmi_parameter_server,
    &tdmi_hierarchical,  &tdmi_hierarchical_ring, &tdmi_hierarchical_ring2, &tdmi_hierarchical_tree,
    &tdmi_pairwise,      &tdmi_bruck,         &tdmi_linear_parts,
};
const size_t tdmi_algorithm_count = sizeof tdmi_algorithms / sizeof *tdmi_algorithms;

const char *tdm_algorithm_name(int index)
{
    return index >= 0 && (size_t)index < tdmi_algorithm_count ? tdmi_algorithms[index]->name : NULL;
}

#define READ "memory from malloc, all ranks read each other's: one copy instead of two"
/* The first line that fits and whose needs are met counts. Sizes of direct_read were measured against direct_staged; of an operation
 * whose parts may be uneven they hold TDMI_UNKNOWN_BYTES. */
static const tdmi_choice on_node[] = {
    {&tdmi_eager, TDMI_COLL_COUNT, 0, TDMI_EAGER_BYTES + 1, "short message on one node: it travels with the meeting"},
    {&tdmi_direct, TDMI_COLL_COUNT, 0, SIZE_MAX, "all ranks reach each other's buffers"},
};
static const tdmi_choice of_two[] = { /* whose staging is faster: direct_staged_pair.c */
    {&tdmi_direct_read, TDMI_COLL_ALL_GATHER, 32 << 10, 4 << 20, READ},
    {&tdmi_direct_read, TDMI_COLL_ALLTOALL, 64 << 10, 4 << 20, READ},
    {&tdmi_direct_read, TDMI_COLL_BROADCAST, 16 << 10, 1 << 20, READ},
    {&tdmi_direct_read, TDMI_COLL_GATHER, 64 << 10, (1 << 20) + 1, READ},
    {&tdmi_direct_read, TDMI_COLL_SCATTER, 32 << 10, 4 << 20, READ},
};
static const tdmi_choice of_more[] = {
    {&tdmi_direct_read, TDMI_COLL_REDUCE_SCATTER, 32 << 10, SIZE_MAX, READ},
    {&tdmi_direct_read, TDMI_COLL_ALL_GATHER, 32 << 10, SIZE_MAX, READ},
    {&tdmi_direct_read, TDMI_COLL_ALLTOALL, 32 << 10, SIZE_MAX, READ},
    {&tdmi_direct_read, TDMI_COLL_BROADCAST, 16 << 10, 512 << 10, READ},
    {&tdmi_direct_read, TDMI_COLL_GATHER, 16 << 10, SIZE_MAX, READ},
    {&tdmi_direct_read, TDMI_COLL_SCATTER, 16 << 10, SIZE_MAX, READ},
};
static const tdmi_choice otherwise[] = {
    {&tdmi_direct_staged, TDMI_COLL_COUNT, 0, SIZE_MAX, "all ranks are on one node"},
    {&tdmi_hierarchical, TDMI_COLL_COUNT, 0, SIZE_MAX, "several nodes: inside each first, so that links between them carry one copy"},
    {&tdmi_ring, TDMI_COLL_BROADCAST, (size_t)1 << 20, SIZE_MAX, "links, long message: a chain keeps all of them busy"},
    {&tdmi_recursive_doubling, TDMI_COLL_COUNT, 0, 16385, "links, short message: half the messages of halving-doubling"},
    {&tdmi_halving_doubling, TDMI_COLL_COUNT, 0, SIZE_MAX, "links: least bytes in few messages, canonical order"},
    {&tdmi_bruck, TDMI_COLL_ALLTOALL, 0, (size_t)8 << 10, "links, short message: few rounds"},
    {&tdmi_linear_parts, TDMI_COLL_GATHER, (size_t)64 << 10, SIZE_MAX, "links, long parts: each goes once"},
    {&tdmi_linear_parts, TDMI_COLL_SCATTER, (size_t)64 << 10, SIZE_MAX, "links, long parts: each goes once"},
    {&tdmi_pairwise, TDMI_COLL_ALLTOALL, 0, SIZE_MAX, "links: each part goes once"},
    {&tdmi_pairwise, TDMI_COLL_REDUCE, (size_t)64 << 10, SIZE_MAX, "links, long message: least bytes, canonical order"},
    {&tdmi_binomial, TDMI_COLL_COUNT, 0, SIZE_MAX, "links: few rounds"},
    {&tdmi_linear_parts, TDMI_COLL_COUNT, 0, SIZE_MAX, "links: only the root and one rank know a part"},
    {&tdmi_dissemination, TDMI_COLL_COUNT, 0, SIZE_MAX, "links: few rounds"},
};

bool tdmi_depends_on_order(const tdmi_call *call, int n)
{
    const bool whole = call->dtype != TDM_F32 && call->dtype != TDM_F64 && call->dtype != TDM_F16 && call->dtype != TDM_BF16 &&
                       call->dtype != TDM_C64;
    if (!tdmi_coll_reduces(call->coll) || n <= 2)
        return false;
    return tdmi_op_is_function(call->op) || (!whole && call->op != TDM_MIN && call->op != TDM_MAX);
}

const char *tdmi_algorithm_names(tdmi_coll coll, bool uneven, char text[TDMI_NAMES_MAX])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < tdmi_algorithm_count; i++) {
        const char *name = tdmi_algorithms[i]->name;
        if ((coll != TDMI_COLL_COUNT && !tdmi_algorithms[i]->supports(coll, uneven)) || used + strlen(name) + 3 > TDMI_NAMES_MAX)
            continue;
        if (used > 0) {
            memcpy(text + used, ", ", 3);
            used += 2;
        }
        memcpy(text + used, name, strlen(name) + 1);
        used += strlen(name);
    }
    return text;
}

const tdmi_algorithm *tdmi_algorithm_find(const char *name)
{
    for (size_t i = 0; i < tdmi_algorithm_count; i++)
        if (strcasecmp(name, tdmi_algorithms[i]->name) == 0)
            return tdmi_algorithms[i];
    return NULL;
}

bool tdmi_choice_fits(const tdmi_choice *e, const tdmi_call *call, size_t nbytes)
{
    return (e->coll == TDMI_COLL_COUNT || e->coll == call->coll) && e->algorithm->supports(call->coll, call->uneven) && nbytes >= e->min &&
           nbytes < e->max;
}

/* Over links partial sums that are wider than the data cost more than the messages that sending inputs as they are takes. */
static bool sends_inputs(const tdmi_call *call, int n, size_t nbytes)
{
    return n > 1 && tdmi_widens(call) && (call->coll == TDMI_COLL_ALLREDUCE || call->coll == TDMI_COLL_REDUCE_SCATTER) &&
           nbytes / (size_t)n >= (size_t)16 << 10;
}

static const char *missing(unsigned needs)
{
    if ((needs & TDMI_NEEDS_SHARED) != 0)
        return "every rank's buffers in shared memory of one node (tdm_alloc), and the transport not forced to tcp";
    if ((needs & TDMI_NEEDS_READ) != 0)
        return "all ranks on one node, able to read each other's memory (process_vm_readv), and TANDEM_CMA not off";
    if ((needs & (TDMI_NEEDS_STAGE | TDMI_NEEDS_SLOT)) != 0)
        return "all ranks on one node, and the transport not forced to tcp";
    if ((needs & TDMI_NEEDS_NODE) != 0)
        return "several nodes, one of them with more than one rank";
    return "links between the ranks";
}

int tdmi_topology_nodes(const tdmi_topology *topology)
{
    int nodes = 1;
    for (int r = 0; topology->node != NULL && r < topology->n; r++)
        nodes = topology->node[r] >= nodes ? topology->node[r] + 1 : nodes;
    return nodes;
}

/* Why the algorithm that is forced cannot be taken, or TDM_OK. */
static tdm_status check_forced(const tdmi_algorithm *choice, const tdmi_call *call, int n, unsigned reach, bool any_order)
{
    char names[TDMI_NAMES_MAX];
    const size_t nbytes = tdmi_call_bytes(call, n);
    if (n > 1 && (choice->needs & ~reach) != 0)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "%s over %d ranks: algorithm %s needs %s; %s has %s", tdmi_coll_name(call->coll),
                         n, choice->name, missing(choice->needs & ~reach), tdmi_coll_name(call->coll),
                         tdmi_algorithm_names(call->coll, call->uneven, names));
    if (choice->reorders && tdmi_depends_on_order(call, n) && !any_order)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "%s over %d ranks: algorithm %s adds in another order than the canonical tree, "
                         "so the %s of %s has other bits; allow that with TANDEM_SUM_ORDER=fast (--sum-order fast)",
                         tdmi_coll_name(call->coll), n, choice->name, tdm_op_name(call->op), tdm_dtype_name(call->dtype));
    if (choice->max_bytes != 0 && nbytes > choice->max_bytes)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "%s of %zu bytes: algorithm %s takes up to %zu; %s has %s",
                         tdmi_coll_name(call->coll), nbytes, choice->name, choice->max_bytes, tdmi_coll_name(call->coll),
                         tdmi_algorithm_names(call->coll, call->uneven, names));
    return TDM_OK;
}

/* What was measured for groups like this one, NULL if nothing was. */
static const tdmi_algorithm *measured(const tdmi_call *call, const tdmi_topology *topology, unsigned reach, bool any_order)
{
    const tdmi_tuning *tuning = topology->tuning;
    const size_t nbytes = tdmi_call_bytes(call, topology->n);
    char setting[TDMI_SETTING_MAX];
    if (tuning == NULL || tuning->best_count == 0 || topology->transport == NULL || topology->n == 1)
        return NULL;
    tdmi_tuning_setting(topology->n, tdmi_topology_nodes(topology), topology->transport,
                        (reach & TDMI_NEEDS_SHARED) != 0 ? "tandem" : "any", setting);
    for (size_t i = 0; i < tuning->best_count; i++) {
        const tdmi_algorithm *a = tuning->best[i].choice.algorithm;
        if (strcmp(tuning->best[i].setting, setting) == 0 && tdmi_choice_fits(&tuning->best[i].choice, call, nbytes) &&
            (a->needs & ~reach) == 0 && (a->max_bytes == 0 || nbytes <= a->max_bytes) &&
            (!a->reorders || any_order || !tdmi_depends_on_order(call, topology->n)))
            return a;
    }
    return NULL;
}

/* Over links whose costs are known what the model says. */
static const tdmi_algorithm *modelled(const tdmi_call *call, const tdmi_topology *topology, unsigned reach, bool any_order, char *why)
{
    const char *transport = topology->transport != NULL && strstr(topology->transport, "ucx") != NULL ? "ucx" : "tcp";
    const tdmi_costs *costs = topology->tuning != NULL ? tdmi_tuning_costs(topology->tuning, transport) : NULL;
    double ns = 0;
    if (costs == NULL || topology->n == 1 || call->uneven || (reach & TDMI_NEEDS_STAGE) != 0)
        return NULL;
    const tdmi_algorithm *best = tdmi_cheapest(call, topology, reach, any_order, costs, &ns);
    if (best != NULL)
        snprintf(why, TDMI_WHY_MAX, "cost model: %.1f us, the least, with %.1f us a message, %.3f ns a byte over %s", ns * 1e-3,
                 costs->alpha * 1e-3, costs->beta, transport);
    return best;
}

#define LINES(table) (table), sizeof(table) / sizeof *(table)
static const tdmi_choice *first_fit(const tdmi_choice *table, size_t lines, const tdmi_call *call, int n, unsigned reach)
{
    const size_t nbytes = tdmi_call_bytes(call, n);
    for (size_t i = 0; i < lines; i++)
        if (tdmi_choice_fits(&table[i], call, nbytes) && (n == 1 || (table[i].algorithm->needs & ~reach) == 0))
            return &table[i];
    return NULL;
}

static const tdmi_choice *by_default(const tdmi_call *call, int n, unsigned reach)
{
    const tdmi_choice *line = first_fit(LINES(on_node), call, n, reach);
    if (line == NULL)
        line = n == 2 ? first_fit(LINES(of_two), call, n, reach) : first_fit(LINES(of_more), call, n, reach);
    return line != NULL ? line : first_fit(LINES(otherwise), call, n, reach);
}

tdm_status tdmi_select(const tdmi_call *call, const tdmi_topology *topology, unsigned reach, const tdmi_algorithm **out, char *why)
{
    const int n = topology->n, nodes = tdmi_topology_nodes(topology);
    const char *order = tdmi_config_text(TDMI_CONFIG_SUM_ORDER);
    const bool any_order = strcmp(order, "fast") == 0;
    const size_t nbytes = tdmi_call_bytes(call, n);
    char reason[TDMI_WHY_MAX] = "forced by TANDEM_ALGO";
    const tdmi_algorithm *choice;
    if (nodes == 1 || nodes == n)
        reach &= ~TDMI_NEEDS_NODE; /* there are no two levels */
    if (strcmp(order, "canonical") != 0 && !any_order)
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_SUM_ORDER=%s is neither canonical nor fast", order);
    tdm_status st = tdmi_forced(call, n, &choice);
    if (st == TDM_OK && choice != NULL)
        st = check_forced(choice, call, n, reach, any_order);
    if (st != TDM_OK)
        return st;
    if (choice == NULL && (choice = measured(call, topology, reach, any_order)) != NULL)
        snprintf(reason, sizeof reason, "measured to be the fastest here (tandem tune --collectives)");
    if (choice == NULL)
        choice = modelled(call, topology, reach, any_order, reason);
    const tdmi_choice *line = choice == NULL ? by_default(call, n, reach) : NULL;
    if (line != NULL) {
        choice = line->algorithm;
        snprintf(reason, sizeof reason, "%s", n == 1 ? "the only rank: a copy" : line->why);
    }
    if (line != NULL && choice->needs == TDMI_NEEDS_LINKS && sends_inputs(call, n, nbytes)) {
        choice = &tdmi_pairwise;
        snprintf(reason, sizeof reason, "links, sums wider than the data: inputs travel in their own type");
    }
    if (choice == NULL)
        return tdmi_fail(TDM_ERR_INTERNAL, "%s over %d ranks: the group says it has neither links nor memory in common",
                         tdmi_coll_name(call->coll), n);
    *out = choice;
    if (why != NULL)
        memcpy(why, reason, TDMI_WHY_MAX);
    return TDM_OK;
}
