/* reduce.h - arithmetic of collectives on plain arrays, one build per instruction set, chosen at start.
 * Bits do not depend on the instruction set, on alignment or on where a range is cut. */
#ifndef TDMI_COLL_REDUCE_H
#define TDMI_COLL_REDUCE_H

#include "coll/op.h"

/* out[i] = a[i] op b[i], all three of the accumulate type `dtype` (never a half; AVG adds). out may be a or b. */
void tdmi_reduce_pair(tdm_dtype dtype, tdm_op op, const void *a, const void *b, void *out, size_t count);

/* Each of out[0..n_out-1] = finished op over in[0..n-1] in the canonical balanced tree (adjacent pairs, pairs of pairs; a
 * missing leaf changes nothing), all of type `dtype`: halves are summed in float32 and rounded once, AVG is scaled by 1/n.
 * Any count: it goes through small tiles, and a tile is read from all inputs before it is written, so outs may be inputs.
 * stream: the results are larger than the cache and not read soon, so stores go past it, unless the out is an input; they are
 * visible to other ranks after the usual release. n == 1 copies. n_out >= 1. */
/* Of up to TDMI_EAGER_BYTES into one output, which may be one of the leaves. */
void tdmi_reduce_short(tdm_dtype dtype, tdm_op op, const void *const *in, int n, void *out, size_t count);
void tdmi_reduce_tree(tdm_dtype dtype, tdm_op op, const void *const *in, int n, void *const *out, int n_out, size_t count,
                      bool stream);

/* The same with one out, which is no input but this rank's own, for inputs of which one, `used`, comes from another core's cache;
 * then, unless `next` is NULL, used <- next [count] in the same pass. Made for n <= 2. */
void tdmi_reduce_take(tdm_dtype dtype, tdm_op op, const void *const *in, int n, void *out, void *used, const void *next,
                      size_t count, bool stream);

/* tdmi_reduce_tree as a partial sum: acc (accumulate type) = op over in[0..n-1] in that tree, neither scaled nor rounded. */
void tdmi_reduce_unfinished(tdm_dtype dtype, tdm_op op, const void *const *in, int n, void *acc, size_t count);

/* What a rank does to its input before a premultiplied sum: out = in * its scalar, multiplied in the accumulate type and rounded
 * once to dtype. From there on the operation is tdmi_op_base. out may be in. */
void tdmi_op_prepare(tdm_dtype dtype, tdm_op op, const void *in, void *out, size_t count);

/* acc = in, widened from dtype to the accumulate type of (dtype, op). */
void tdmi_reduce_widen(tdm_dtype dtype, tdm_op op, const void *in, void *acc, size_t count);
/* out (dtype) = acc (accumulate type) finished for n ranks: AVG scaled, rounded once. out may be acc where types agree. */
void tdmi_reduce_finish(tdm_dtype dtype, tdm_op op, int n, const void *acc, void *out, size_t count);

#endif
