/* rng_transform_fused.h - the arithmetic of PyTorch's AVX2 build, included once by each file that compiles it.
 * Logarithm, sine and cosine are the Cephes polynomials of float32; which products are fused with the sum behind them is part
 * of the result. Plain loops of 8 over scalar functions without branches: the compiler makes vectors of them. */
#include "core/dtype.h"
#include "data/rng_transform.h"

#include <math.h>

/* Natural logarithm of a normal number in (0, 1]. */
static inline float log_of(float x)
{
    uint32_t bits = tdmi_float_bits(x);
    float e = (float)((int32_t)(bits >> 23) - 127) + 1.0f;
    x = tdmi_float_from_bits((bits & 0x807fffffu) | 0x3f000000u); /* mantissa in [0.5, 1) */
    float again = x < 0.707106781186547524f ? x : 0.0f, less = x < 0.707106781186547524f ? 1.0f : 0.0f;
    e = e - less;
    x = (x - 1.0f) + again;
    float z = x * x;
    float y = 7.0376836292e-2f;
    y = fmaf(y, x, -1.1514610310e-1f);
    y = fmaf(y, x, 1.1676998740e-1f);
    y = fmaf(y, x, -1.2420140846e-1f);
    y = fmaf(y, x, 1.4249322787e-1f);
    y = fmaf(y, x, -1.6668057665e-1f);
    y = fmaf(y, x, 2.0000714765e-1f);
    y = fmaf(y, x, -2.4999993993e-1f);
    y = fmaf(y, x, 3.3333331174e-1f);
    y = y * x;
    y = fmaf(y, z, e * -2.12194440e-4f);
    y = fmaf(-z, 0.5f, y);
    return fmaf(e, 0.693359375f, x + y);
}

/* Sine and cosine of 0 <= x < 2 pi. */
static inline void sine_cosine(float x, float *sine, float *cosine)
{
    int32_t octant = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
    float y = (float)octant;
    x = fmaf(y, -0.78515625f, x);
    x = fmaf(y, -2.4187564849853515625e-4f, x);
    x = fmaf(y, -3.77489497744594108e-8f, x);
    float z = x * x;
    float c = fmaf(fmaf(2.443315711809948e-005f, z, -1.388731625493765e-003f), z, 4.166664568298827e-002f) * z;
    c = fmaf(c, z, -(z * 0.5f)) + 1.0f;
    float s = fmaf(fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z;
    s = fmaf(s, x, x);
    float first = (octant & 2) == 0 ? s : c, second = (octant & 2) == 0 ? c : s;
    *sine = tdmi_float_from_bits(tdmi_float_bits(first) ^ ((uint32_t)(octant & 4) << 29));
    *cosine = tdmi_float_from_bits(tdmi_float_bits(second) ^ ((uint32_t)(~(octant - 2) & 4) << 29));
}

static void fused_uniform(const uint32_t *draws, float *out, size_t count, float low, float high)
{
    const float width = high - low;
    for (size_t i = 0; i < count; i++) {
        float value = fmaf(tdmi_rng_unit(draws[i]), width, low);
        out[i] = value == high ? low : value;
    }
}

static void fused_normal(const uint32_t *draws, float *out, size_t blocks, float mean, float std)
{
    for (size_t b = 0; b < blocks; b++, draws += 16, out += 16)
        for (int k = 0; k < 8; k++) {
            float sine, cosine;
            float radius = sqrtf(-2.0f * log_of(1.0f - tdmi_rng_unit(draws[k])));
            sine_cosine(6.283185307179586f * tdmi_rng_unit(draws[k + 8]), &sine, &cosine);
            out[k] = fmaf(radius * cosine, std, mean);
            out[k + 8] = fmaf(radius * sine, std, mean);
        }
}
