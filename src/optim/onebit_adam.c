/* onebit_adam.c - the numbers of a step behind the warm-up, and the way to the loops of this CPU. */
#include "optim/onebit_adam.h"

#include "core/denormals.h"
#include "optim/isa.h"

#include <math.h>

void tdmi_onebit_step_init(tdmi_optimizer_step *s, const tdmi_optimizer *optimizer, int64_t step, int64_t warmup, double lr,
                           float grad_scale)
{
    tdmi_optimizer_step_init(s, optimizer, step, lr, grad_scale);
    s->bias2_sqrt = (float)sqrt(1 - pow(optimizer->beta2, (double)warmup)); /* v has seen no more */
}

void tdmi_onebit_momentum(const tdmi_optimizer_step *s, const float *gradient, const float *momentum, const float *variance, float *out,
                          size_t count)
{
    const uint64_t before = tdmi_denormals_flush();
    tdmi_optim_kernels_of(tdmi_cpu_isa())->onebit_momentum(s, gradient, momentum, variance, out, count);
    tdmi_denormals_restore(before);
}

void tdmi_onebit_take(const float *average, float *momentum, const float *variance, size_t count)
{
    const uint64_t before = tdmi_denormals_flush();
    tdmi_optim_kernels_of(tdmi_cpu_isa())->onebit_take(average, momentum, variance, count);
    tdmi_denormals_restore(before);
}

void tdmi_onebit_update(const tdmi_optimizer_step *s, bool decay, float *weight, const float *average, float *momentum,
                        const float *variance, size_t count)
{
    const uint64_t before = tdmi_denormals_flush();
    tdmi_optim_kernels_of(tdmi_cpu_isa())->onebit_update(s, decay, weight, average, momentum, variance, count);
    tdmi_denormals_restore(before);
}
