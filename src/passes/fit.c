/* fit.c - which memory each block gets. */
#include "passes/fit.h"

#include "core/memory.h"

#include <stdlib.h>

#define LINE ((size_t)64)
#define PAGE ((size_t)4096)

/* The first residues lie farthest apart. */
static size_t residue_of(int index)
{
    static const unsigned char order[TDMI_FIT_RESIDUES] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
    return order[index] * (PAGE / TDMI_FIT_RESIDUES);
}

static size_t fit(size_t offset, int residue)
{
    if (residue < 0)
        return (offset + LINE - 1) / LINE * LINE;
    const size_t at = offset / PAGE * PAGE + residue_of(residue);
    return at >= offset ? at : at + PAGE;
}

static int by_size(const void *a, const void *b)
{
    const tdmi_fit_block *x = a, *y = b;
    if (x->nbytes != y->nbytes)
        return x->nbytes < y->nbytes ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_offset(const void *a, const void *b)
{
    const tdmi_fit_block *const *x = a, *const *y = b;
    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

/* The smallest hole for blocks[at] among its contemporaries in blocks[0..at); behind them all if there is none. */
static void place(tdmi_fit_block *blocks, int at, const tdmi_fit_block **neighbours)
{
    tdmi_fit_block *b = &blocks[at];
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

tdm_status tdmi_fit(tdmi_fit_block *blocks, int count, size_t *nbytes_out)
{
    const tdmi_fit_block **neighbours = tdmi_calloc((size_t)count + 1, sizeof *neighbours, "place");
    if (neighbours == NULL)
        return TDM_ERR_NO_MEMORY;
    qsort(blocks, (size_t)count, sizeof *blocks, by_size);
    *nbytes_out = 0;
    for (int i = 0; i < count; i++) {
        place(blocks, i, neighbours);
        if (blocks[i].offset + blocks[i].nbytes > *nbytes_out)
            *nbytes_out = blocks[i].offset + blocks[i].nbytes;
    }
    tdmi_free(neighbours);
    return TDM_OK;
}
