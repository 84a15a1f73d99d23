/* rng_transform.c - the fused arithmetic for any CPU (fmaf of the C library gives the same bits), and PyTorch's baseline. */
#include "data/rng_transform_fused.h"

const tdmi_rng_transform tdmi_rng_transform_plain = {fused_uniform, fused_normal};

static void baseline_uniform(const uint32_t *draws, float *out, size_t count, float low, float high)
{
    const float width = high - low;
    for (size_t i = 0; i < count; i++) {
        float value = tdmi_rng_unit(draws[i]) * width + low;
        out[i] = value == high ? low : value;
    }
}

static void baseline_normal(const uint32_t *draws, float *out, size_t blocks, float mean, float std)
{
    for (size_t b = 0; b < blocks; b++, draws += 16, out += 16)
        for (int k = 0; k < 8; k++) {
            float radius = sqrtf(-2.0f * logf(1.0f - tdmi_rng_unit(draws[k])));
            float angle = (float)(2.0 * 3.14159265358979323846 * (double)tdmi_rng_unit(draws[k + 8]));
            out[k] = fmaf(radius * cosf(angle), std, mean);
            out[k + 8] = fmaf(radius * sinf(angle), std, mean);
        }
}

const tdmi_rng_transform tdmi_rng_transform_default = {baseline_uniform, baseline_normal};
