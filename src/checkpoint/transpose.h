/* transpose.h - where a range of a matrix's elements lies in a file that holds its transpose. */
#ifndef TDMI_CHECKPOINT_TRANSPOSE_H
#define TDMI_CHECKPOINT_TRANSPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory [rows, columns], file [columns, rows]; elements [first, end) in memory's order. Column c of that range is one piece
 * of the file; pieces that touch are given out as one run. */
typedef struct {
    uint64_t rows, columns, first, end;
    uint64_t column, row; /* where the next run begins */
} tdmi_transpose;

/* Elements that lie side by side in the file. */
typedef struct {
    uint64_t position; /* of the first, in the file's order */
    size_t count;
} tdmi_transpose_run;

tdmi_transpose tdmi_transpose_begin(uint64_t rows, uint64_t columns, uint64_t first, size_t count);
/* The next run, at most `max` elements; false when all are given out. */
bool tdmi_transpose_next(tdmi_transpose *walk, size_t max, tdmi_transpose_run *run);
/* run = the memory's elements it stands for, and back; `memory` points at element `first`. */
void tdmi_transpose_gather(const tdmi_transpose *walk, const tdmi_transpose_run *run, const float *memory, float *out);
void tdmi_transpose_scatter(const tdmi_transpose *walk, const tdmi_transpose_run *run, const float *in, float *memory);

#endif
