/* rng.c - PyTorch's distributions over the engine: permutations, integers, uniform, normal, initial values of modules. */
#include "data/rng.h"

#include "core/cpu.h"
#include "data/rng_transform.h"

#include <math.h>

enum { CHUNK = 1024 }; /* draws that stay in cache on their way to a value; a multiple of 16 */

static const tdmi_rng_transform *transform(const tdmi_rng *rng)
{
    if (rng->variant == TDMI_RNG_DEFAULT)
        return &tdmi_rng_transform_default;
#if defined(__x86_64__)
    if (tdmi_cpu_isa() >= TDMI_ISA_AVX2)
        return &tdmi_rng_transform_avx2;
#endif
    return &tdmi_rng_transform_plain;
}

void tdmi_rng_permutation(tdmi_rng *rng, uint32_t *out, uint32_t count)
{
    if (count < UINT32_MAX / 20) { /* Fisher-Yates from the left; the bias of the remainder is PyTorch's */
        for (uint32_t i = 0; i < count; i++)
            out[i] = i;
        for (uint32_t i = 0; i + 1 < count; i++) {
            uint32_t j = i + tdmi_rng_u32(rng) % (count - i);
            uint32_t kept = out[i];
            out[i] = out[j];
            out[j] = kept;
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++) { /* from here on 64-bit draws, inside out */
        uint64_t j = tdmi_rng_u64(rng) % ((uint64_t)i + 1);
        out[i] = i;
        out[i] = out[j];
        out[j] = i;
    }
}

void tdmi_rng_integers(tdmi_rng *rng, int64_t *out, size_t count, int64_t low, int64_t high)
{
    const uint64_t range = (uint64_t)high - (uint64_t)low;
    for (size_t i = 0; i < count; i++) {
        uint64_t draw = range >= 1u << 28 ? tdmi_rng_u64(rng) : tdmi_rng_u32(rng);
        out[i] = (int64_t)(draw % range + (uint64_t)low);
    }
}

void tdmi_rng_uniform(tdmi_rng *rng, float *out, size_t count, double low, double high)
{
    if (out == NULL) {
        tdmi_rng_skip(rng, count);
        return;
    }
    const tdmi_rng_transform *to = transform(rng);
    uint32_t draws[CHUNK];
    for (size_t done = 0; done < count; done += CHUNK) {
        size_t n = count - done < CHUNK ? count - done : CHUNK;
        tdmi_rng_fill(rng, draws, n);
        to->uniform(draws, out + done, n, (float)low, (float)high);
    }
}

/* One double, Box-Muller; the sine waits in the generator for the next call. */
static double small_normal(tdmi_rng *rng)
{
    if (rng->has_normal) {
        rng->has_normal = false;
        return rng->normal;
    }
    const uint64_t mask = ((uint64_t)1 << 53) - 1;
    double u1 = (double)(tdmi_rng_u64(rng) & mask) * 0x1p-53;
    double u2 = (double)(tdmi_rng_u64(rng) & mask) * 0x1p-53;
    double radius = sqrt(-2.0 * log1p(-u2)), angle = 2.0 * 3.14159265358979323846 * u1;
    rng->normal = radius * sin(angle);
    rng->has_normal = true;
    return radius * cos(angle);
}

void tdmi_rng_normal(tdmi_rng *rng, float *out, size_t count, double mean, double std)
{
    if (count < 16) {
        for (size_t i = 0; i < count; i++) {
            double value = small_normal(rng) * std + mean;
            if (out != NULL)
                out[i] = (float)value;
        }
        return;
    }
    const size_t tail = count % 16 != 0 ? 16 : 0; /* the last 16 are drawn anew if a block is cut */
    if (out == NULL) {
        tdmi_rng_skip(rng, count + tail);
        return;
    }
    const tdmi_rng_transform *to = transform(rng);
    uint32_t draws[CHUNK];
    const size_t whole = count - count % 16;
    for (size_t done = 0; done < whole; done += CHUNK) {
        size_t n = whole - done < CHUNK ? whole - done : CHUNK;
        tdmi_rng_fill(rng, draws, n);
        to->normal(draws, out + done, n / 16, (float)mean, (float)std);
    }
    if (tail != 0) {
        tdmi_rng_skip(rng, count % 16);
        tdmi_rng_fill(rng, draws, 16);
        to->normal(draws, out + count - 16, 1, (float)mean, (float)std);
    }
}

void tdmi_rng_kaiming_uniform(tdmi_rng *rng, float *out, size_t count, size_t fan_in)
{
    const double slope = sqrt(5.0); /* in torch's order of operations: the last bit of the bound counts */
    double bound = sqrt(3.0) * (sqrt(2.0 / (1.0 + slope * slope)) / sqrt((double)fan_in));
    tdmi_rng_uniform(rng, out, count, -bound, bound);
}

void tdmi_rng_linear(tdmi_rng *rng, float *weight, float *bias, size_t out_features, size_t in_features, bool has_bias)
{
    tdmi_rng_kaiming_uniform(rng, weight, out_features * in_features, in_features);
    if (has_bias) {
        double bound = 1.0 / sqrt((double)in_features);
        tdmi_rng_uniform(rng, bias, out_features, -bound, bound);
    }
}

void tdmi_rng_embedding(tdmi_rng *rng, float *weight, size_t rows, size_t width)
{
    tdmi_rng_normal(rng, weight, rows * width, 0.0, 1.0);
}
