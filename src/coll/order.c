/* order.c - the order of ranks that moves the fewest bytes over slow links.
 *
 * What an allreduce of the shape moves between each two of its places is counted from its own step lists; an order costs the sum of
 * bytes times what the link between the ranks at those places costs. */
#include "coll/order.h"

#include "coll/algorithm.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

#define EXACT_MAX 8
#define COUNT_PER_PLACE 64 /* elements of the allreduce that is counted */

typedef struct search {
    int n;
    double *traffic; /* [n * n] elements between places, both ways */
    double *cost;    /* [n * n] of a byte between ranks, rounded */
    int *best;       /* [n] */
    double best_cost;
} search;

static double between(const search *s, int place, int rank, int other_place, int other_rank)
{
    return s->traffic[place * s->n + other_place] * s->cost[rank * s->n + other_rank];
}

/* Whole multiples of the fastest, up to 3 of which are as good as 1. Whether any link is slower. */
static bool round_off(const double *cost_ns, int n, double *out)
{
    double least = INFINITY, most = 1;
    for (int i = 0; i < n * n; i++)
        if (i / n != i % n && cost_ns[i] > 0 && cost_ns[i] < least)
            least = cost_ns[i];
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            const double ns = cost_ns[a * n + b] > cost_ns[b * n + a] ? cost_ns[a * n + b] : cost_ns[b * n + a];
            out[a * n + b] = ns < 3 * least || !isfinite(least) ? 1 : round(ns / least);
            most = out[a * n + b] > most ? out[a * n + b] : most;
        }
    return most > 1;
}

static tdm_status count_traffic(const search *s, tdmi_shape shape)
{
    static const tdmi_algorithm *const algorithms[TDMI_SHAPES] = {
        [TDMI_SHAPE_RING] = &tdmi_ring, [TDMI_SHAPE_TREE] = &tdmi_tree, [TDMI_SHAPE_DOUBLING] = &tdmi_halving_doubling};
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1,
                            .count = COUNT_PER_PLACE * (size_t)s->n};
    tdmi_steps list = {0};
    for (int place = 0; place < s->n; place++) {
        tdmi_steps_clear(&list);
        algorithms[shape]->steps(&list, &call, &(tdmi_topology){.rank = place, .n = s->n});
        for (size_t i = 0; i < list.count; i++) {
            const tdmi_step *step = &list.step[i];
            if ((step->kind != TDMI_STEP_EXCHANGE && step->kind != TDMI_STEP_EXCHANGE_REDUCE) || step->to < 0)
                continue;
            s->traffic[place * s->n + step->to] += (double)step->src.count;
            s->traffic[step->to * s->n + place] += (double)step->src.count;
        }
    }
    const tdm_status status = list.status;
    tdmi_steps_free(&list);
    return status;
}

static double cost_of(const search *s, const int *order)
{
    double sum = 0;
    for (int a = 0; a < s->n; a++)
        for (int b = a + 1; b < s->n; b++)
            sum += between(s, a, order[a], b, order[b]);
    return sum;
}

static void keep_if_best(search *s, const int *order, double cost)
{
    if (cost >= s->best_cost)
        return;
    s->best_cost = cost;
    memcpy(s->best, order, (size_t)s->n * sizeof *order);
}

static void swap(int *order, int a, int b)
{
    const int kept = order[a];
    order[a] = order[b];
    order[b] = kept;
}

/* Every order that begins with order[0 .. at - 1]. */
static void try_all(search *s, int *order, int at, double cost)
{
    if (cost >= s->best_cost)
        return;
    if (at == s->n)
        keep_if_best(s, order, cost);
    for (int i = at; i < s->n; i++) {
        double more = 0;
        swap(order, at, i);
        for (int placed = 0; placed < at; placed++)
            more += between(s, placed, order[placed], at, order[at]);
        try_all(s, order, at + 1, cost + more);
        swap(order, at, i);
    }
}

/* From a rank on always the nearest of the others, which keep their order. */
static void nearest(const search *s, int first, int *order)
{
    for (int i = 0; i < s->n; i++)
        order[i] = i;
    for (int at = 0, best = first; at < s->n; best = ++at) {
        for (int i = at + 1; at > 0 && i < s->n; i++)
            if (s->cost[order[at - 1] * s->n + order[i]] < s->cost[order[at - 1] * s->n + order[best]])
                best = i;
        const int next = order[best];
        memmove(&order[at + 1], &order[at], (size_t)(best - at) * sizeof *order);
        order[at] = next;
    }
}

static void reverse(int *order, int low, int high)
{
    for (; low < high; low++, high--)
        swap(order, low, high);
}

/* Swaps two, or turns the part between them round, while that is cheaper. */
static double improve(const search *s, int *order)
{
    double cost = cost_of(s, order);
    for (bool cheaper = true; cheaper;) {
        cheaper = false;
        for (int i = 0; i < s->n; i++)
            for (int j = i + 1; j < s->n; j++)
                for (int turns = 0; turns < 2; turns++) {
                    (turns ? reverse : swap)(order, i, j);
                    const double now = cost_of(s, order);
                    if (now < cost) {
                        cost = now;
                        cheaper = true;
                    } else {
                        (turns ? reverse : swap)(order, i, j);
                    }
                }
    }
    return cost;
}

static void look(search *s)
{
    int order[s->n];
    memcpy(order, s->best, sizeof order);
    s->best_cost = cost_of(s, order);
    if (s->n <= EXACT_MAX) {
        try_all(s, order, 0, 0);
        return;
    }
    keep_if_best(s, order, improve(s, order));
    for (int first = 0; first < s->n; first++) {
        nearest(s, first, order);
        keep_if_best(s, order, improve(s, order));
    }
}

void tdmi_order_find(const double *cost_ns, int n, tdmi_shape shape, int *order)
{
    double *numbers = tdmi_calloc(2 * (size_t)n * (size_t)n, sizeof *numbers, "coll order");
    for (int i = 0; i < n; i++)
        order[i] = i;
    if (numbers == NULL)
        return; /* as good as nothing known */
    search s = {.n = n, .traffic = numbers, .cost = numbers + n * n, .best = order};
    if (round_off(cost_ns, n, s.cost) && count_traffic(&s, shape) == TDM_OK)
        look(&s);
    tdmi_free(numbers);
}
