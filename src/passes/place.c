/* place.c - offsets in one slab: tensors whose lifetimes do not meet may share memory. Largest first, each into the smallest
 * hole that fits between those already placed that live at the same time.
 *
 * Operands of one node that agree modulo 4096 cost a kernel dearly (a load looks like it depends on a recent store), and
 * large tensors of equal size would agree always. So each large one gets a residue that differs from those it meets. */
#include "core/memory.h"
#include "graph/text.h"
#include "passes/lifetime.h"
#include "passes/passes.h"

#include <stdio.h>
#include <stdlib.h>

#define LINE ((size_t)64)
#define PAGE ((size_t)4096)
#define LARGE (4 * PAGE) /* from here on a page of waste is little */
#define RESIDUES 16

typedef struct block {
    tdmi_id tensor;
    int first, last; /* lifetime */
    size_t nbytes, offset;
    int residue; /* index of residue_of; -1: any line */
} block;

/* The first residues lie farthest apart. */
static size_t residue_of(int index)
{
    static const unsigned char order[RESIDUES] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
    return order[index] * (PAGE / RESIDUES);
}

static size_t fit(size_t offset, int residue)
{
    if (residue < 0)
        return (offset + LINE - 1) / LINE * LINE;
    const size_t at = offset / PAGE * PAGE + residue_of(residue);
    return at >= offset ? at : at + PAGE;
}

/* Residues by greedy colouring: root's must differ from those of all it meets in a node. */
static void colour(const tdmi_graph *g, const tdmi_lifetime *life, int *residue, tdmi_id root)
{
    int met[RESIDUES] = {0};
    for (int i = life[root].first < 0 ? 0 : life[root].first; i < g->node_count && i <= life[root].last; i++) {
        const tdmi_node *n = &g->node[i];
        tdmi_id operand[TDMI_NODE_IN_MAX + TDMI_NODE_OUT_MAX];
        int count = 0;
        bool meets = false;
        for (int k = 0; k < n->in_count; k++)
            operand[count++] = n->in[k];
        for (int k = 0; k < n->out_count; k++)
            operand[count++] = n->out[k];
        for (int k = 0; k < count; k++)
            meets = meets || (operand[k] >= 0 && life[operand[k]].root == root);
        for (int k = 0; k < count && meets; k++)
            if (operand[k] >= 0 && life[operand[k]].root != root && residue[life[operand[k]].root] >= 0)
                met[residue[life[operand[k]].root]]++;
    }
    int best = 0;
    for (int c = 1; c < RESIDUES; c++)
        if (met[c] < met[best])
            best = c;
    residue[root] = best;
}

static int by_size(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->nbytes != y->nbytes)
        return x->nbytes < y->nbytes ? 1 : -1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static int by_offset(const void *a, const void *b)
{
    const block *const *x = a, *const *y = b;
    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

/* The smallest hole for blocks[at] among its contemporaries in blocks[0..at); behind them all if there is none. */
static void place(block *blocks, int at, const block **neighbours)
{
    block *b = &blocks[at];
    size_t count = 0;
    for (int i = 0; i < at; i++)
        if (blocks[i].first <= b->last && b->first <= blocks[i].last)
            neighbours[count++] = &blocks[i];
    qsort(neighbours, count, sizeof *neighbours, by_offset);
    size_t end = 0, best = SIZE_MAX;
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        const size_t offset = fit(end, b->residue), next = neighbours[i]->offset;
        if (offset + b->nbytes <= next && next - end < best) {
            best = next - end;
            b->offset = offset;
            found = true;
        }
        if (next + neighbours[i]->nbytes > end)
            end = next + neighbours[i]->nbytes;
    }
    if (!found)
        b->offset = fit(end, b->residue);
}

static int list(const tdmi_graph *g, const tdmi_lifetime *life, int *residue, block *blocks)
{
    int count = 0;
    for (int t = 0; t < g->tensor_count; t++)
        residue[t] = -1;
    for (int t = 0; t < g->tensor_count; t++) {
        if (!tdmi_lifetime_in_slab(g, t))
            continue;
        const size_t nbytes = tdmi_shape_nbytes(&g->tensor[t].shape);
        if (nbytes >= LARGE)
            colour(g, life, residue, t);
        blocks[count++] = (block){.tensor = t, .first = life[t].first, .last = life[t].last, .nbytes = nbytes,
                                  .residue = residue[t]};
    }
    return count;
}

tdm_status tdmi_pass_place(tdmi_graph *g)
{
    const size_t room = (size_t)g->tensor_count + 1;
    tdmi_lifetime *life = tdmi_lifetimes(g);
    block *blocks = tdmi_calloc(room, sizeof *blocks, "place");
    const block **neighbours = tdmi_calloc(room, sizeof *neighbours, "place");
    int *residue = tdmi_calloc(room, sizeof *residue, "place");
    tdm_status st = TDM_ERR_NO_MEMORY;
    if (life != NULL && blocks != NULL && neighbours != NULL && residue != NULL) {
        const int count = list(g, life, residue, blocks);
        qsort(blocks, (size_t)count, sizeof *blocks, by_size);
        g->slab_nbytes = 0;
        for (int i = 0; i < count; i++) {
            place(blocks, i, neighbours);
            g->tensor[blocks[i].tensor].offset = blocks[i].offset;
            if (blocks[i].offset + blocks[i].nbytes > g->slab_nbytes)
                g->slab_nbytes = blocks[i].offset + blocks[i].nbytes;
        }
        g->slab_nbytes = fit(g->slab_nbytes, -1);
        for (int t = 0; t < g->tensor_count; t++)
            if (g->tensor[t].alias >= 0 && g->tensor[t].role != TDMI_ROLE_GRADIENT)
                g->tensor[t].offset = g->tensor[life[t].root].offset;
        st = TDM_OK;
    }
    tdmi_free(residue);
    tdmi_free(neighbours);
    tdmi_free(blocks);
    tdmi_free(life);
    return st;
}

static bool alive(const tdmi_graph *g, const tdmi_lifetime *life, tdmi_id t, int node)
{
    return tdmi_lifetime_in_slab(g, t) && life[t].first <= node && node <= life[t].last;
}

size_t tdmi_place_peak(const tdmi_graph *g, int *node_out)
{
    size_t most = 0;
    tdmi_lifetime *life = tdmi_lifetimes(g);
    *node_out = -1;
    for (int i = 0; life != NULL && i < g->node_count; i++) {
        size_t sum = 0;
        for (int t = 0; t < g->tensor_count; t++)
            if (alive(g, life, t, i))
                sum += tdmi_shape_nbytes(&g->tensor[t].shape);
        if (sum > most) {
            most = sum;
            *node_out = i;
        }
    }
    tdmi_free(life);
    return most;
}

/* "3.0 MiB", "16.5 KiB" into text[24]; returns text. */
static const char *size_text(size_t nbytes, char *text)
{
    const bool large = nbytes >= (size_t)1 << 20;
    snprintf(text, 24, "%.1f %s", (double)nbytes / (large ? 1 << 20 : 1 << 10), large ? "MiB" : "KiB");
    return text;
}

char *tdmi_place_report(const tdmi_graph *g)
{
    enum { SHOWN = 8 };
    char *text = NULL, shape[TDMI_SHAPE_TEXT_MAX], nbytes_text[24], slab_text[24];
    size_t size = 0;
    tdmi_lifetime *life = tdmi_lifetimes(g);
    FILE *out = life != NULL ? open_memstream(&text, &size) : NULL;
    if (out == NULL) {
        tdmi_free(life);
        return NULL;
    }
    int node;
    const size_t most = tdmi_place_peak(g, &node);
    fprintf(out, "memory of a step: slab %s; most in use at once %s, at node %d (%s %s)\n",
            size_text(g->slab_nbytes, slab_text), size_text(most, nbytes_text), node,
            node >= 0 ? tdmi_op_text(g->node[node].op) : "none", node >= 0 ? g->node[node].label : "");
    size_t below = SIZE_MAX; /* tensors of equal size are listed together, in their order */
    for (int shown = 0; shown < SHOWN;) {
        size_t largest = 0;
        for (int t = 0; t < g->tensor_count; t++) {
            const size_t nbytes = tdmi_shape_nbytes(&g->tensor[t].shape);
            if (alive(g, life, t, node) && nbytes < below && nbytes > largest)
                largest = nbytes;
        }
        if (largest == 0)
            break;
        below = largest;
        for (int t = 0; t < g->tensor_count && shown < SHOWN; t++)
            if (alive(g, life, t, node) && tdmi_shape_nbytes(&g->tensor[t].shape) == largest && ++shown)
                fprintf(out, "  %12s  %s %s\n", size_text(largest, nbytes_text), g->tensor[t].name,
                        tdmi_shape_text(&g->tensor[t].shape, shape));
    }
    const bool complete = fclose(out) == 0;
    char *copy = complete ? tdmi_strdup(text, "place report") : NULL;
    free(text);
    tdmi_free(life);
    return copy;
}
