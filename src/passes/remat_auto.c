/* remat_auto.c - the cheapest set of nodes to compute again that lets a step fit into a limit of memory.
 *
 * A candidate is a node inside a block whose results backward reads, with the nodes before it whose results nobody keeps: those must be computed
 * again for it. It costs their time and saves the bytes of its results.
 *
 *     candidates by time a byte   gelu  ln  mask  attention  c_fc ...      take them in this order until the forecast fits
 *                                 ^^^^^^^^^^^^^^  fits                      (bisected), then give back those, dearest first,
 *                                                                          without which it still fits
 * Cost   a dozen placements, some milliseconds each.   The exact set is a knapsack with lifetimes; blocks are alike, so the order by
 * price is close to it.   Source  Jain et al., Checkmate, arXiv 1910.02653, for the problem */
#include "passes/remat.h"

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

#define GIVE_BACK_TRIES 24

typedef struct candidate {
    int node;
    double seconds, nbytes;
} candidate;

typedef struct choice {
    const tdmi_graph *g;
    const tdmi_pipeline_options *options;
    bool *may;       /* [nodes]: inside a block */
    bool *kept;      /* [nodes]: backward reads a result of it */
    bool *closure;   /* [nodes], scratch */
    candidate *list; /* by price */
    int count;
    bool *taken;     /* [count] */
} choice;

static int producer_of(const tdmi_graph *g, tdmi_id t)
{
    return t < 0 ? -1 : g->tensor[tdmi_graph_root(g, t)].producer;
}

/* Marks a node and what must be computed again for it. */
static void close_over(const choice *c, int node, bool *marks)
{
    if (marks[node])
        return;
    marks[node] = true;
    for (int k = 0; k < c->g->node[node].in_count; k++) {
        const int p = producer_of(c->g, c->g->node[node].in[k]);
        if (p >= 0 && !c->kept[p] && c->may[p])
            close_over(c, p, marks);
    }
}

static int by_price(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    const double left = x->seconds * y->nbytes, right = y->seconds * x->nbytes;
    return left != right ? (left > right) - (left < right) : x->node - y->node;
}

static void find_candidates(choice *c)
{
    const tdmi_graph *g = c->g;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->node[i].in_count && g->node[i].phase == TDMI_PHASE_BACKWARD; k++) {
            const int p = producer_of(g, g->node[i].in[k]);
            if (p >= 0 && g->node[p].phase == TDMI_PHASE_FORWARD)
                c->kept[p] = true;
        }
    for (int i = 0; i < g->node_count; i++) {
        if (!c->kept[i] || !c->may[i])
            continue;
        candidate *one = &c->list[c->count++];
        *one = (candidate){.node = i};
        memset(c->closure, 0, (size_t)g->node_count * sizeof *c->closure);
        close_over(c, i, c->closure);
        for (int j = 0; j < g->node_count; j++)
            if (c->closure[j])
                one->seconds += tdmi_cost_of_node(g, &g->node[j], &c->options->cost);
        for (int k = 0; k < g->node[i].out_count; k++)
            if (g->node[i].out[k] >= 0)
                one->nbytes += (double)tdmi_shape_nbytes(&g->tensor[g->node[i].out[k]].shape);
    }
    qsort(c->list, (size_t)c->count, sizeof *c->list, by_price);
}

static void mark(const choice *c, bool *again)
{
    memset(again, 0, (size_t)c->g->node_count * sizeof *again);
    for (int i = 0; i < c->count; i++)
        if (c->taken[i])
            close_over(c, c->list[i].node, again);
}

/* Bytes of the step with what is taken. */
static tdm_status forecast(const choice *c, bool *again, size_t *nbytes)
{
    tdmi_graph *g = tdmi_graph_copy(c->g);
    if (g == NULL)
        return TDM_ERR_NO_MEMORY;
    mark(c, again);
    tdm_status st = remat_apply(g, again);
    if (st == TDM_OK)
        st = tdmi_pipeline_behind_remat(g, c->options);
    if (st == TDM_OK)
        st = c->options->memory_of(c->options->memory_arg, g, nbytes);
    tdmi_graph_destroy(g);
    return st;
}

static tdm_status fits(choice *c, int count, bool *again, bool *fit, size_t *nbytes)
{
    for (int i = 0; i < c->count; i++)
        c->taken[i] = i < count;
    tdm_status st = forecast(c, again, nbytes);
    *fit = st == TDM_OK && *nbytes <= c->options->memory_nbytes;
    return st;
}

/* Dearest first: a candidate without which it still fits goes. */
static tdm_status give_back(choice *c, int count, bool *again)
{
    tdm_status st = TDM_OK;
    for (int i = count - 2, tries = 0; i >= 0 && tries < GIVE_BACK_TRIES && st == TDM_OK; i--, tries++) {
        size_t nbytes = 0;
        c->taken[i] = false;
        st = forecast(c, again, &nbytes);
        c->taken[i] = nbytes > c->options->memory_nbytes;
    }
    return st;
}

static tdm_status search(choice *c, bool *again)
{
    const double mib = 1 << 20;
    size_t nbytes = 0, least = 0;
    bool fit;
    tdm_status st = fits(c, 0, again, &fit, &nbytes);
    if (st != TDM_OK || fit)
        return st;
    st = fits(c, c->count, again, &fit, &least);
    if (st == TDM_OK && !fit)
        return tdmi_fail(TDM_ERR_NO_MEMORY,
                         "a step needs %.1f MiB on each rank, and still %.1f MiB with all blocks computed again; the limit is %.1f MiB. "
                         "Make the batch smaller, or shard",
                         (double)nbytes / mib, (double)least / mib, (double)c->options->memory_nbytes / mib);
    int low = 0, high = c->count; /* the first `low` do not fit, the first `high` do */
    while (high - low > 1 && st == TDM_OK) {
        const int middle = low + (high - low) / 2;
        st = fits(c, middle, again, &fit, &nbytes);
        *(fit ? &high : &low) = middle;
    }
    if (st == TDM_OK)
        st = fits(c, high, again, &fit, &nbytes);
    return st == TDM_OK ? give_back(c, high, again) : st;
}

tdm_status remat_choose(const tdmi_graph *g, const tdmi_pipeline_options *options, bool *again)
{
    if (options->memory_nbytes == 0 || options->memory_of == NULL || !(options->cost.flops_per_s > 0 && options->cost.bytes_per_s > 0))
        return tdmi_fail(TDM_ERR_INVALID, "what to compute again is chosen by a limit of memory and the costs of nodes; give both");
    const size_t nodes = (size_t)g->node_count + 1;
    choice c = {.g = g, .options = options};
    c.kept = tdmi_calloc(nodes, sizeof *c.kept, "remat");
    c.may = tdmi_calloc(nodes, sizeof *c.may, "remat");
    c.closure = tdmi_calloc(nodes, sizeof *c.closure, "remat");
    c.list = tdmi_calloc(nodes, sizeof *c.list, "remat");
    c.taken = tdmi_calloc(nodes, sizeof *c.taken, "remat");
    tdm_status st = c.kept == NULL || c.may == NULL || c.closure == NULL || c.list == NULL || c.taken == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    if (st == TDM_OK) {
        memcpy(c.may, again, (size_t)g->node_count * sizeof *again);
        find_candidates(&c);
        st = search(&c, again);
    }
    if (st == TDM_OK)
        mark(&c, again);
    tdmi_free(c.taken);
    tdmi_free(c.list);
    tdmi_free(c.closure);
    tdmi_free(c.may);
    tdmi_free(c.kept);
    return st;
}
