/* place.c - offsets in one slab: tensors whose lifetimes do not meet may share memory (fit.c).
 *
 * Operands of one node that agree modulo 4096 cost a kernel dearly (a load looks like it depends on a recent store), and
 * large tensors of equal size would agree always. So each large one gets a residue that differs from those it meets. */
#include "core/memory.h"
#include "graph/text.h"
#include "passes/fit.h"
#include "passes/lifetime.h"
#include "passes/passes.h"

#include <stdio.h>
#include <stdlib.h>

#define LINE ((size_t)64)
#define LARGE ((size_t)4 << 12) /* from here on a page of waste is little */

/* Residues by greedy colouring: root's must differ from those of all it meets in a node. */
static void colour(const tdmi_graph *g, const tdmi_lifetime *life, int *residue, tdmi_id root)
{
    int met[TDMI_FIT_RESIDUES] = {0};
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
    for (int c = 1; c < TDMI_FIT_RESIDUES; c++)
        if (met[c] < met[best])
            best = c;
    residue[root] = best;
}

static int list(const tdmi_graph *g, const tdmi_lifetime *life, int *residue, tdmi_fit_block *blocks)
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
        blocks[count++] = (tdmi_fit_block){.id = t, .first = life[t].first, .last = life[t].last, .nbytes = nbytes,
                                           .residue = residue[t]};
    }
    return count;
}

tdm_status tdmi_pass_place(tdmi_graph *g)
{
    const size_t room = (size_t)g->tensor_count + 1;
    tdmi_lifetime *life = tdmi_lifetimes(g);
    tdmi_fit_block *blocks = tdmi_calloc(room, sizeof *blocks, "place");
    int *residue = tdmi_calloc(room, sizeof *residue, "place");
    tdm_status st = TDM_ERR_NO_MEMORY;
    int count = 0;
    if (life != NULL && blocks != NULL && residue != NULL) {
        count = list(g, life, residue, blocks);
        st = tdmi_fit(blocks, count, &g->slab_nbytes);
    }
    if (st == TDM_OK) {
        for (int i = 0; i < count; i++)
            g->tensor[blocks[i].id].offset = blocks[i].offset;
        g->slab_nbytes = (g->slab_nbytes + LINE - 1) / LINE * LINE;
        for (int t = 0; t < g->tensor_count; t++)
            if (g->tensor[t].alias >= 0 && g->tensor[t].role != TDMI_ROLE_GRADIENT)
                g->tensor[t].offset = g->tensor[life[t].root].offset;
        if (g->bucket_count > 0)
            st = tdmi_place_gradients(g);
    }
    tdmi_free(residue);
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
