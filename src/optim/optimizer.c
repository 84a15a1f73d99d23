/* optimizer.c - what an optimizer is called and keeps, the numbers of one step, and the way to the loops of this CPU. */
#include "optim/optimizer.h"

#include "core/denormals.h"
#include "optim/isa.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {[TDMI_OPTIMIZER_ADAMW] = "adamw", [TDMI_OPTIMIZER_SGD] = "sgd"};

tdm_status tdmi_optimizer_parse(const char *name, tdmi_optimizer_kind *out)
{
    for (int kind = 0; kind < (int)(sizeof names / sizeof names[0]); kind++)
        if (strcmp(name, names[kind]) == 0) {
            *out = (tdmi_optimizer_kind)kind;
            return TDM_OK;
        }
    return tdmi_fail(TDM_ERR_INVALID, "there is no optimizer \"%s\"; known are adamw and sgd", name);
}

const char *tdmi_optimizer_name(tdmi_optimizer_kind kind)
{
    return names[kind];
}

int tdmi_optimizer_moments(const tdmi_optimizer *optimizer)
{
    if (optimizer->kind == TDMI_OPTIMIZER_ADAMW)
        return 2;
    return optimizer->momentum != 0 ? 1 : 0;
}

const char *tdmi_optimizer_moment_name(const tdmi_optimizer *optimizer, int moment)
{
    if (optimizer->kind == TDMI_OPTIMIZER_SGD)
        return "momentum_buffer";
    return moment == 0 ? "exp_avg" : "exp_avg_sq";
}

void tdmi_optimizer_step_init(tdmi_optimizer_step *s, const tdmi_optimizer *optimizer, int64_t step, double lr, float grad_scale)
{
    *s = (tdmi_optimizer_step){.optimizer = *optimizer, .step = step, .lr = lr, .grad_scale = grad_scale};
    if (optimizer->kind == TDMI_OPTIMIZER_ADAMW) {
        s->decay_factor = (float)(1 - lr * optimizer->weight_decay);
        s->neg_step_size = (float)-(lr / (1 - pow(optimizer->beta1, (double)step)));
        s->bias2_sqrt = (float)sqrt(1 - pow(optimizer->beta2, (double)step));
        s->one_minus_beta1 = (float)(1 - optimizer->beta1);
        s->beta2 = (float)optimizer->beta2;
        s->one_minus_beta2 = (float)(1 - optimizer->beta2);
        s->eps = (float)optimizer->eps;
    } else {
        s->neg_lr = (float)-lr;
        s->momentum = (float)optimizer->momentum;
        s->keep = step == 1 ? 1 : (float)(1 - optimizer->dampening);
        s->weight_decay = (float)optimizer->weight_decay;
    }
}

const tdmi_optim_kernels *tdmi_optim_kernels_of(tdmi_isa isa)
{
#if defined(__x86_64__)
    if (isa == TDMI_ISA_AVX512)
        return &tdmi_optim_kernels_avx512;
    if (isa == TDMI_ISA_AVX2)
        return &tdmi_optim_kernels_avx2;
#endif
    (void)isa;
    return &tdmi_optim_kernels_plain;
}

void tdmi_optimizer_update(const tdmi_optimizer_step *s, bool decay, float *weight, const float *gradient,
                           float *const moment[TDMI_MOMENTS_MAX], size_t count)
{
    const tdmi_optim_kernels *kernels = tdmi_optim_kernels_of(tdmi_cpu_isa());
    const uint64_t before = tdmi_denormals_flush();
    if (s->optimizer.kind == TDMI_OPTIMIZER_ADAMW)
        kernels->adamw(s, decay, weight, gradient, moment[0], moment[1], count);
    else
        kernels->sgd(s, decay, weight, gradient, moment[0], count);
    tdmi_denormals_restore(before);
}
