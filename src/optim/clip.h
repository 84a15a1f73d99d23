/* clip.h - the norm of a gradient in pieces.  Source  torch.nn.utils.clip_grad_norm_ */
#ifndef TDMI_OPTIM_CLIP_H
#define TDMI_OPTIM_CLIP_H

#include "core/error.h"

/* Sum of squares of count floats, in double, in tiles of a fixed size counted from the start of the range: the bits depend on
 * where the range begins and ends, on nothing else. So the ranges of a sum must be the same in every run. inf or NaN where a
 * value is. */
double tdmi_sum_of_squares(const float *values, size_t count);
/* min(1, max_norm / (norm + 1e-6)); 1 where max_norm is 0; NaN where norm is. */
float tdmi_clip_factor(double norm, double max_norm);

#endif
