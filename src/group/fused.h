/* fused.h (internal) - a reduce-scatter whose results go straight into what comes next, such as an optimizer's update: the
 * slice is reduced tile by tile, and each tile is handed on while it is in the first-level cache. */
#ifndef TDMI_GROUP_FUSED_H
#define TDMI_GROUP_FUSED_H

#include "coll/run.h"
#include "coll/slice.h"

#include <tandem/collective.h>

/* Every rank reduces its tdmi_slice of in [count] over all ranks and calls epilogue(arg, first, count, reduced) with the
 * pieces, in order, from within start, test and wait of this rank's groups; `first` counts from the start of the buffer. The
 * pieces are of type dtype, finished, and cover the slice once. In tdm_alloc memory of one node nothing is copied; elsewhere the
 * whole slice comes in one call at the end. `in` stays as it is. When the work is over on one rank, all ranks' epilogues
 * have run where memory is shared. Errors and the rest as in collective.h. */
tdm_status tdmi_reduce_scatter_fused(tdm_group *group, const void *in, size_t count, tdm_dtype dtype, tdm_op op,
                                     tdmi_epilogue epilogue, void *arg, tdm_work **work);

#endif
