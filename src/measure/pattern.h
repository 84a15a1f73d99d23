/* pattern.h - data of which everybody knows what a collective must make of it.
 *
 * Element i of rank r is a small whole number that depends on both, so sums are exact in every type and any order, and a
 * misplaced piece shows. What half precision rounds is rounded once, as the operations promise. */
#ifndef TDMI_MEASURE_PATTERN_H
#define TDMI_MEASURE_PATTERN_H

#include <tandem/dtype.h>

/* data [count] <- elements first, first + 1, ... of `rank`, as inputs of `op`. */
void tdmi_pattern_fill(tdm_dtype dtype, tdm_op op, int rank, size_t first, void *data, size_t count);
/* How many elements of data [count] are not elements first, first + 1, ... of `rank`, bit for bit. */
size_t tdmi_pattern_wrong_copy(tdm_dtype dtype, tdm_op op, int rank, size_t first, const void *data, size_t count);
/* How many are not op over elements first, first + 1, ... of ranks 0..n-1, bit for bit. */
size_t tdmi_pattern_wrong_result(tdm_dtype dtype, tdm_op op, int n, size_t first, const void *data, size_t count);

#endif
