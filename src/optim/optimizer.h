/* optimizer.h - SGD and AdamW on flat ranges, exactly as PyTorch defines them; knows no tensors, groups or graphs.
 *
 * One pass over weights, gradient and moments; bits do not depend on where a range is cut, so that an update may run on any
 * slice, tile by tile.  Source  torch.optim.AdamW and torch.optim.SGD */
#ifndef TDMI_OPTIM_OPTIMIZER_H
#define TDMI_OPTIM_OPTIMIZER_H

#include "core/error.h"

typedef enum { TDMI_OPTIMIZER_ADAMW, TDMI_OPTIMIZER_SGD } tdmi_optimizer_kind;

#define TDMI_MOMENTS_MAX 2

typedef struct tdmi_optimizer {
    tdmi_optimizer_kind kind;
    double beta1, beta2, eps; /* ADAMW */
    double momentum;          /* SGD; 0: no state */
    double dampening;         /* SGD with momentum; as in PyTorch it does not apply to the first step */
    bool nesterov;            /* SGD with momentum */
    double weight_decay;      /* where a range decays: decoupled for ADAMW, added to the gradient for SGD */
} tdmi_optimizer;

tdm_status tdmi_optimizer_parse(const char *name, tdmi_optimizer_kind *out); /* "adamw", "sgd" */
const char *tdmi_optimizer_name(tdmi_optimizer_kind kind);
/* Number of moments (arrays of one float a weight, zero at the start) and their names in checkpoints, as PyTorch calls
 * them: "exp_avg", "exp_avg_sq"; "momentum_buffer". */
int tdmi_optimizer_moments(const tdmi_optimizer *optimizer);
const char *tdmi_optimizer_moment_name(const tdmi_optimizer *optimizer, int moment);

/* What is the same for all weights of one step, computed once in double. step counts from 1. grad_scale multiplies the
 * gradient first (clipping). */
typedef struct tdmi_optimizer_step {
    tdmi_optimizer optimizer;
    int64_t step;
    double lr;
    float grad_scale;
    float decay_factor, neg_step_size, bias2_sqrt, one_minus_beta1, beta2, one_minus_beta2, eps; /* ADAMW */
    float neg_lr, momentum, keep, weight_decay; /* SGD; keep: 1 - dampening */
} tdmi_optimizer_step;
void tdmi_optimizer_step_init(tdmi_optimizer_step *s, const tdmi_optimizer *optimizer, int64_t step, double lr, float grad_scale);

/* weight[count] updated in place from gradient[count] and the moments (moment[k] NULL where there is none). No array may
 * overlap another. Same bits for any cut into ranges and any instruction set; PyTorch's, except that its square root may be
 * one bit off, and that denormals count as 0 (core/denormals.h). */
void tdmi_optimizer_update(const tdmi_optimizer_step *s, bool decay, float *weight, const float *gradient,
                           float *const moment[TDMI_MOMENTS_MAX], size_t count);

#endif
