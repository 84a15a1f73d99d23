/* transpose.c - walks a range of [rows, columns] in the order of [columns, rows].
 *
 *    memory [3, 4], elements 2..9      file [4, 3]: position = column x 3 + row
 *       .  .  2  3                        column 0:  .  4  8      runs: 1-2 (column 0), 4-5 (column 1),
 *       4  5  6  7                        column 1:  .  5  9            6-7 (column 2), 9-10 (column 3)
 *       8  9  .  .                        column 2:  2  6  .      a range of whole rows is one run a column,
 *                                         column 3:  3  7  .      the whole matrix is one run */
#include "checkpoint/transpose.h"

/* Rows of column c whose elements lie before element e: the first of them that does not. */
static uint64_t row_of(const tdmi_transpose *w, uint64_t e, uint64_t c)
{
    return e > c ? (e - c + w->columns - 1) / w->columns : 0;
}

tdmi_transpose tdmi_transpose_begin(uint64_t rows, uint64_t columns, uint64_t first, size_t count)
{
    tdmi_transpose w = {rows, columns, first, first + count, 0, 0};
    w.row = row_of(&w, first, 0);
    return w;
}

bool tdmi_transpose_next(tdmi_transpose *w, size_t max, tdmi_transpose_run *run)
{
    while (w->column < w->columns && w->row >= row_of(w, w->end, w->column)) {
        w->column++;
        w->row = row_of(w, w->first, w->column);
    }
    if (w->column == w->columns)
        return false;
    *run = (tdmi_transpose_run){w->column * w->rows + w->row, 0};
    while (run->count < max) {
        uint64_t take = row_of(w, w->end, w->column) - w->row;
        if (take > max - run->count)
            take = max - run->count;
        run->count += (size_t)take;
        w->row += take;
        if (w->row < w->rows)
            break; /* full, or this column's piece ends before the column does */
        w->column++;
        w->row = w->column < w->columns ? row_of(w, w->first, w->column) : 0;
        if (w->column == w->columns || w->row != 0)
            break;
    }
    return true;
}

static inline void copy(float *memory, float *flat, bool to_flat)
{
    *(to_flat ? flat : memory) = *(to_flat ? memory : flat);
}

/* `columns` whole columns, in square tiles: one column alone touches a cache line for each of its elements. */
static inline void move_columns(float *memory, uint64_t stride, float *flat, uint64_t rows, uint64_t columns, bool to_flat)
{
    enum { TILE = 16 };
    for (uint64_t r0 = 0; r0 < rows; r0 += TILE)
        for (uint64_t c0 = 0; c0 < columns; c0 += TILE) {
            const uint64_t r1 = r0 + TILE < rows ? r0 + TILE : rows, c1 = c0 + TILE < columns ? c0 + TILE : columns;
            for (uint64_t c = c0; c < c1; c++)
                for (uint64_t r = r0; r < r1; r++)
                    copy(memory + r * stride + c, flat + c * rows + r, to_flat);
        }
}

/* Between `memory` (element `first` of the range on) and `flat`, the run as the file has it. */
static inline void move(const tdmi_transpose *w, const tdmi_transpose_run *run, float *memory, float *flat, bool to_flat)
{
    const uint64_t rows = w->rows;
    uint64_t column = run->position / rows, row = run->position % rows;
    for (size_t i = 0; i < run->count;) {
        const uint64_t left = run->count - i;
        float *m = memory + (row * w->columns + column - w->first), *f = flat + i;
        if (row == 0 && left >= rows) {
            move_columns(m, w->columns, f, rows, left / rows, to_flat);
            column += left / rows;
            i += left / rows * rows;
        } else {
            const uint64_t n = rows - row < left ? rows - row : left;
            for (uint64_t k = 0; k < n; k++)
                copy(m + k * w->columns, f + k, to_flat);
            i += n;
            row = 0;
            column++;
        }
    }
}

void tdmi_transpose_gather(const tdmi_transpose *w, const tdmi_transpose_run *run, const float *memory, float *out)
{
    move(w, run, (float *)memory, out, true);
}

void tdmi_transpose_scatter(const tdmi_transpose *w, const tdmi_transpose_run *run, const float *in, float *memory)
{
    move(w, run, memory, (float *)in, false);
}
