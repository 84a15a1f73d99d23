/* pairs.c - how fast the link of each pair of ranks is, and the order for rings and trees that follows from it.
 *
 * Only where sums may be reordered (TANDEM_SUM_ORDER=fast) and several nodes are joined by links. When the group is made its ranks
 * meet in pairs, as in a tournament: in each round everyone has one partner. A pair sends 128 KiB, which empties what a token bucket
 * lets pass at once, then 64 KiB against the clock. Rank 0 gets all times through the store and gives back times and order. */
#include "group/group.h"

#include "coll/order.h"
#include "core/clock.h"
#include "core/memory.h"
#include "group/probe.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMED_BYTES (TDMI_PROBE_BYTES / 2)
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
    tdm_status status;
    if (group->rank > peer) {
        status = tdmi_probe_answer(link, block, TDMI_PROBE_BYTES, deadline_ns);
        return status == TDM_OK ? tdmi_probe_answer(link, block, TIMED_BYTES, deadline_ns) : status;
    }
    double ns = 0;
    status = tdmi_probe_ping(link, block, TDMI_PROBE_BYTES, 1, INT64_MAX, deadline_ns, &ns);
    if (status == TDM_OK)
        status = tdmi_probe_ping(link, block, TIMED_BYTES, 1, INT64_MAX, deadline_ns, &ns);
    *ns_out = ns / (double)TIMED_BYTES;
    return status;
}

/* own[r]: nanoseconds a byte to rank r, where this rank is the lower of the two; else 0. */
static tdm_status time_all(tdm_group *group, int64_t deadline_ns, double *own)
{
    const int n = group->size, m = n + n % 2;
    char *block = tdmi_calloc(TDMI_PROBE_BYTES, 1, "link probe");
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

static tdm_status use_order(tdm_group *group, const double *numbers)
{
    const int n = group->size;
    bool seen[n];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < n; i++) {
        const double rank = numbers[n * n + i];
        if (!(rank >= 0 && rank < n) || seen[(int)rank])
            return tdmi_fail(TDM_ERR_MISMATCH, "group %s: the order of ranks is damaged", group->name);
        group->order[i] = (int)rank;
        seen[(int)rank] = true;
    }
    return TDM_OK;
}

tdm_status tdmi_group_order(tdm_group *group, int64_t deadline_ns)
{
    const int n = group->size, count = n * n + n;
    double own[n];
    memset(own, 0, sizeof own);
    group->order = tdmi_calloc((size_t)n, sizeof *group->order, "group");
    group->pair_ns = tdmi_calloc((size_t)count, sizeof *group->pair_ns, "group"); /* and the order behind */
    if (group->order == NULL || group->pair_ns == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status status = time_all(group, deadline_ns, own);
    if (status == TDM_OK)
        status = set_numbers(group, "pairs", group->rank, own, n);
    for (int r = 0; r < n && status == TDM_OK && group->rank == 0; r++)
        status = get_numbers(group, "pairs", r, deadline_ns, group->pair_ns + r * n, n);
    if (status == TDM_OK && group->rank == 0) {
        double *pair = group->pair_ns;
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++)
                pair[b * n + a] = pair[a * n + b];
        tdmi_order_find(pair, n, group->order);
        for (int i = 0; i < n; i++)
            pair[n * n + i] = group->order[i];
        status = set_numbers(group, "order", 0, pair, count);
    }
    if (status == TDM_OK) /* rank 0 too: the same digits for all */
        status = get_numbers(group, "order", 0, deadline_ns, group->pair_ns, count);
    return status == TDM_OK ? use_order(group, group->pair_ns) : status;
}
