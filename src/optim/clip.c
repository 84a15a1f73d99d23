/* clip.c - clipping by the global norm: the ranks add up their sums of squares, the factor goes into the update. */
#include "optim/clip.h"

#include "optim/isa.h"

double tdmi_sum_of_squares(const float *values, size_t count)
{
    return tdmi_optim_kernels_of(tdmi_cpu_isa())->squares(values, count);
}

float tdmi_clip_factor(double norm, double max_norm)
{
    if (max_norm == 0)
        return 1;
    double factor = max_norm / (norm + 1e-6);
    return factor > 1 ? 1 : (float)factor; /* this way round NaN stays NaN */
}
