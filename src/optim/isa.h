/* isa.h - the inner loops of optim/, compiled once per instruction set (meson.build) under names that end in the set. Only
 * optimizer.c, onebit_adam.c, clip.c and tests see this. */
#ifndef TDMI_OPTIM_ISA_H
#define TDMI_OPTIM_ISA_H

#include "core/cpu.h"
#include "optim/optimizer.h"

typedef struct tdmi_optim_kernels {
    void (*adamw)(const tdmi_optimizer_step *s, bool decay, float *weight, const float *gradient, float *exp_avg,
                  float *exp_avg_sq, size_t count);
    void (*sgd)(const tdmi_optimizer_step *s, bool decay, float *weight, const float *gradient, float *buffer, size_t count);
    void (*onebit_momentum)(const tdmi_optimizer_step *s, const float *gradient, const float *momentum, const float *variance,
                            float *out, size_t count);
    void (*onebit_take)(const float *average, float *momentum, const float *variance, size_t count);
    void (*onebit_update)(const tdmi_optimizer_step *s, bool decay, float *weight, const float *average, float *momentum,
                          const float *variance, size_t count);
    double (*squares)(const float *values, size_t count);
} tdmi_optim_kernels;

extern const tdmi_optim_kernels tdmi_optim_kernels_plain;
#if defined(__x86_64__)
extern const tdmi_optim_kernels tdmi_optim_kernels_avx2, tdmi_optim_kernels_avx512;
#endif

/* The table of an instruction set; PLAIN's where that set was not built. */
const tdmi_optim_kernels *tdmi_optim_kernels_of(tdmi_isa isa);

#endif
