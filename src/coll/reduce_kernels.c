/* reduce_kernels.c - inner loops of reductions in plain vector types. Built once per instruction set (meson.build) with
 * KERNELS naming the table; the width follows the set. Every set gives the same bits: lanes never meet, nothing is fused,
 * and a tail is the same code on a padded vector. */
#include "coll/reduce_kernels.h"

#include "coll/reduce_vectors.h"

#include <string.h>

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
        (void)p1, (void)p2, (void)p3;                                                                                  \
        unsigned char *out = acc, pad[K][VB];                                                                          \
        size_t at = 0;                                                                                                 \
        for (; count >= LANES; count -= LANES, at += LANES * (stored_bytes), out += VB) {                              \
            V v = TREE_##K(load, op);                                                                                  \
            memcpy(out, &v, VB);                                                                                       \
        }                                                                                                              \
        if (count == 0)                                                                                                \
            return;                                                                                                    \
        for (int i = 0; i < K; i++)                                                                                    \
            take_rest(pad[i], (const unsigned char *)in[i] + at, count * (stored_bytes));                              \
        p0 = pad[0], p1 = pad[1 < K ? 1 : 0], p2 = pad[2 < K ? 2 : 0], p3 = pad[3 < K ? 3 : 0];                        \
        at = 0;                                                                                                        \
        V v = TREE_##K(load, op);                                                                                      \
        give_rest(out, (const unsigned char *)&v, count * (lane_bytes));                                               \
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

/* Sums of 64-bit integers that must be exact take 128 bits, one at a time. */
__extension__ typedef __int128 i128;
#define WIDEST_LOAD(name, T)                                                                                           \
    static inline i128 load_wide_##name(const unsigned char *from) { T v; memcpy(&v, from, sizeof v); return v; }
WIDEST_LOAD(i64, int64_t)
WIDEST_LOAD(u64, uint64_t)
WIDEST_LOAD(i128, i128)
static inline i128 sum_i128(i128 a, i128 b) { return a + b; }

#define WIDEST_FOLD(name, part, K, stored_bytes)                                                                       \
    static void wide_##name##_##part##_##K(const void *const *in, void *acc, size_t count)                             \
    {                                                                                                                  \
        const unsigned char *p0 = in[0], *p1 = in[1 < K ? 1 : 0], *p2 = in[2 < K ? 2 : 0], *p3 = in[3 < K ? 3 : 0];    \
        (void)p1, (void)p2, (void)p3;                                                                                  \
        for (size_t i = 0, at = 0; i < count; i++, at += (stored_bytes)) {                                             \
            i128 v = TREE_##K(load_wide_##name, sum_i128);                                                             \
            memcpy((char *)acc + i * sizeof v, &v, sizeof v);                                                          \
        }                                                                                                              \
    }
#define WIDEST_FOLDS(name, stored_bytes)                                                                               \
    WIDEST_FOLD(name, widen, 1, stored_bytes)                                                                          \
    WIDEST_FOLD(name, sum, 2, stored_bytes)                                                                            \
    WIDEST_FOLD(name, sum, 3, stored_bytes)                                                                            \
    WIDEST_FOLD(name, sum, 4, stored_bytes)
WIDEST_FOLDS(i64, 8)
WIDEST_FOLDS(u64, 8)
WIDEST_FOLD(i128, sum, 2, 16)

/* ---- sums of two, given to two ---- */

/* Some vectors are read from both before any of them is written: a store that agrees modulo 4096 with a load behind it holds it up. */
#define TOGETHER 4
#define SUM_BOTH(name, V, nbytes)                                                                                      \
    static void sum_both_##name(const void *a, const void *b, void *out0, void *out1, size_t count)                    \
    {                                                                                                                  \
        const unsigned char *p0 = a, *p1 = b;                                                                          \
        unsigned char *to0 = out0, *to1 = out1;                                                                        \
        const size_t end = count * (nbytes);                                                                           \
        size_t at = 0;                                                                                                 \
        for (; end - at >= TOGETHER * VB; at += TOGETHER * VB) {                                                       \
            V v[TOGETHER];                                                                                             \
            for (size_t i = 0; i < TOGETHER; i++)                                                                      \
                v[i] = sum_##name(load_##name(p0 + at + i * VB), load_##name(p1 + at + i * VB));                       \
            for (size_t i = 0; i < TOGETHER; i++)                                                                      \
                memcpy(to0 + at + i * VB, &v[i], VB);                                                                  \
            for (size_t i = 0; i < TOGETHER; i++)                                                                      \
                memcpy(to1 + at + i * VB, &v[i], VB);                                                                  \
        }                                                                                                              \
        const size_t left = end - at;                                                                                  \
        if (left == 0)                                                                                                 \
            return;                                                                                                    \
        unsigned char rest[TOGETHER * VB];                                                                             \
        name##_sum_2((const void *[]){p0 + at, p1 + at}, rest, left / (nbytes));                                       \
        memcpy(to0 + at, rest, left);                                                                                  \
        memcpy(to1 + at, rest, left);                                                                                  \
    }
SUM_BOTH(f32, vf32, 4)
SUM_BOTH(f64, vf64, 8)
SUM_BOTH(i32, vi32, 4)
SUM_BOTH(i64, vi64, 8)
SUM_BOTH(i8, vi8, 1)
SUM_BOTH(u8, vu8, 1)
SUM_BOTH(u32, vu32, 4)
SUM_BOTH(u64, vu64, 8)

/* ---- taking what another core has written, and writing there what it is to read next ---- */

/* A line is fetched once for both. Some vectors are read before any is written, and lines are asked for some way ahead: each
 * of the two takes 5 % off an allreduce of 1 MiB. */
#define FEW 4
#define AHEAD_BYTES 512

static inline void ask_ahead(const unsigned char *from)
{
    for (size_t i = 0; i < FEW * VB; i += 64)
        __builtin_prefetch((const void *)((uintptr_t)from + AHEAD_BYTES + i));
}

/* to <- take(at), then old <- then, [end] bytes as far as whole batches go; gives back how far. */
#define TAKE(V, take)                                                                                                  \
    size_t at = 0;                                                                                                     \
    for (; end - at >= FEW * VB; at += FEW * VB) {                                                                     \
        V v[FEW], w[FEW];                                                                                              \
        ask_ahead(old + at);                                                                                           \
        for (size_t i = 0; i < FEW; i++) {                                                                             \
            v[i] = take;                                                                                               \
            if (refills)                                                                                               \
                memcpy(&w[i], then + at + i * VB, VB);                                                                 \
        }                                                                                                              \
        for (size_t i = 0; i < FEW; i++)                                                                               \
            memcpy(to + at + i * VB, &v[i], VB);                                                                       \
        for (size_t i = 0; i < FEW && refills; i++)                                                                    \
            memcpy(old + at + i * VB, &w[i], VB);                                                                      \
    }

#define SUM_TAKE(name, V, nbytes)                                                                                      \
    __attribute__((always_inline)) static inline void sum_pass_##name(const unsigned char *p0, const unsigned char *p1, \
                                                                      unsigned char *to, unsigned char *old,           \
                                                                      const unsigned char *then, size_t end, bool refills) \
    {                                                                                                                  \
        TAKE(V, sum_##name(load_##name(p0 + at + i * VB), load_##name(p1 + at + i * VB)))                              \
        name##_sum_2((const void *[]){p0 + at, p1 + at}, to + at, (end - at) / (nbytes));                              \
        if (refills)                                                                                                   \
            memcpy(old + at, then + at, end - at);                                                                     \
    }                                                                                                                  \
    static void sum_take_##name(const void *a, const void *b, void *out, void *used, const void *next, size_t count)   \
    {                                                                                                                  \
        if (next != NULL)                                                                                              \
            sum_pass_##name(a, b, out, used, next, count * (nbytes), true);                                            \
        else                                                                                                           \
            sum_pass_##name(a, b, out, used, NULL, count * (nbytes), false);                                           \
    }
SUM_TAKE(f32, vf32, 4)
SUM_TAKE(f64, vf64, 8)
SUM_TAKE(i32, vi32, 4)
SUM_TAKE(i64, vi64, 8)
SUM_TAKE(i8, vi8, 1)
SUM_TAKE(u8, vu8, 1)
SUM_TAKE(u32, vu32, 4)
SUM_TAKE(u64, vu64, 8)

__attribute__((always_inline)) static inline void copy_pass(unsigned char *to, unsigned char *old, const unsigned char *then,
                                                            size_t end, bool refills)
{
    TAKE(vu8, load_u8(old + at + i * VB))
    memcpy(to + at, old + at, end - at);
    if (refills)
        memcpy(old + at, then + at, end - at);
}

static void copy_take(void *out, void *used, const void *next, size_t nbytes)
{
    if (next != NULL)
        copy_pass(out, used, next, nbytes, true);
    else
        copy_pass(out, used, NULL, nbytes, false);
}

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
#define AVERAGE_INTEGER(name, T, S)                                                                                     \
    static void average_##name(const void *acc, void *out, size_t count, int n)                                        \
    {                                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            S sum;                                                                                                     \
            memcpy(&sum, (const char *)acc + i * sizeof sum, sizeof sum);                                              \
            T average = (T)(sum / n);                                                                                  \
            memcpy((char *)out + i * sizeof average, &average, sizeof average);                                        \
        }                                                                                                              \
    }
AVERAGE_INTEGER(i32, int32_t, int64_t)
AVERAGE_INTEGER(i64, int64_t, i128)
AVERAGE_INTEGER(i8, int8_t, int64_t)
AVERAGE_INTEGER(u8, uint8_t, int64_t)
AVERAGE_INTEGER(u32, uint32_t, int64_t)
AVERAGE_INTEGER(u64, uint64_t, i128)

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
             [TDM_I64] = {NUMBERS(i64, wide_i64), BITS(u64)},
             [TDM_I8] = {NUMBERS(i8, wide_i8), BITS(u8)},
             [TDM_U8] = {NUMBERS(u8, wide_u8), BITS(u8)},
             [TDM_U32] = {NUMBERS(u32, wide_u32), BITS(u32)},
             [TDM_U64] = {NUMBERS(u64, wide_u64), BITS(u64)},
             [TDM_BOOL] = {[TDM_SUM] = ROW(truth, bor), [TDM_MAX] = ROW(truth, bor), [TDM_MIN] = ROW(truth, band),
                           [TDM_PROD] = ROW(truth, band), BITS(truth)},
             [TDM_C64] = {[TDM_SUM] = ROW(c64, sum), [TDM_AVG] = ROW(c64, sum), [TDM_PROD] = ROW(c64, prod)},
             [TDMI_I128] = {[TDM_SUM] = {[1] = wide_i128_sum_2}}},
    .finish = {[TDM_F32] = {[TDM_AVG] = average_f32},
               [TDM_F64] = {[TDM_AVG] = average_f64},
               [TDM_BF16] = HALF_FINISHES(bf16),
               [TDM_F16] = HALF_FINISHES(f16),
               [TDM_I32] = {[TDM_AVG] = average_i32},
               [TDM_I64] = {[TDM_AVG] = average_i64},
               [TDM_I8] = {[TDM_AVG] = average_i8},
               [TDM_U8] = {[TDM_AVG] = average_u8},
               [TDM_U32] = {[TDM_AVG] = average_u32},
               [TDM_U64] = {[TDM_AVG] = average_u64},
               [TDM_C64] = {[TDM_AVG] = average_c64}},
    .multiply = {[TDM_F32] = multiply_f32, [TDM_F64] = multiply_f64, [TDM_I32] = multiply_u32, [TDM_I64] = multiply_u64,
                 [TDM_I8] = multiply_u8, [TDM_U8] = multiply_u8, [TDM_U32] = multiply_u32, [TDM_U64] = multiply_u64,
                 [TDM_C64] = multiply_c64},
    .sum_both = {[TDM_F32] = sum_both_f32, [TDM_F64] = sum_both_f64, [TDM_I32] = sum_both_i32, [TDM_I64] = sum_both_i64,
                 [TDM_I8] = sum_both_i8, [TDM_U8] = sum_both_u8, [TDM_U32] = sum_both_u32, [TDM_U64] = sum_both_u64},
    .sum_take = {[TDM_F32] = sum_take_f32, [TDM_F64] = sum_take_f64, [TDM_I32] = sum_take_i32, [TDM_I64] = sum_take_i64,
                 [TDM_I8] = sum_take_i8, [TDM_U8] = sum_take_u8, [TDM_U32] = sum_take_u32, [TDM_U64] = sum_take_u64},
    .copy_take = copy_take,
    .stream = stream,
};
