/* onebit_adam.h - 1-bit Adam after its warm-up of plain AdamW: the variance stays as it is, and the ranks average momenta, which
 * change so slowly that one bit an element tells them.
 *
 *     each rank     m' = beta1 m + (1 - beta1) g          g its own gradient, m the same on all ranks
 *     all ranks     m  = average of m' in one bit both ways, with error feedback
 *     each rank     w  = w (1 - lr weight_decay) - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^T) + eps)     T: steps of warm-up
 *
 * Where v is 0 no gradient ever came in the warm-up (positions behind a window): momentum is 0 there and the weight moves by its
 * decay alone, for one bit cannot say 0 and anything over sqrt(0) has no bounds.
 * Source  Tang et al., 1-bit Adam, ICML 2021, arXiv:2102.02888, algorithm 1, with AdamW's decay and bias corrections */
#ifndef TDMI_OPTIM_ONEBIT_ADAM_H
#define TDMI_OPTIM_ONEBIT_ADAM_H

#include "optim/optimizer.h"

/* As tdmi_optimizer_step_init of ADAMW, for a step behind the warm-up. */
void tdmi_onebit_step_init(tdmi_optimizer_step *s, const tdmi_optimizer *optimizer, int64_t step, int64_t warmup, double lr,
                           float grad_scale);
/* out[count] <- this rank's new momentum, from the common one. grad_scale multiplies the gradient first. No array overlaps another. */
void tdmi_onebit_momentum(const tdmi_optimizer_step *s, const float *gradient, const float *momentum, const float *variance, float *out,
                          size_t count);
/* The common momentum: average[count] without what one bit made of zeros. */
void tdmi_onebit_take(const float *average, float *momentum, const float *variance, size_t count);
/* The same, and the weights of it. */
void tdmi_onebit_update(const tdmi_optimizer_step *s, bool decay, float *weight, const float *average, float *momentum,
                        const float *variance, size_t count);

#endif
