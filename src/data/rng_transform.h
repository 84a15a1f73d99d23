/* rng_transform.h - from raw draws to uniform and normal numbers, the arithmetic alone; one build per instruction set with
 * equal bits (every fused operation is written as fmaf, nothing else may be fused). */
#ifndef TDMI_DATA_RNG_TRANSFORM_H
#define TDMI_DATA_RNG_TRANSFORM_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    /* out[i] = (low 24 bits of draws[i]) 2^-24 width + low, fused; a result equal to `high` becomes `low`. */
    void (*uniform)(const uint32_t *draws, float *out, size_t count, float low, float high);
    /* Box-Muller in blocks of 16: draws[k] and draws[k+8] of a block give out[k] (cosine) and out[k+8] (sine).
     * draws, out [16 blocks] */
    void (*normal)(const uint32_t *draws, float *out, size_t blocks, float mean, float std);
} tdmi_rng_transform;

extern const tdmi_rng_transform tdmi_rng_transform_plain;
extern const tdmi_rng_transform tdmi_rng_transform_avx2;
/* PyTorch's baseline code: separate rounding, logarithm and angles from the C library. Other bits than the two above. */
extern const tdmi_rng_transform tdmi_rng_transform_default;

/* A draw as a float in [0, 1): exact. */
static inline float tdmi_rng_unit(uint32_t draw)
{
    return (float)(int32_t)(draw & 0xffffffu) * 0x1p-24f;
}

#endif
