/* plan.h - the pure bucket planner: used by the reducer and by the bucket pass, so both obey one rule. */
#ifndef TDMI_DDP_PLAN_H
#define TDMI_DDP_PLAN_H

#include "core/error.h"

/* Caps in bytes from what the user gave in MiB; 0 (or less): not given. Neither given: 25 MiB, and 1 MiB for the first bucket,
 * so that communication starts early. Only the cap given: it holds for the first bucket too, so a setting is never ignored. */
void tdmi_plan_caps(double cap_mb, double first_mb, size_t *cap, size_t *first_cap);

/* nbytes[i]: bytes of item i (a parameter, or a part of one) in the order gradients become ready; a bucket closes once it holds
 * at least its cap: bucket b cap[b], or the last of them. An item is never split; one of no bytes never opens a bucket, unless
 * it comes first. bucket_of[i] gets its bucket. Returns the number of buckets.
 * Source  torch.distributed's compute_bucket_assignment_by_size */
int tdmi_plan_buckets(const size_t *nbytes, int count, const size_t *cap, int cap_count, int *bucket_of);

/* The plan whose last reduction ends first. Item i is ready at ready_s[i], not before item i - 1; reductions run one after the
 * other and take alpha_s + nbytes x beta_s. Of equally fast plans one with few buckets, but none is made larger than `enough`
 * bytes for that. *finish_s: when the last one ends; *buckets: how many (plan_fastest.c). */
tdm_status tdmi_plan_fastest(const double *ready_s, const size_t *nbytes, int count, double alpha_s, double beta_s, size_t enough,
                             int *bucket_of, int *buckets, double *finish_s);

/* Elements of a bucket that holds `used` elements of `elem_size` bytes, padded so that each of `world_size` slices is equal
 * and a multiple of 64 bytes. */
size_t tdmi_plan_padded(size_t used, size_t elem_size, int world_size);

#endif
