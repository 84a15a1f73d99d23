/* vector.h - the vector type that the files of this folder are written in: 16 floats on AVX-512, else 8. Every file is
 * compiled once for each instruction set; SIMD_NAME(x) is the name of x in this build. Loads and stores take any alignment. */
#ifndef TDMI_KERNELS_SIMD_VECTOR_H
#define TDMI_KERNELS_SIMD_VECTOR_H

#include "core/cpu.h"

#include <string.h>

#define SIMD_JOIN2(a, b, c) a##b##_##c
#define SIMD_JOIN(a, b, c) SIMD_JOIN2(a, b, c)
#define SIMD_NAME(name) SIMD_JOIN(tdmi_, SIMD_ISA, name)
#define SIMD_TEXT2(isa) #isa
#define SIMD_TEXT(isa) SIMD_TEXT2(isa)
#define SIMD_LABEL(op) op "/" SIMD_TEXT(SIMD_ISA)

#if defined(__AVX512F__)
#define LANES 16
#define SIMD_NEEDS TDMI_ISA_AVX512
#else
#define LANES 8
#define SIMD_NEEDS TDMI_ISA_AVX2
#endif

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef float vf_unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t vi_unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE vf load(const float *p)
{
    return (vf) * (const vf_unaligned *)p;
}

INLINE void store(float *p, vf v)
{
    *(vf_unaligned *)p = (vf_unaligned)v;
}

/* The first n < LANES elements; the others read as `rest`, and are not written. */
INLINE vf load_part(const float *p, int64_t n, float rest)
{
    float lane[LANES];
    for (int64_t i = 0; i < LANES; i++)
        lane[i] = i < n ? p[i] : rest;
    return load(lane);
}

INLINE void store_part(float *p, vf v, int64_t n)
{
    float lane[LANES];
    store(lane, v);
    memcpy(p, lane, (size_t)n * sizeof *p);
}

INLINE vf splat(float value)
{
    return value - (vf){0};
}

/* Sum of the lanes, in the order of a balanced tree. */
INLINE float sum_lanes(vf v)
{
    float lane[LANES];
    store(lane, v);
    UNROLL
    for (int width = LANES / 2; width > 0; width /= 2)
        UNROLL
        for (int i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0];
}

#endif
