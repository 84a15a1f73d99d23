/* reduce.h - arithmetic of collectives on plain arrays, one build per instruction set, chosen at start.
 * Bits do not depend on the instruction set, on alignment or on where a range is cut. */
#ifndef TDMI_COLL_REDUCE_H
#define TDMI_COLL_REDUCE_H

#include <tandem/dtype.h>

/* out[i] = a[i] op b[i], all three of the accumulate type `dtype` (never a half; AVG adds). out may be a or b. */
void tdmi_reduce_pair(tdm_dtype dtype, tdm_op op, const void *a, const void *b, void *out, size_t count);

/* out = finished op over in[0..n-1] in the canonical balanced tree (adjacent pairs, pairs of pairs; a missing leaf changes
 * nothing), all of type `dtype`: halves are summed in float32 and rounded once, AVG is scaled by 1/n. out may be one of the
 * inputs. Any count: it goes through cache-sized tiles. */
void tdmi_reduce_tree(tdm_dtype dtype, tdm_op op, const void *const *in, int n, void *out, size_t count);

/* acc = in, widened from dtype to the accumulate type of (dtype, op). */
void tdmi_reduce_widen(tdm_dtype dtype, tdm_op op, const void *in, void *acc, size_t count);
/* out (dtype) = acc (accumulate type) finished for n ranks: AVG scaled, rounded once. out may be acc where types agree. */
void tdmi_reduce_finish(tdm_dtype dtype, tdm_op op, int n, const void *acc, void *out, size_t count);

#endif
