/* reduce_kernels.h - the table of inner loops that reduce_kernels.c fills once per instruction set. Only reduce.c and its
 * tests see it. */
#ifndef TDMI_COLL_REDUCE_KERNELS_H
#define TDMI_COLL_REDUCE_KERNELS_H

#include "core/dtype.h"

#define TDMI_FOLD_MAX 4 /* leaves that one pass over memory takes */

typedef struct tdmi_reduce_kernels {
    /* acc [count] of the accumulate type <- tree over k leaves in[0..k-1] [count] of the dtype, at [dtype][op][k - 1].
     * acc may be a leaf where the types agree. k = 1 widens. */
    void (*fold[TDMI_I128 + 1][TDM_OP_COUNT][TDMI_FOLD_MAX])(const void *const *in, void *acc, size_t count);
    /* out [count] of the dtype <- acc, scaled by 1/n for AVG and rounded. NULL: the accumulated value is the result. */
    void (*finish[TDM_DTYPE_COUNT][TDM_OP_COUNT])(const void *acc, void *out, size_t count, int n);
    /* to [count] of an accumulate type <- from * one scalar of that type. to may be from. */
    void (*multiply[TDM_DTYPE_COUNT])(const void *from, void *to, size_t count, const void *scalar);
    /* out0, out1 [count] <- a + b, in one pass; the outs may be a and b. NULL: not for this dtype. */
    void (*sum_both[TDM_DTYPE_COUNT])(const void *a, const void *b, void *out0, void *out1, size_t count);
    /* out [count] <- a + b, then, unless it is NULL, used <- next, in one pass. used is a or b, out may be the other. NULL: not
     * for this dtype. */
    void (*sum_take[TDM_DTYPE_COUNT])(const void *a, const void *b, void *out, void *used, const void *next, size_t count);
    /* out [nbytes] <- used, then, unless it is NULL, used <- next. */
    void (*copy_take)(void *out, void *used, const void *next, size_t nbytes);
    /* memcpy whose stores go past the cache; the caller fences. */
    void (*stream)(void *out, const void *in, size_t nbytes);
} tdmi_reduce_kernels;

extern const tdmi_reduce_kernels tdmi_reduce_kernels_plain;
#if defined(__x86_64__)
extern const tdmi_reduce_kernels tdmi_reduce_kernels_avx2, tdmi_reduce_kernels_avx512;
#endif

#endif
