/* grad_scaler.h - what the loss is multiplied with so that small gradients do not vanish in float16: as torch.amp.GradScaler.
 *
 * A step whose gradient is not finite on any rank is skipped by all and the scale falls; after `interval` clean steps in a row
 * it grows.  Source  PyTorch's torch/amp/grad_scaler.py and _amp_update_scale_ */
#ifndef TDMI_OPTIM_GRAD_SCALER_H
#define TDMI_OPTIM_GRAD_SCALER_H

#include "core/error.h"

typedef struct tdmi_grad_scaler {
    float scale, growth, backoff;
    int interval;
    int clean;       /* steps in a row, below interval */
    int64_t skipped; /* steps, in all */
} tdmi_grad_scaler;

/* 65536, x 2 after 2000 clean steps, x 0.5 after a skipped one. */
void tdmi_grad_scaler_init(tdmi_grad_scaler *scaler);
/* After a step: whether any rank found something not finite in it. The same calls on all ranks give the same scale. */
void tdmi_grad_scaler_update(tdmi_grad_scaler *scaler, bool found);

#endif
