/* place_gradients.c - the gradients' slab: a bucket needs its memory from its first gradient until it is reduced and, where
 * updates come later, updated from there. With the waits at the end of a step all buckets live together; where shard.c waits
 * between the nodes of backward, their memory is used again.
 *
 *     bucket 0  ######ww          # written, w reduced        slab  | 0, 2 | 1, 3 | 4 (tied: from the head to the embedding) |
 *     bucket 1        ######ww
 *     bucket 2                ######ww                        peers read a bucket until its wait is over here: then it is free
 *     bucket 3                        ######ww                everywhere */
#include "core/memory.h"
#include "passes/fit.h"
#include "passes/passes.h"

#define BUCKET_ALIGN ((size_t)128)

/* Buckets that are joined are one block: that of the first of them, which holds the beginning. */
static int block_of(const tdmi_graph *g, int bucket)
{
    while (g->bucket[bucket].joined)
        bucket--;
    return bucket;
}

static void use(tdmi_fit_block *block, int node)
{
    if (block->first < 0)
        block->first = node;
    block->last = node;
}

tdm_status tdmi_place_gradients(tdmi_graph *g)
{
    tdmi_fit_block *blocks = tdmi_calloc((size_t)g->bucket_count, sizeof *blocks, "place");
    if (blocks == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int b = 0; b < g->bucket_count; b++) {
        const size_t nbytes = g->bucket[b].count * tdm_dtype_size(g->gradient_type);
        blocks[b] = (tdmi_fit_block){.id = b, .first = -1, .last = -1, .residue = -1};
        blocks[block_of(g, b)].nbytes += (nbytes + BUCKET_ALIGN - 1) / BUCKET_ALIGN * BUCKET_ALIGN;
    }
    for (int i = 0; i < g->node_count; i++) {
        const tdmi_node *n = &g->node[i];
        for (int k = 0; k < n->out_count; k++)
            if (n->out[k] >= 0 && g->tensor[n->out[k]].role == TDMI_ROLE_GRADIENT)
                use(&blocks[block_of(g, g->tensor[n->out[k]].bucket)], i);
        if (n->op == TDMI_OP_BUCKET_WAIT || (n->op == TDMI_OP_UPDATE && !g->slices_kept))
            use(&blocks[block_of(g, n->attr.bucket)], i);
    }
    tdm_status st = tdmi_fit(blocks, g->bucket_count, &g->gradient_nbytes);
    for (int i = 0; i < g->bucket_count; i++)
        g->bucket[blocks[i].id].offset = blocks[i].offset;
    for (int b = 1; b < g->bucket_count; b++)
        if (g->bucket[b].joined)
            g->bucket[b].offset = g->bucket[b - 1].offset + g->bucket[b - 1].count * tdm_dtype_size(g->gradient_type);
    tdmi_free(blocks);
    return st;
}
