/* remat.c - activations that backward needs are computed again instead of kept (activation checkpointing).
 *
 *     forward   x0 -[h.0]-> x1 -[h.1]-> x2 ... loss            kept: x0, x1, x2; inside a block everything goes at once
 *     backward  ... [h.1 again] h.1 backward  [h.0 again] h.0 backward
 *
 * Nodes are listed again one by one, each before the first backward node that needs its result, so what one block computes again
 * lives as short as can be. They are the same kernels on the same inputs, and a mask drawn again has the same bits: losses and
 * gradients do not change in a bit.
 * Cost    a second forward of what is recomputed: about a third of a step for all blocks
 * Saves   activations: of L blocks of about 16 T C floats each, L inputs of T C and one block's inside stay
 * Source  Chen, Xu, Zhang, Guestrin, Training Deep Nets with Sublinear Memory Cost, arXiv 1604.06174 */
#include "passes/remat.h"

#include "core/memory.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct remat {
    tdmi_graph *g;
    const bool *again;
    tdmi_id *fresh;   /* [tensors before the pass]: the tensor computed again, or -1 */
    tdmi_node *nodes; /* the new list */
    int count;
} remat;

static tdmi_id copy_tensor(remat *r, tdmi_id t, tdmi_id alias)
{
    tdmi_tensor copy = r->g->tensor[t];
    snprintf(copy.name, sizeof copy.name, "again.%.*s", (int)sizeof copy.name - 7, r->g->tensor[t].name);
    copy.alias = alias;
    return r->fresh[t] = tdmi_graph_add_tensor(r->g, &copy);
}

static void list_again(remat *r, int node);

/* Which tensor holds the value of t in backward, computed by then. */
static tdmi_id in_backward(remat *r, tdmi_id t)
{
    if (t < 0 || r->fresh[t] >= 0)
        return t < 0 ? t : r->fresh[t];
    const tdmi_tensor *x = &r->g->tensor[t];
    const int producer = x->producer;
    if (producer < 0 && x->alias >= 0) { /* a view of what may be computed again */
        const tdmi_id old = x->alias, base = in_backward(r, old);
        return base == old ? t : copy_tensor(r, t, base);
    }
    if (producer < 0 || !r->again[producer])
        return t;
    list_again(r, producer);
    return r->fresh[t];
}

static void list_again(remat *r, int node)
{
    tdmi_id in[TDMI_NODE_IN_MAX];
    for (int k = 0; k < r->g->node[node].in_count; k++)
        in[k] = in_backward(r, r->g->node[node].in[k]);
    tdmi_node *n = &r->nodes[r->count++];
    *n = r->g->node[node];
    n->phase = TDMI_PHASE_BACKWARD;
    n->attr.again = true;
    memcpy(n->in, in, (size_t)n->in_count * sizeof *in);
    for (int k = 0; k < n->out_count; k++)
        if (n->out[k] >= 0)
            n->out[k] = copy_tensor(r, n->out[k], -1);
}

static tdm_status rewrite(remat *r)
{
    tdmi_graph *g = r->g;
    for (int i = 0; i < g->node_count; i++) {
        tdmi_node n = g->node[i];
        for (int k = 0; k < n.in_count && n.phase == TDMI_PHASE_BACKWARD; k++)
            n.in[k] = in_backward(r, n.in[k]);
        r->nodes[r->count++] = n;
    }
    tdm_status st = tdmi_graph_status(g);
    return st == TDM_OK ? tdmi_graph_set_nodes(g, r->nodes, r->count) : st;
}

tdm_status remat_apply(tdmi_graph *g, const bool *again)
{
    const int tensors = g->tensor_count;
    remat r = {.g = g, .again = again};
    r.fresh = tdmi_malloc(((size_t)tensors + 1) * sizeof *r.fresh, "remat");
    r.nodes = tdmi_malloc(2 * ((size_t)g->node_count + 1) * sizeof *r.nodes, "remat");
    tdm_status st = r.fresh == NULL || r.nodes == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    if (st == TDM_OK) {
        for (int t = 0; t < tensors; t++)
            r.fresh[t] = -1;
        st = rewrite(&r);
    }
    tdmi_free(r.nodes);
    tdmi_free(r.fresh);
    return st;
}

/* What the caller reads after a step cannot be computed again. */
static bool can(const tdmi_graph *g, const tdmi_node *n)
{
    for (int k = 0; k < n->out_count; k++)
        if (n->out[k] >= 0 && g->tensor[n->out[k]].role == TDMI_ROLE_OUTPUT)
            return false;
    return n->phase == TDMI_PHASE_FORWARD;
}

/* Length of "h.3" in "h.3.ln_1": a label's part up to its number names its block; 0: none. */
static size_t block_name(const char *label)
{
    for (const char *at = strchr(label, '.'); at != NULL; at = strchr(at + 1, '.')) {
        const size_t digits = strspn(at + 1, "0123456789");
        if (digits > 0 && (at[1 + digits] == '.' || at[1 + digits] == '\0'))
            return (size_t)(at - label) + 1 + digits;
    }
    return 0;
}

/* block[i]: the number of node i's block in order of appearance, -1: in none. Returns how many there are. */
static int find_blocks(const tdmi_graph *g, int *block)
{
    int count = 0;
    for (int i = 0; i < g->node_count; i++) {
        const char *label = g->node[i].label;
        const size_t length = g->node[i].phase == TDMI_PHASE_FORWARD ? block_name(label) : 0;
        block[i] = -1;
        for (int j = i - 1; j >= 0 && length > 0 && block[i] < 0; j--)
            if (block[j] >= 0 && block_name(g->node[j].label) == length && strncmp(g->node[j].label, label, length) == 0)
                block[i] = block[j];
        if (length > 0 && block[i] < 0)
            block[i] = count++;
    }
    return count;
}

/* What others read of a block is kept: its end, which is the next one's begin. */
static void keep_ends(const tdmi_graph *g, const int *block, bool *again)
{
    for (int i = 0; i < g->node_count && g->node[i].phase == TDMI_PHASE_FORWARD; i++)
        for (int k = 0; k < g->node[i].in_count; k++) {
            const tdmi_id t = g->node[i].in[k];
            const int producer = t < 0 ? -1 : g->tensor[tdmi_graph_root(g, t)].producer;
            if (producer >= 0 && block[producer] != block[i])
                again[producer] = false;
        }
}

static tdm_status choose_blocks(const tdmi_graph *g, int every, bool *again)
{
    int *block = tdmi_malloc(((size_t)g->node_count + 1) * sizeof *block, "remat");
    if (block == NULL)
        return TDM_ERR_NO_MEMORY;
    const int blocks = find_blocks(g, block);
    for (int i = 0; i < g->node_count; i++)
        again[i] = block[i] >= 0 && block[i] % every == every - 1 && can(g, &g->node[i]);
    keep_ends(g, block, again);
    tdmi_free(block);
    if (blocks < every)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "graph %s has %d blocks, so none is the %d. to compute again; labels name blocks as "
                         "\"h.3.name\"", g->name, blocks, every);
    return TDM_OK;
}

tdm_status tdmi_pass_remat(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    if (options->remat == 0)
        return TDM_OK;
    bool *again = tdmi_calloc((size_t)g->node_count + 1, sizeof *again, "remat");
    if (again == NULL)
        return TDM_ERR_NO_MEMORY;
    const bool automatic = options->remat == TDMI_REMAT_AUTO;
    tdm_status st = choose_blocks(g, automatic ? 1 : options->remat, again);
    if (st == TDM_OK && automatic)
        st = remat_choose(g, options, again);
    if (st == TDM_OK)
        st = remat_apply(g, again);
    tdmi_free(again);
    return st;
}
