/* plan.h - the pure bucket planner: used by the reducer and by the bucket pass, so both obey one rule. */
#ifndef TDMI_DDP_PLAN_H
#define TDMI_DDP_PLAN_H

#include "core/error.h"

/* nbytes[i]: bytes of parameter i in the order gradients become ready; a bucket closes once it holds at least its cap: the
 * first `first_cap`, the others `cap`. A parameter is never split. bucket_of[i] gets its bucket. Returns the number of buckets.
 * Source  torch.distributed's compute_bucket_assignment_by_size */
int tdmi_plan_buckets(const size_t *nbytes, int count, size_t first_cap, size_t cap, int *bucket_of);

/* Elements of a bucket that holds `used` elements of `elem_size` bytes, padded so that each of `world_size` slices is equal
 * and a multiple of 64 bytes. */
size_t tdmi_plan_padded(size_t used, size_t elem_size, int world_size);

#endif
