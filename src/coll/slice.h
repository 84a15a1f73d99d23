/* slice.h - which part of one buffer each rank owns, where ranks share work on it: the optimizer's shards, and the reduction
 * that feeds them. Equal parts, rounded up to 64 bytes so that no two ranks write one cache line; the last may be shorter or
 * empty. A count that is a multiple of n times 64 bytes gives the parts of tdm_reduce_scatter. */
#ifndef TDMI_COLL_SLICE_H
#define TDMI_COLL_SLICE_H

#include "coll/steps.h"

/* Elements of every slice but the last ones. */
static inline size_t tdmi_slice_each(size_t count, tdm_dtype dtype, int n)
{
    const size_t line = 64 / tdm_dtype_size(dtype), lines = (count + line - 1) / line;
    return (lines + (size_t)n - 1) / (size_t)n * line;
}

static inline void tdmi_slice(size_t count, tdm_dtype dtype, int rank, int n, size_t *first_out, size_t *count_out)
{
    const size_t each = tdmi_slice_each(count, dtype, n);
    size_t first = (size_t)rank * each, end = first + each;
    *first_out = first < count ? first : count;
    *count_out = (end < count ? end : count) - *first_out;
}

#endif
