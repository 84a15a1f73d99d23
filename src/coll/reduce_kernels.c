/* reduce_kernels.c - inner loops of reductions in plain vector types. Built once per instruction set (meson.build) with
 * KERNELS naming the table; the width follows the set. Every set gives the same bits: lanes never meet, nothing is fused,
 * and a tail is the same code on a padded vector. */
#include "coll/reduce_kernels.h"

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

/* ---- folds: the canonical tree over one to four leaves in one pass ---- */

#define TREE_1(load, op) load(p0 + at)
#define TREE_2(load, op) op(load(p0 + at), load(p1 + at))
#define TREE_3(load, op) op(op(load(p0 + at), load(p1 + at)), load(p2 + at))
#define TREE_4(load, op) op(op(load(p0 + at), load(p1 + at)), op(load(p2 + at), load(p3 + at)))

#define FOLD(name, K, V, lane_bytes, stored_bytes, load, op)                                                           \
    static void name##_##K(const void *const *in, void *acc, size_t count)                                             \
    {                                                                                                                  \
        enum { LANES = VB / (lane_bytes) };                                                                            \
        const unsigned char *p0 = in[0], *p1 = in[1 < K ? 1 : 0], *p2 = in[2 < K ? 2 : 0], *p3 = in[3 < K ? 3 : 0];    \
        unsigned char *out = acc, pad[4][VB] = {{0}};                                                                  \
        size_t at = 0;                                                                                                 \
        for (; count >= LANES; count -= LANES, at += LANES * (stored_bytes), out += VB) {                              \
            V v = TREE_##K(load, op);                                                                                  \
            memcpy(out, &v, VB);                                                                                       \
        }                                                                                                              \
        if (count == 0)                                                                                                \
            return;                                                                                                    \
        p0 = memcpy(pad[0], p0 + at, count * (stored_bytes));                                                          \
        p1 = memcpy(pad[1], p1 + at, count * (stored_bytes));                                                          \
        p2 = memcpy(pad[2], p2 + at, count * (stored_bytes));                                                          \
        p3 = memcpy(pad[3], p3 + at, count * (stored_bytes));                                                          \
        at = 0;                                                                                                        \
        V v = TREE_##K(load, op);                                                                                      \
        memcpy(out, &v, count * (lane_bytes));                                                                         \
    }
#define FOLDS(name, V, lane_bytes, stored_bytes, load, op)                                                             \
    FOLD(name, 2, V, lane_bytes, stored_bytes, load, op)                                                               \
    FOLD(name, 3, V, lane_bytes, stored_bytes, load, op)                                                               \
    FOLD(name, 4, V, lane_bytes, stored_bytes, load, op)
#define FOLDS_OF_DTYPE(name, V, lane_bytes, stored_bytes, acc)                                                         \
    FOLD(name##_widen, 1, V, lane_bytes, stored_bytes, load_##name, sum_##acc)                                         \
    FOLDS(name##_sum, V, lane_bytes, stored_bytes, load_##name, sum_##acc)                                             \
    FOLDS(name##_min, V, lane_bytes, stored_bytes, load_##name, min_##acc)                                             \
    FOLDS(name##_max, V, lane_bytes, stored_bytes, load_##name, max_##acc)                                             \
    FOLDS(name##_prod, V, lane_bytes, stored_bytes, load_##name, prod_##acc)
#define BIT_FOLDS(name, V, nbytes)                                                                                     \
    FOLDS(name##_band, V, nbytes, nbytes, load_##name, band_##name)                                                    \
    FOLDS(name##_bor, V, nbytes, nbytes, load_##name, bor_##name)                                                      \
    FOLDS(name##_bxor, V, nbytes, nbytes, load_##name, bxor_##name)
#define WIDE_FOLDS(name, stored_bytes)                                                                                 \
    FOLD(wide_##name##_widen, 1, vi64, 8, stored_bytes, load_wide_##name, sum_i64)                                     \
    FOLDS(wide_##name##_sum, vi64, 8, stored_bytes, load_wide_##name, sum_i64)

FOLDS_OF_DTYPE(f32, vf32, 4, 4, f32)
FOLDS_OF_DTYPE(f64, vf64, 8, 8, f64)
FOLDS_OF_DTYPE(bf16, vf32, 4, 2, f32)
FOLDS_OF_DTYPE(f16, vf32, 4, 2, f32)
FOLDS_OF_DTYPE(i32, vi32, 4, 4, i32)
FOLDS_OF_DTYPE(i64, vi64, 8, 8, i64)
FOLDS_OF_DTYPE(i8, vi8, 1, 1, i8)
FOLDS_OF_DTYPE(u8, vu8, 1, 1, u8)
FOLDS_OF_DTYPE(u32, vu32, 4, 4, u32)
FOLDS_OF_DTYPE(u64, vu64, 8, 8, u64)
BIT_FOLDS(u8, vu8, 1)
BIT_FOLDS(u32, vu32, 4)
BIT_FOLDS(u64, vu64, 8)
FOLD(truth_widen, 1, vu8, 1, 1, load_truth, bor_u8)
FOLDS(truth_band, vu8, 1, 1, load_truth, band_u8)
FOLDS(truth_bor, vu8, 1, 1, load_truth, bor_u8)
FOLDS(truth_bxor, vu8, 1, 1, load_truth, bxor_u8)
FOLD(c64_widen, 1, vf32, 8, 8, load_f32, sum_f32)
FOLDS(c64_sum, vf32, 8, 8, load_f32, sum_f32)
FOLDS(c64_prod, vf32, 8, 8, load_f32, prod_c64)
WIDE_FOLDS(i8, 1)
WIDE_FOLDS(u8, 1)
WIDE_FOLDS(i32, 4)
WIDE_FOLDS(u32, 4)

/* ---- multiplying by one number ---- */

#define MULTIPLY(name, V, nbytes, load)                                                                                \
    static void multiply_##name(const void *in, void *out, size_t count, const void *scalar)                           \
    {                                                                                                                  \
        enum { LANES = VB / (nbytes) };                                                                                \
        const unsigned char *from = in;                                                                                \
        unsigned char *to = out, pad[VB] = {0};                                                                        \
        for (size_t i = 0; i < VB; i += (nbytes))                                                                      \
            memcpy(pad + i, scalar, nbytes);                                                                           \
        const V factor = load(pad);                                                                                    \
        for (; count >= LANES; count -= LANES, from += VB, to += VB) {                                                 \
            V v = prod_##name(load(from), factor);                                                                     \
            memcpy(to, &v, VB);                                                                                        \
        }                                                                                                              \
        memcpy(pad, from, count * (nbytes));                                                                           \
        V v = prod_##name(load(pad), factor);                                                                          \
        memcpy(to, &v, count * (nbytes));                                                                              \
    }
MULTIPLY(f32, vf32, 4, load_f32)
MULTIPLY(f64, vf64, 8, load_f64)
MULTIPLY(c64, vf32, 8, load_f32)
MULTIPLY(u8, vu8, 1, load_u8)
MULTIPLY(u32, vu32, 4, load_u32)
MULTIPLY(u64, vu64, 8, load_u64)

/* ---- finishing ---- */

#define AVERAGE_FLOAT(name, element, of, per)                                                                          \
    static void average_##name(const void *acc, void *out, size_t count, int n)                                        \
    {                                                                                                                  \
        const element scale = (element)1 / (element)n;                                                                 \
        multiply_##of(acc, out, count * (per), &scale);                                                                \
    }
AVERAGE_FLOAT(f32, float, f32, 1)
AVERAGE_FLOAT(f64, double, f64, 1)
AVERAGE_FLOAT(c64, float, f32, 2)

/* x * 1 keeps every x, so the other operations scale too instead of having a second loop. */
#define FINISH_HALF(name)                                                                                              \
    static void scale_##name(const void *acc, void *out, size_t count, float scale)                                    \
    {                                                                                                                  \
        enum { LANES = VB / sizeof(float) };                                                                           \
        const unsigned char *from = acc;                                                                               \
        unsigned char *to = out, pad[VB] = {0};                                                                        \
        for (; count >= LANES; count -= LANES, from += VB, to += VB / 2) {                                             \
            half_lanes h = round_##name(load_f32(from) * scale);                                                       \
            memcpy(to, &h, sizeof h);                                                                                  \
        }                                                                                                              \
        memcpy(pad, from, count * sizeof(float));                                                                      \
        half_lanes h = round_##name(load_f32(pad) * scale);                                                            \
        memcpy(to, &h, count * sizeof(uint16_t));                                                                      \
    }                                                                                                                  \
    static void finish_##name(const void *acc, void *out, size_t count, int n)                                         \
    {                                                                                                                  \
        (void)n;                                                                                                       \
        scale_##name(acc, out, count, 1.0f);                                                                           \
    }                                                                                                                  \
    static void average_##name(const void *acc, void *out, size_t count, int n)                                        \
    {                                                                                                                  \
        scale_##name(acc, out, count, 1.0f / (float)n);                                                                \
    }
FINISH_HALF(bf16)
FINISH_HALF(f16)

/* Division truncates toward zero; the average lies between the inputs, so it fits. */
#define AVERAGE_INTEGER(name, T)                                                                                       \
    static void average_##name(const void *acc, void *out, size_t count, int n)                                        \
    {                                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            int64_t sum;                                                                                               \
            memcpy(&sum, (const char *)acc + i * sizeof sum, sizeof sum);                                              \
            T average = (T)(sum / n);                                                                                  \
            memcpy((char *)out + i * sizeof average, &average, sizeof average);                                        \
        }                                                                                                              \
    }
AVERAGE_INTEGER(i32, int32_t)
AVERAGE_INTEGER(i64, int64_t)
AVERAGE_INTEGER(i8, int8_t)
AVERAGE_INTEGER(u8, uint8_t)
AVERAGE_INTEGER(u32, uint32_t)

static void stream(void *out, const void *in, size_t nbytes)
{
#if defined(__x86_64__)
    unsigned char *to = out;
    const unsigned char *from = in;
    size_t head = (size_t)(-(uintptr_t)to & 63u);
    if (head > nbytes)
        head = nbytes;
    memcpy(to, from, head);
    size_t at = head;
    for (; at + 64 <= nbytes; at += 64)
        for (size_t part = 0; part < 64; part += VB) {
#if VB == 64
            _mm512_stream_si512((void *)(to + at + part), _mm512_loadu_si512(from + at + part));
#elif VB == 32
            _mm256_stream_si256((void *)(to + at + part), _mm256_loadu_si256((const void *)(from + at + part)));
#else
            _mm_stream_si128((void *)(to + at + part), _mm_loadu_si128((const void *)(from + at + part)));
#endif
        }
    memcpy(to + at, from + at, nbytes - at);
#else
    memcpy(out, in, nbytes);
#endif
}

/* ---- the table ---- */

#define ROW(name, op) {name##_widen_1, name##_##op##_2, name##_##op##_3, name##_##op##_4}
#define NUMBERS(name, average)                                                                                         \
    [TDM_SUM] = ROW(name, sum), [TDM_AVG] = ROW(average, sum), [TDM_MIN] = ROW(name, min), [TDM_MAX] = ROW(name, max), \
    [TDM_PROD] = ROW(name, prod)
#define BITS(name) [TDM_BAND] = ROW(name, band), [TDM_BOR] = ROW(name, bor), [TDM_BXOR] = ROW(name, bxor)
#define HALF_FINISHES(name) {finish_##name, average_##name, finish_##name, finish_##name, finish_##name}

/* What has no row does not exist: tdmi_op_check says the same. */
const tdmi_reduce_kernels KERNELS = {
    .fold = {[TDM_F32] = {NUMBERS(f32, f32)},
             [TDM_F64] = {NUMBERS(f64, f64)},
             [TDM_BF16] = {NUMBERS(bf16, bf16)},
             [TDM_F16] = {NUMBERS(f16, f16)},
             [TDM_I32] = {NUMBERS(i32, wide_i32), BITS(u32)},
             [TDM_I64] = {NUMBERS(i64, i64), BITS(u64)},
             [TDM_I8] = {NUMBERS(i8, wide_i8), BITS(u8)},
             [TDM_U8] = {NUMBERS(u8, wide_u8), BITS(u8)},
             [TDM_U32] = {NUMBERS(u32, wide_u32), BITS(u32)},
             [TDM_U64] = {NUMBERS(u64, u64), BITS(u64)},
             [TDM_BOOL] = {[TDM_SUM] = ROW(truth, bor), [TDM_MAX] = ROW(truth, bor), [TDM_MIN] = ROW(truth, band),
                           [TDM_PROD] = ROW(truth, band), BITS(truth)},
             [TDM_C64] = {[TDM_SUM] = ROW(c64, sum), [TDM_AVG] = ROW(c64, sum), [TDM_PROD] = ROW(c64, prod)}},
    .finish = {[TDM_F32] = {[TDM_AVG] = average_f32},
               [TDM_F64] = {[TDM_AVG] = average_f64},
               [TDM_BF16] = HALF_FINISHES(bf16),
               [TDM_F16] = HALF_FINISHES(f16),
               [TDM_I32] = {[TDM_AVG] = average_i32},
               [TDM_I64] = {[TDM_AVG] = average_i64},
               [TDM_I8] = {[TDM_AVG] = average_i8},
               [TDM_U8] = {[TDM_AVG] = average_u8},
               [TDM_U32] = {[TDM_AVG] = average_u32},
               [TDM_C64] = {[TDM_AVG] = average_c64}},
    .multiply = {[TDM_F32] = multiply_f32, [TDM_F64] = multiply_f64, [TDM_I32] = multiply_u32, [TDM_I64] = multiply_u64,
                 [TDM_I8] = multiply_u8, [TDM_U8] = multiply_u8, [TDM_U32] = multiply_u32, [TDM_U64] = multiply_u64,
                 [TDM_C64] = multiply_c64},
    .stream = stream,
};
