/* vector.h - the vector type that the files of this folder are written in: 16 floats on AVX-512, else 8. Every file is
 * compiled once for each instruction set; SIMD_NAME(x) is the name of x in this build. Loads and stores take any alignment. */
#ifndef TDMI_KERNELS_SIMD_VECTOR_H
#define TDMI_KERNELS_SIMD_VECTOR_H

#include "core/cpu.h"

#include <tandem/dtype.h>

#include <immintrin.h>
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

INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

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

/* bfloat16 and float16 as 16-bit lanes, half as many bytes as a vector of floats. Rounding is to nearest even; a NaN becomes the
 * quiet NaN 0x7fc0 of bfloat16, as core/dtype.h does it one at a time. */
typedef uint16_t vh __attribute__((vector_size(2 * LANES)));
typedef uint16_t vh_unaligned __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));

INLINE vf from_half(tdm_dtype type, vh h)
{
    if (type == TDM_BF16)
        return (vf)(__builtin_convertvector(h, vu) << 16);
#if LANES == 16
    return (vf)_mm512_cvtph_ps((__m256i)h);
#else
    return (vf)_mm256_cvtph_ps((__m128i)h);
#endif
}

INLINE vh to_half(tdm_dtype type, vf v)
{
    if (type == TDM_BF16) {
        const vu bits = (vu)v, rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        const vu is_nan = (vu)(v != v);
        const vu result = (rounded & ~is_nan) | (0x7fc0u & is_nan);
#if LANES == 16
        return (vh)_mm512_cvtepi32_epi16((__m512i)result);
#else
        const __m256i packed = _mm256_packus_epi32((__m256i)result, (__m256i)result);
        return (vh)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#endif
    }
#if LANES == 16
    return (vh)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
#else
    return (vh)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#endif
}

/* Element i on of a tensor of the type; `type` is a constant wherever these are used. */
INLINE vf load_as(tdm_dtype type, const void *p, int64_t i)
{
    if (type == TDM_F32)
        return load((const float *)p + i);
    return from_half(type, (vh) * (const vh_unaligned *)((const uint16_t *)p + i));
}

INLINE void store_as(tdm_dtype type, void *p, int64_t i, vf v)
{
    if (type == TDM_F32)
        store((float *)p + i, v);
    else
        *(vh_unaligned *)((uint16_t *)p + i) = (vh_unaligned)to_half(type, v);
}

/* The first n < LANES elements, as load_part and store_part. */
INLINE vf load_part_as(tdm_dtype type, const void *p, int64_t i, int64_t n, float rest)
{
    if (type == TDM_F32)
        return load_part((const float *)p + i, n, rest);
    vh half = {0};
    memcpy(&half, (const uint16_t *)p + i, (size_t)n * sizeof(uint16_t));
    float lane[LANES];
    store(lane, from_half(type, half));
    return load_part(lane, n, rest);
}

INLINE void store_part_as(tdm_dtype type, void *p, int64_t i, vf v, int64_t n)
{
    if (type == TDM_F32) {
        store_part((float *)p + i, v, n);
        return;
    }
    const vh half = to_half(type, v);
    memcpy((uint16_t *)p + i, &half, (size_t)n * sizeof(uint16_t));
}

/* Elements [i, end) of which this is the vector at i: whole, or its first part. */
INLINE vf part_as(tdm_dtype type, const void *p, int64_t i, int64_t end)
{
    return end - i >= LANES ? load_as(type, p, i) : load_part_as(type, p, i, end - i, 0.0f);
}

INLINE void put_as(tdm_dtype type, void *p, int64_t i, int64_t end, vf v)
{
    if (end - i >= LANES)
        store_as(type, p, i, v);
    else
        store_part_as(type, p, i, v, end - i);
}

/* X(type) with the constant that `dtype` is. */
#define FOR_TYPE(dtype, X)                                                                                             \
    do {                                                                                                               \
        if ((dtype) == TDM_BF16) {                                                                                     \
            X(TDM_BF16);                                                                                               \
        } else if ((dtype) == TDM_F16) {                                                                               \
            X(TDM_F16);                                                                                                \
        } else {                                                                                                       \
            X(TDM_F32);                                                                                                \
        }                                                                                                              \
    } while (0)

/* Elements from `at` on of one type become those from to_at on of another. */
INLINE void copy_row(tdm_dtype type, tdm_dtype to_type, const void *from, int64_t at, void *to, int64_t to_at, int64_t columns)
{
    int64_t c = 0;
    for (; c + 4 * LANES <= columns; c += 4 * LANES)
        UNROLL
        for (int i = 0; i < 4; i++)
            store_as(to_type, to, to_at + c + i * LANES, load_as(type, from, at + c + i * LANES));
    for (; c < columns; c += LANES)
        put_as(to_type, to, to_at + c, to_at + columns, part_as(type, from, at + c, at + columns));
}

/* Rows of `columns` elements, `row` apart from element `at` on, as float32 side by side. */
static inline void widen_rows(tdm_dtype type, const void *from, int64_t at, int64_t row, int64_t rows, int64_t columns, float *to)
{
    for (int64_t r = 0; r < rows; r++, at += row, to += columns) {
#define ROW(T) copy_row(T, TDM_F32, from, at, to, 0, columns)
        FOR_TYPE(type, ROW);
#undef ROW
    }
}

/* And back: rows of float32, from_row apart. */
static inline void narrow_rows(tdm_dtype type, const float *from, int64_t from_row, int64_t rows, int64_t columns, void *to, int64_t at,
                               int64_t row)
{
    for (int64_t r = 0; r < rows; r++, at += row, from += from_row) {
#define ROW(T) copy_row(TDM_F32, T, from, 0, to, at, columns)
        FOR_TYPE(type, ROW);
#undef ROW
    }
}

INLINE vf splat(float value)
{
    return value - (vf){0};
}

INLINE vi as_int(vf v)
{
    return (vi)v;
}

INLINE vf as_float(vi v)
{
    return (vf)v;
}

/* Lane by lane the larger, the smaller; b where either is NaN. Compilers make four instructions of a comparison and a choice
 * where one does it. */
INLINE vf larger(vf a, vf b)
{
#if LANES == 16
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#endif
}

INLINE vf smaller(vf a, vf b)
{
#if LANES == 16
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#else
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#endif
}

/* a in the first n lanes, b in the others; n may be out of range. */
INLINE vf first_lanes(int64_t n, vf a, vf b)
{
#if LANES == 16
    const vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
    const vi lane = {0, 1, 2, 3, 4, 5, 6, 7};
#endif
    const vi mask = lane < (int32_t)(n < 0 ? 0 : n > LANES ? LANES : n);
    return as_float((mask & as_int(a)) | (~mask & as_int(b)));
}

/* 2^x within 2 units in the last place; 2^-126 below that, 2^127 above, NaN for NaN. With x = n + r, |r| <= 1/2, it is 2^n 2^r;
 * adding 1.5 x 2^23 rounds to n and leaves n in the low bits. The powers of r are those of least relative error. */
INLINE vf power_of_2(vf x)
{
    const vf rounder = splat(12582912.0f);
    x = smaller(splat(127.0f), larger(splat(-126.0f), x));
    const vf shifted = x + rounder, n = shifted - rounder, r = x - n;
    vf p = r * 1.535336189e-4f + 1.339887442e-3f;
    p = p * r + 9.618437358e-3f;
    p = p * r + 5.550332471e-2f;
    p = p * r + 2.402264791e-1f;
    p = p * r + 6.931472029e-1f;
    p = p * r + 1.0f;
#if LANES == 16
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    return p * as_float((as_int(shifted) << 23) + 0x3f800000);
#endif
}

#define LOG2_E 1.44269504088896341f

/* exp of an x that was rounded once more: within |x| units in the last place, and 2. */
INLINE vf exponential(vf x)
{
    return power_of_2(x * LOG2_E);
}

/* Of all lanes, in the order of a balanced tree. */
INLINE float sum_lanes(vf v)
{
#if LANES == 16
    return _mm512_reduce_add_ps((__m512)v);
#else
    __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
#endif
}

INLINE float largest_lane(vf v)
{
#if LANES == 16
    return _mm512_reduce_max_ps((__m512)v);
#else
    __m128 s = _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
#endif
}

#endif
