/* near.c - orders of peers. While one rank works in the memory of one peer, the others should work elsewhere: nodes go round, caches
 * of a node go round, ranks of a cache go round, and each rank starts at its own place in each of these rounds. Where all are of equal size
 * no two ranks are ever at the same peer if all go equally fast.
 *
 *     caches {0 1} {2 3}    rank 0: 0 1 2 3    rank 1: 1 0 3 2    rank 2: 2 3 0 1    rank 3: 3 2 1 0 */
#include "coll/near.h"

enum { RANK, CACHE, NODE, ALL };

static bool together(const tdmi_domain *domain, int a, int b, int in)
{
    switch (in) {
    case RANK: return a == b;
    case CACHE: return domain[a].node == domain[b].node && domain[a].cache == domain[b].cache;
    case NODE: return domain[a].node == domain[b].node;
    default: return true;
    }
}

/* The lowest rank of each cache of a node, or of what else is one level below `in`: of what `of` is in. Returns how many there are. */
static int parts(const tdmi_topology *topology, int in, int of, int *lowest)
{
    const tdmi_domain *domain = topology->domain;
    int count = 0;
    for (int r = 0; r < topology->n; r++) {
        bool is_new = together(domain, of, r, in);
        for (int i = 0; is_new && i < count; i++)
            is_new = !together(domain, lowest[i], r, in - 1);
        if (is_new)
            lowest[count++] = r;
    }
    return count;
}

/* Appends the ranks of what `of` is in; returns how many there are now. */
static int append(const tdmi_topology *topology, int in, int of, int *order, int found)
{
    if (in == RANK) {
        order[found] = of;
        return found + 1;
    }
    int lowest[topology->n], own[topology->n], start = 0;
    const int count = parts(topology, in, of, lowest);
    (void)parts(topology, in, topology->rank, own);
    while (!together(topology->domain, own[start], topology->rank, in - 1)) /* this rank's place in such a round */
        start++;
    for (int i = 0; i < count; i++)
        found = append(topology, in - 1, lowest[(start + i) % count], order, found);
    return found;
}

void tdmi_near_first(const tdmi_topology *topology, int *order)
{
    if (topology->domain != NULL)
        (void)append(topology, ALL, topology->rank, order, 0);
    for (int k = 0; topology->domain == NULL && k < topology->n; k++)
        order[k] = (topology->rank + k) % topology->n;
}
