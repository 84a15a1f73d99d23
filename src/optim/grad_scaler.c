/* grad_scaler.c - growth and back-off of the scale of the loss. */
#include "optim/grad_scaler.h"

#include <math.h>

void tdmi_grad_scaler_init(tdmi_grad_scaler *s)
{
    *s = (tdmi_grad_scaler){.scale = 65536.0f, .growth = 2.0f, .backoff = 0.5f, .interval = 2000};
}

void tdmi_grad_scaler_update(tdmi_grad_scaler *s, bool found)
{
    if (found) {
        s->scale *= s->backoff;
        s->clean = 0;
        s->skipped++;
        return;
    }
    if (++s->clean < s->interval)
        return;
    s->clean = 0;
    if (isfinite(s->scale * s->growth))
        s->scale *= s->growth;
}
