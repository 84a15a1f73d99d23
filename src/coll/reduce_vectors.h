/* reduce_vectors.h - vectors of the width of one instruction set: loads that widen, operations, rounding to halves. Only
 * reduce_kernels.c and compress/cast_kernels.c, which are built once per set, include it. */
#ifndef TDMI_COLL_REDUCE_VECTORS_H
#define TDMI_COLL_REDUCE_VECTORS_H

#include "core/dtype.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VB 64
#elif defined(__AVX2__)
#define VB 32
#else
#define VB 16
#endif

#define VECTOR(name, element, divisor) typedef element name __attribute__((vector_size(VB / (divisor))))
VECTOR(vf32, float, 1);
VECTOR(vf64, double, 1);
VECTOR(vi8, int8_t, 1);
VECTOR(vu8, uint8_t, 1);
VECTOR(vi32, int32_t, 1);
VECTOR(vu32, uint32_t, 1);
VECTOR(vi64, int64_t, 1);
VECTOR(vu64, uint64_t, 1);
VECTOR(half_lanes, uint16_t, 2); /* as many 16-bit lanes as vf32 has */
VECTOR(i32_lanes, int32_t, 2);   /* as many lanes as vi64 has */
VECTOR(i8_lanes, int8_t, 8);
VECTOR(u8_lanes, uint8_t, 8);
VECTOR(u32_lanes, uint32_t, 2);

/* ---- what is less than a vector ---- */

/* pad <- nbytes < VB, and zeros. Short calls are all rest: no call of memcpy, and a store that the load behind it can take over. */
static inline void take_rest(unsigned char pad[VB], const unsigned char *from, size_t nbytes)
{
#if defined(__AVX512BW__)
    _mm512_storeu_si512(pad, _mm512_maskz_loadu_epi8(((__mmask64)1 << nbytes) - 1, from));
#else
    memset(pad, 0, VB);
    memcpy(pad, from, nbytes);
#endif
}

static inline void give_rest(unsigned char *to, const unsigned char v[VB], size_t nbytes)
{
#if defined(__AVX512BW__)
    _mm512_mask_storeu_epi8(to, ((__mmask64)1 << nbytes) - 1, _mm512_loadu_si512(v));
#else
    memcpy(to, v, nbytes);
#endif
}

/* ---- operations ---- */

/* Integers wrap: sums and products are those of the unsigned type. */
#define INTEGER_OPS(name, V, U)                                                                                        \
    static inline V sum_##name(V a, V b) { return (V)((U)a + (U)b); }                                                  \
    static inline V prod_##name(V a, V b) { return (V)((U)a * (U)b); }                                                 \
    static inline V min_##name(V a, V b) { V less = (V)(a < b); return (a & less) | (b & ~less); }                     \
    static inline V max_##name(V a, V b) { V less = (V)(a < b); return (b & less) | (a & ~less); }
INTEGER_OPS(i8, vi8, vu8)
INTEGER_OPS(u8, vu8, vu8)
INTEGER_OPS(i32, vi32, vu32)
INTEGER_OPS(i64, vi64, vu64)
INTEGER_OPS(u32, vu32, vu32)
INTEGER_OPS(u64, vu64, vu64)

#define BIT_OPS(name, V)                                                                                               \
    static inline V band_##name(V a, V b) { return a & b; }                                                            \
    static inline V bor_##name(V a, V b) { return a | b; }                                                             \
    static inline V bxor_##name(V a, V b) { return a ^ b; }
BIT_OPS(u8, vu8)
BIT_OPS(u32, vu32)
BIT_OPS(u64, vu64)

/* Equal floats differ at most in the sign of zero: `or` keeps -0 for min, `and` keeps +0 for max. Where neither a < b nor
 * a > b nor a == b there is a NaN, and a + b is one. */
#define FLOAT_OPS(name, V, I)                                                                                          \
    static inline V sum_##name(V a, V b) { return a + b; }                                                             \
    static inline V prod_##name(V a, V b) { return a * b; }                                                            \
    static inline V min_##name(V a, V b)                                                                               \
    {                                                                                                                  \
        I less = (I)(a < b), more = (I)(a > b), same = (I)(a == b);                                                    \
        return (V)(((I)a & (less | same)) | ((I)b & (more | same)) | ((I)(a + b) & ~(less | more | same)));            \
    }                                                                                                                  \
    static inline V max_##name(V a, V b)                                                                               \
    {                                                                                                                  \
        I less = (I)(a < b), more = (I)(a > b), same = (I)(a == b);                                                    \
        return (V)(((I)a & more) | ((I)b & less) | ((I)a & (I)b & same) | ((I)(a + b) & ~(less | more | same)));       \
    }
FLOAT_OPS(f32, vf32, vi32)
FLOAT_OPS(f64, vf64, vi64)

/* Complex numbers lie as pairs; a pair is handled as one 64-bit lane. t = (a.re b.re, a.re b.im), u = (a.im b.im, a.im b.re);
 * the result is t + (-u.first, u.second). */
static inline vf32 prod_c64(vf32 a, vf32 b)
{
    const vu64 pair = (vu64)a, low = pair & 0xffffffffu, high = pair >> 32, other = (vu64)b;
    const vf32 t = (vf32)(low | low << 32) * b;
    const vf32 u = (vf32)(high | high << 32) * (vf32)(other << 32 | other >> 32);
    return t + (vf32)((vu64)u ^ 0x80000000u);
}

/* ---- loads: one vector of the accumulate type from stored elements ---- */

#define PLAIN_LOAD(name, V)                                                                                            \
    static inline V load_##name(const unsigned char *from) { V v; memcpy(&v, from, sizeof v); return v; }
PLAIN_LOAD(f32, vf32)
PLAIN_LOAD(f64, vf64)
PLAIN_LOAD(i8, vi8)
PLAIN_LOAD(u8, vu8)
PLAIN_LOAD(i32, vi32)
PLAIN_LOAD(i64, vi64)
PLAIN_LOAD(u32, vu32)
PLAIN_LOAD(u64, vu64)

static inline vu8 load_truth(const unsigned char *from)
{
    return (vu8)(load_u8(from) != 0) & 1;
}

#define WIDE_LOAD(name, V)                                                                                             \
    static inline vi64 load_wide_##name(const unsigned char *from)                                                     \
    {                                                                                                                  \
        V v;                                                                                                           \
        memcpy(&v, from, sizeof v);                                                                                    \
        return __builtin_convertvector(v, vi64);                                                                       \
    }
WIDE_LOAD(i8, i8_lanes)
WIDE_LOAD(u8, u8_lanes)
WIDE_LOAD(i32, i32_lanes)
WIDE_LOAD(u32, u32_lanes)

/* Intrinsics for bfloat16: gcc 12 widens in two parts and narrows by a table, which measured a third slower. */
static inline vf32 load_bf16(const unsigned char *from)
{
    half_lanes h;
    memcpy(&h, from, sizeof h);
#if defined(__AVX512F__)
    return (vf32)((vu32)_mm512_cvtepu16_epi32((__m256i)h) << 16);
#elif defined(__AVX2__)
    return (vf32)((vu32)_mm256_cvtepu16_epi32((__m128i)h) << 16);
#else
    return (vf32)(__builtin_convertvector(h, vu32) << 16);
#endif
}

static inline vf32 load_f16(const unsigned char *from)
{
#if defined(__AVX512F__)
    return (vf32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
#elif defined(__F16C__)
    return (vf32)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
#else
    vf32 v;
    for (size_t i = 0; i < VB / sizeof(float); i++) {
        uint16_t h;
        memcpy(&h, from + i * sizeof h, sizeof h);
        v[i] = tdmi_f16_to_f32(h);
    }
    return v;
#endif
}

/* ---- rounding to halves, as core/dtype.h does one at a time ---- */

static inline half_lanes round_bf16(vf32 value)
{
    vu32 bits = (vu32)value;
    vu32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    vu32 nan = (vu32)((vi32)(bits & 0x7fffffffu) > 0x7f800000);
    rounded = (rounded & ~nan) | (nan & 0x7fc0u);
#if defined(__AVX512F__)
    return (half_lanes)_mm512_cvtepi32_epi16((__m512i)rounded);
#elif defined(__AVX2__)
    __m256i packed = _mm256_packus_epi32((__m256i)rounded, (__m256i)rounded); /* each 128-bit half twice */
    return (half_lanes)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#else
    return __builtin_convertvector(rounded, half_lanes);
#endif
}

static inline half_lanes round_f16(vf32 value)
{
#if defined(__F16C__)
#if defined(__AVX512F__)
    half_lanes h = (half_lanes)_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT);
#else
    half_lanes h = (half_lanes)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT);
#endif
    half_lanes nan = (half_lanes)((h & 0x7fff) > 0x7c00);
    return (h & ~nan) | (((h & 0x8000) | 0x7e00) & nan); /* one quiet NaN of each sign, as everywhere in Tandem */
#else
    half_lanes h;
    for (size_t i = 0; i < VB / sizeof(float); i++)
        h[i] = tdmi_f32_to_f16(value[i]);
    return h;
#endif
}

#endif
