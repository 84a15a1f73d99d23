/* order.c - the shortest ring through the ranks, by links' times. */
#include "coll/order.h"

#include "coll/algorithm.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

#define EXACT_MAX 8
#define TURNS_MAX 32 /* ranks of a group for which the tree's place in the ring is looked for */

typedef struct costs {
    const double *pair; /* rounded */
    int n;
} costs;

static double between(const costs *c, int a, int b)
{
    return c->pair[a * c->n + b];
}

/* Powers of four of the fastest: 1 to 2 times it is 1, up to 8 times 4, ... */
static void round_off(const double *pair_ns, int n, double *out)
{
    double least = INFINITY;
    for (int i = 0; i < n * n; i++)
        if (i / n != i % n && pair_ns[i] > 0 && pair_ns[i] < least)
            least = pair_ns[i];
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            const double ns = pair_ns[a * n + b] > pair_ns[b * n + a] ? pair_ns[a * n + b] : pair_ns[b * n + a];
            out[a * n + b] = ns <= least || !isfinite(least) ? 1 : pow(4, floor(log2(ns / least) / 2 + 0.5));
        }
}

static double length_of(const costs *c, const int *ring)
{
    double sum = 0;
    for (int i = 0; i < c->n; i++)
        sum += between(c, ring[i], ring[(i + 1) % c->n]);
    return sum;
}

/* Every ring that begins with ring[0 .. at - 1]; keeps the shortest. */
static void try_all(const costs *c, int *ring, int at, double length, int *best, double *best_length)
{
    if (length >= *best_length)
        return;
    if (at == c->n) {
        length += between(c, ring[c->n - 1], ring[0]);
        if (length < *best_length) {
            *best_length = length;
            memcpy(best, ring, (size_t)c->n * sizeof *best);
        }
        return;
    }
    for (int i = at; i < c->n; i++) {
        const int next = ring[i];
        ring[i] = ring[at];
        ring[at] = next;
        try_all(c, ring, at + 1, length + between(c, ring[at - 1], next), best, best_length);
        ring[at] = ring[i];
        ring[i] = next;
    }
}

static void nearest(const costs *c, int *ring)
{
    for (int at = 1; at < c->n; at++) {
        int best = at;
        for (int i = at + 1; i < c->n; i++)
            if (between(c, ring[at - 1], ring[i]) < between(c, ring[at - 1], ring[best]))
                best = i;
        const int next = ring[best];
        memmove(&ring[at + 1], &ring[at], (size_t)(best - at) * sizeof *ring); /* the others keep their order */
        ring[at] = next;
    }
}

/* Turns parts of the ring round while that makes it shorter. */
static void untangle(const costs *c, int *ring)
{
    const int n = c->n;
    for (bool shorter = true; shorter;) {
        shorter = false;
        for (int i = 0; i < n - 2; i++)
            for (int j = i + 2; j < n - (i == 0); j++) {
                const int a = ring[i], b = ring[i + 1], d = ring[j], e = ring[(j + 1) % n];
                if (between(c, a, d) + between(c, b, e) >= between(c, a, b) + between(c, d, e))
                    continue;
                for (int low = i + 1, high = j; low < high; low++, high--) {
                    const int kept = ring[low];
                    ring[low] = ring[high];
                    ring[high] = kept;
                }
                shorter = true;
            }
    }
}

/* What the links of the double tree over this order cost together. */
static double tree_cost(const costs *c, const int *order)
{
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 2};
    tdmi_steps list = {0};
    double sum = 0;
    for (int rank = 0; rank < c->n; rank++) {
        tdmi_steps_clear(&list);
        tdmi_tree.steps(&list, &call, &(tdmi_topology){.rank = rank, .n = c->n, .order = order});
        for (size_t i = 0; i < list.count; i++)
            if ((list.step[i].kind == TDMI_STEP_EXCHANGE || list.step[i].kind == TDMI_STEP_EXCHANGE_REDUCE) && list.step[i].to >= 0)
                sum += between(c, rank, list.step[i].to);
    }
    tdmi_steps_free(&list);
    return sum;
}

static void turn(const costs *c, int *ring)
{
    int turned[TURNS_MAX], best = 0;
    double best_cost = INFINITY;
    if (c->n > TURNS_MAX)
        return;
    for (int by = 0; by < c->n; by++) {
        for (int i = 0; i < c->n; i++)
            turned[i] = ring[(i + by) % c->n];
        const double cost = tree_cost(c, turned);
        if (cost < best_cost) {
            best_cost = cost;
            best = by;
        }
    }
    for (int i = 0; i < c->n; i++)
        turned[i] = ring[(i + best) % c->n];
    memcpy(ring, turned, (size_t)c->n * sizeof *ring);
}

void tdmi_order_find(const double *pair_ns, int n, int *order)
{
    double *rounded = tdmi_calloc((size_t)n * (size_t)n, sizeof *rounded, "coll order");
    const costs c = {rounded, n};
    for (int i = 0; i < n; i++)
        order[i] = i;
    if (rounded == NULL)
        return; /* as good as nothing known */
    round_off(pair_ns, n, rounded);
    if (n > 3 && n <= EXACT_MAX) {
        int ring[EXACT_MAX], best[EXACT_MAX];
        double best_length = length_of(&c, order);
        memcpy(ring, order, (size_t)n * sizeof *ring);
        memcpy(best, order, (size_t)n * sizeof *best);
        try_all(&c, ring, 1, 0, best, &best_length);
        memcpy(order, best, (size_t)n * sizeof *order);
    } else if (n > 3) {
        nearest(&c, order);
        untangle(&c, order);
    }
    turn(&c, order);
    tdmi_free(rounded);
}
