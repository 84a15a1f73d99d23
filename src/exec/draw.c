/* draw.c - dropout masks. A mask that is drawn again, as its values were not kept, must have the same bits: before a draw that
 * will be repeated the generator's state is copied, and the repetition begins there.
 *
 *     forward    state A -draw 0-> B -draw 1-> C                 copies: A of draw 0, B of draw 1
 *     backward   back to B, draw 1; back to A, draw 0; on with C */
#include "exec/internal.h"

#include "core/memory.h"

#include <string.h>

/* The DRAW_MASK node before n with its counter, or -1. */
static int drawn_before(const tdmi_graph *g, int n)
{
    for (int i = 0; i < n; i++)
        if (g->node[i].op == TDMI_OP_DRAW_MASK && g->node[i].attr.counter == g->node[n].attr.counter)
            return i;
    return -1;
}

tdm_status exec_bind_draws(tdmi_exec *exec)
{
    const tdmi_graph *g = exec->graph;
    const size_t nbytes = exec->options.draw_nbytes;
    int copies = 0;
    for (int n = 0; n < g->node_count; n++) {
        const int before = g->node[n].op == TDMI_OP_DRAW_MASK ? drawn_before(g, n) : -1;
        exec->node[n].copy = -1;
        if (before < 0)
            continue;
        if (exec->node[before].copy < 0)
            exec->node[before].copy = copies++;
        exec->node[n].copy = exec->node[before].copy;
        exec->node[n].draws_again = true;
    }
    if (copies == 0)
        return TDM_OK;
    if (nbytes == 0)
        return tdmi_fail(TDM_ERR_INVALID, "graph %s draws masks again, but the size of the generator's state is not given", g->name);
    exec->draw_copies = tdmi_malloc(((size_t)copies + 1) * nbytes, "states of the random generator");
    return exec->draw_copies == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
}

void exec_draw(tdmi_exec *exec, const exec_node *node)
{
    const tdmi_exec_options *o = &exec->options;
    const size_t count = tdmi_shape_count(&node->bound.io.out[0]), nbytes = o->draw_nbytes;
    char *now = exec->draw_copies, *copy = node->copy >= 0 ? now + (size_t)(node->copy + 1) * nbytes : NULL; /* the first is for now */
    if (node->draws_again) {
        memcpy(now, o->draw_arg, nbytes);
        memcpy(o->draw_arg, copy, nbytes);
    } else if (node->copy >= 0) {
        memcpy(copy, o->draw_arg, nbytes);
    }
    o->draw(o->draw_arg, node->out[0], count, node->bound.io.attr.p);
    if (node->draws_again)
        memcpy(o->draw_arg, now, nbytes);
}
