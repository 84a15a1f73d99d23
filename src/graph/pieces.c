/* pieces.c - what a bucket holds, cut so that each piece is a matrix of whole rows or a vector.
 *
 *     a parameter of rows of 5, of which a bucket holds 3 to 16:   3 4 | 5 6 7 8 9  10 11 12 13 14 | 15 16
 *                                                                 vector      matrix, 2 rows        vector  */
#include "graph/graph.h"

#include <stdlib.h>

static int by_first(const void *a, const void *b)
{
    const size_t x = ((const tdmi_piece *)a)->first, y = ((const tdmi_piece *)b)->first;
    return (x > y) - (x < y);
}

/* Elements [within, within + count) of t at `first` of the bucket; gives how many pieces. */
static int cut(const tdmi_graph *g, tdmi_id t, size_t within, size_t first, size_t count, tdmi_piece *out)
{
    const tdmi_shape *shape = &g->tensor[t].shape;
    const size_t row = shape->ndim > 1 ? tdmi_shape_count(shape) / (size_t)shape->dims[0] : 0;
    size_t ends[3] = {count, count, count};
    if (row > 0) {
        const size_t head = (row - within % row) % row;
        ends[0] = head < count ? head : count;
        ends[1] = ends[0] + (count - ends[0]) / row * row;
    }
    int pieces = 0;
    size_t at = 0;
    for (int i = 0; i < 3; at = ends[i++])
        if (ends[i] > at)
            out[pieces++] = (tdmi_piece){.parameter = t, .within = within + at, .first = first + at, .count = ends[i] - at,
                                         .rows = i == 1 ? (ends[i] - at) / row : 0};
    return pieces;
}

int tdmi_graph_pieces(const tdmi_graph *g, int bucket, tdmi_piece *out)
{
    int pieces = 0;
    for (tdmi_id t = 0; t < g->tensor_count; t++) {
        const tdmi_tensor *p = &g->tensor[t];
        if (p->role != TDMI_ROLE_PARAMETER || p->bucket > bucket || tdmi_graph_last_bucket(g, t) < bucket)
            continue;
        const size_t total = tdmi_shape_count(&p->shape);
        size_t within = 0, first = p->offset;
        for (int b = p->bucket; b < bucket; b++, first = 0)
            within += g->bucket[b].count - first;
        const size_t room = g->bucket[bucket].count - first;
        pieces += cut(g, t, within, first, total - within < room ? total - within : room, out + pieces);
    }
    qsort(out, (size_t)pieces, sizeof *out, by_first);
    return pieces;
}
