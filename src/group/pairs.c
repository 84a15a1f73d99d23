/* pairs.c - how fast the link of each pair of ranks is, and the orders for rings, trees and halving-doubling that follow from it.
 *
 * Only where sums may be reordered (TANDEM_SUM_ORDER=fast) and several nodes are joined by links. When the group is made its ranks
 * meet in pairs, as in a tournament: in each round everyone has one partner. A pair sends 384 KiB against the clock, of which a token
 * bucket may let a third pass at once, and again while that is quick: the best counts, for a rank that got no processor looks like
 * a slow link. Rank 0 gets all times through the store and gives back times and orders. */
#include "group/group.h"

#include "coll/order.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/memory.h"
#include "group/probe.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMED_BYTES ((size_t)384 << 10)
#define TIMES 3
#define PAIR_NS (10 * TDMI_NS_PER_MS) /* no more begins after that */
#define NUMBER_BYTES 16 /* of a time as text, with a space */

/* The partner in a round of m - 1, m even; m - 1 stays where it is and the others go round. */
static int partner_of(int rank, int round, int m)
{
    if (rank == m - 1)
        return (int)((long)round * (m / 2) % (m - 1));
    const int other = ((round - rank) % (m - 1) + (m - 1)) % (m - 1);
    return other == rank ? m - 1 : other;
}

static tdm_status time_pair(tdm_group *group, int peer, char *block, int64_t deadline_ns, double *ns_out)
{
    tdmi_link *link = group->team.channel[peer]->link;
    if (group->rank > peer)
        return tdmi_probe_answer(link, block, TIMED_BYTES, deadline_ns);
    double ns = 0;
    tdm_status status = tdmi_probe_ping(link, block, TIMED_BYTES, TIMES, tdmi_now_ns() + PAIR_NS, deadline_ns, &ns);
    *ns_out = ns / (double)TIMED_BYTES;
    return status;
}

/* own[r]: nanoseconds a byte to rank r, where this rank is the lower of the two; else 0. */
static tdm_status time_all(tdm_group *group, int64_t deadline_ns, double *own)
{
    const int n = group->size, m = n + n % 2;
    char *block = tdmi_calloc(TIMED_BYTES, 1, "link probe");
    tdm_status status = block != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    for (int round = 0; round < m - 1 && status == TDM_OK; round++) {
        const int peer = partner_of(group->rank, round, m);
        if (peer >= n || group->is_local[peer])
            continue;
        status = time_pair(group, peer, block, deadline_ns, &own[peer]);
        if (status != TDM_OK)
            status = tdmi_fail_while(status, "measuring the link between ranks %d and %d of group %s", group->rank, peer, group->name);
    }
    tdmi_free(block);
    return status;
}

static tdm_status set_numbers(tdm_group *group, const char *what, int rank, const double *numbers, int count)
{
    char key[TDMI_STORE_KEY_MAX], *text = tdmi_calloc((size_t)count + 1, NUMBER_BYTES, "link times");
    size_t used = 0;
    if (text == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, NUMBER_BYTES, "%.6g ", numbers[i]);
    snprintf(key, sizeof key, "%s/%s/%d", group->prefix, what, rank);
    tdm_status status = tdmi_store_set(group->world->store, key, text, used);
    tdmi_free(text);
    return status;
}

static tdm_status get_numbers(tdm_group *group, const char *what, int rank, int64_t deadline_ns, double *numbers, int count)
{
    char key[TDMI_STORE_KEY_MAX], *text, *at;
    size_t nbytes;
    snprintf(key, sizeof key, "%s/%s/%d", group->prefix, what, rank);
    tdm_status status = tdmi_store_get(group->world->store, key, deadline_ns, &text, &nbytes);
    if (status != TDM_OK)
        return tdmi_fail_while(status, "waiting for the link times of rank %d of group %s", rank, group->name);
    at = text;
    for (int i = 0; i < count && status == TDM_OK; i++) {
        char *end;
        numbers[i] = strtod(at, &end);
        if (end == at)
            status = tdmi_fail(TDM_ERR_MISMATCH, "group %s: the link times of rank %d are damaged", group->name, rank);
        at = end;
    }
    tdmi_free(text);
    return status;
}

/* Between nodes the fastest of their ranks' links counts. */
static void between_nodes(const tdm_group *group, int nodes, double *cost_ns)
{
    const int n = group->size;
    memset(cost_ns, 0, (size_t)nodes * (size_t)nodes * sizeof *cost_ns);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            double *cost = &cost_ns[group->node[a] * nodes + group->node[b]];
            const double ns = group->pair_ns[a * n + b];
            if (group->node[a] != group->node[b] && (*cost == 0 || ns < *cost))
                *cost = ns;
        }
}

static void find_orders(const tdm_group *group, int nodes, double *out)
{
    const int n = group->size;
    double cost_ns[nodes * nodes];
    int order[n];
    between_nodes(group, nodes, cost_ns);
    for (int shape = 0; shape < TDMI_SHAPES; shape++) {
        tdmi_order_find(group->pair_ns, n, (tdmi_shape)shape, order);
        for (int i = 0; i < n; i++)
            out[shape * n + i] = order[i];
        tdmi_order_find(cost_ns, nodes, (tdmi_shape)shape, order);
        for (int i = 0; i < nodes; i++)
            out[TDMI_SHAPES * n + shape * nodes + i] = order[i];
    }
}

/* One order of n out of the numbers that came. */
static tdm_status use_order(const tdm_group *group, const double *numbers, int n, int *order)
{
    bool seen[n];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < n; i++) {
        if (!(numbers[i] >= 0 && numbers[i] < n) || seen[(int)numbers[i]])
            return tdmi_fail(TDM_ERR_MISMATCH, "group %s: the order of ranks is damaged", group->name);
        order[i] = (int)numbers[i];
        seen[order[i]] = true;
    }
    return TDM_OK;
}

static tdm_status use_orders(tdm_group *group, int nodes, const double *numbers)
{
    const int n = group->size, behind = TDMI_SHAPES * n;
    tdm_status status = TDM_OK;
    for (int shape = 0; shape < TDMI_SHAPES && status == TDM_OK; shape++) {
        status = use_order(group, numbers + shape * n, n, group->orders + shape * n);
        if (status == TDM_OK)
            status = use_order(group, numbers + behind + shape * nodes, nodes, group->orders + behind + shape * nodes);
    }
    return status;
}

static void log_orders(const tdm_group *group)
{
    static const char *const names[TDMI_SHAPES] = {"ring", "tree", "halving-doubling"};
    for (int a = 0; a < group->size; a++)
        for (int b = a + 1; b < group->size; b++)
            log_debug(TDM_LOG_GROUP, "group %s: %.3f ns a byte between ranks %d and %d", group->name, group->pair_ns[a * group->size + b], a, b);
    for (int shape = 0; shape < TDMI_SHAPES; shape++) {
        char text[TDMI_ORDER_RANKS_MAX * 4];
        for (int i = 0, used = 0; i < group->size; i++)
            used += snprintf(text + used, sizeof text - (size_t)used, " %d", group->orders[shape * group->size + i]);
        log_info(TDM_LOG_GROUP, "group %s: links were measured; ranks in the order of a %s:%s", group->name, names[shape], text);
    }
}

tdm_status tdmi_group_order(tdm_group *group, int64_t deadline_ns)
{
    const int n = group->size;
    int nodes = 1;
    for (int r = 0; r < n; r++)
        nodes = group->node[r] >= nodes ? group->node[r] + 1 : nodes;
    const int places = TDMI_SHAPES * (n + nodes), count = n * n + places;
    double own[n];
    memset(own, 0, sizeof own);
    group->orders = tdmi_calloc((size_t)places, sizeof *group->orders, "group");
    group->pair_ns = tdmi_calloc((size_t)count, sizeof *group->pair_ns, "group"); /* and the orders behind */
    if (group->orders == NULL || group->pair_ns == NULL)
        return TDM_ERR_NO_MEMORY;
    double *pair = group->pair_ns;
    tdm_status status = time_all(group, deadline_ns, own);
    if (status == TDM_OK)
        status = set_numbers(group, "pairs", group->rank, own, n);
    for (int r = 0; r < n && status == TDM_OK && group->rank == 0; r++)
        status = get_numbers(group, "pairs", r, deadline_ns, pair + r * n, n);
    if (status == TDM_OK && group->rank == 0) {
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++)
                pair[b * n + a] = pair[a * n + b];
        find_orders(group, nodes, pair + n * n);
        status = set_numbers(group, "order", 0, pair, count);
    }
    if (status == TDM_OK) /* rank 0 too: the same digits for all */
        status = get_numbers(group, "order", 0, deadline_ns, pair, count);
    if (status == TDM_OK)
        status = use_orders(group, nodes, pair + n * n);
    if (status == TDM_OK && group->rank == 0)
        log_orders(group);
    return status;
}
