/* test_reduce.c - every dtype and operation against a slow reference, bit for bit. Run once per instruction set. */
#include "coll/reduce.h"

#include "coll/steps.h"
#include "core/cpu.h"
#include "core/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LEAVES = 35, COUNT = 1100 };

__extension__ typedef __int128 i128;

/* One value as the reference sees it; which member counts follows from the dtype. */
typedef struct value {
    double d; /* F64, and what F32 and halves hold, each operation rounded to its type */
    double imaginary;
    i128 i;
} value;

static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = random_state;
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    return x ^ x >> 33;
}

static bool is_float(tdm_dtype dtype)
{
    return dtype == TDM_F32 || dtype == TDM_F64 || dtype == TDM_F16 || dtype == TDM_BF16;
}

static value load(tdm_dtype dtype, const unsigned char *from)
{
    value v = {0, 0, 0};
    float pair[2];
    uint16_t h;
    float f;
    memcpy(&h, from, sizeof h);
    switch (dtype) {
    case TDM_F32: memcpy(&f, from, 4), v.d = f; break;
    case TDM_F64: memcpy(&v.d, from, 8); break;
    case TDM_BF16: v.d = tdmi_bf16_to_f32(h); break;
    case TDM_F16: v.d = tdmi_f16_to_f32(h); break;
    case TDM_I8: v.i = (int8_t)from[0]; break;
    case TDM_U8: v.i = from[0]; break;
    case TDM_BOOL: v.i = from[0] != 0; break;
    case TDM_I64: {
        int64_t i;
        memcpy(&i, from, 8);
        v.i = i;
        break;
    }
    case TDM_U64: {
        uint64_t u;
        memcpy(&u, from, 8);
        v.i = u;
        break;
    }
    case TDM_C64: memcpy(pair, from, 8), v.d = pair[0], v.imaginary = pair[1]; break;
    case TDM_U32: {
        uint32_t u;
        memcpy(&u, from, 4);
        v.i = u;
        break;
    }
    default: {
        int32_t i;
        memcpy(&i, from, 4);
        v.i = i;
    }
    }
    return v;
}

static void store(tdm_dtype dtype, value v, unsigned char *to)
{
    float f = (float)v.d, pair[2] = {f, (float)v.imaginary};
    uint16_t h = dtype == TDM_BF16 ? tdmi_f32_to_bf16(f) : tdmi_f32_to_f16(f);
    switch (dtype) {
    case TDM_F32: memcpy(to, &f, 4); break;
    case TDM_F64: memcpy(to, &v.d, 8); break;
    case TDM_BF16:
    case TDM_F16: memcpy(to, &h, 2); break;
    case TDM_C64: memcpy(to, pair, 8); break;
    default: memcpy(to, &v.i, tdm_dtype_size(dtype)); /* little endian: the low bytes */
    }
}

static double combine_float(tdm_op op, bool narrow, double a, double b)
{
    double r;
    switch (op) {
    case TDM_SUM:
    case TDM_AVG: r = a + b; break;
    case TDM_PROD: r = a * b; break;
    default: {
        bool want_less = op == TDM_MIN;
        if (isnan(a) || isnan(b))
            return NAN;
        if (a == b)
            return (signbit(a) != 0) == want_less ? a : b;
        return (a < b) == want_less ? a : b;
    }
    }
    return narrow ? (double)(float)r : r; /* a double sum or product of floats, rounded, is the float one */
}

static value combine_complex(tdm_op op, value a, value b)
{
    const float ar = (float)a.d, ai = (float)a.imaginary, br = (float)b.d, bi = (float)b.imaginary;
    if (op != TDM_PROD)
        return (value){.d = ar + br, .imaginary = ai + bi};
    const float ac = ar * br, bd = ai * bi, ad = ar * bi, bc = ai * br;
    return (value){.d = ac - bd, .imaginary = ad + bc};
}

static i128 combine_integer(tdm_dtype dtype, tdm_op op, i128 a, i128 b)
{
    i128 r;
    if (dtype == TDM_BOOL)
        op = op == TDM_SUM || op == TDM_MAX ? TDM_BOR : op == TDM_MIN || op == TDM_PROD ? TDM_BAND : op;
    switch (op) {
    case TDM_MIN: return a < b ? a : b;
    case TDM_MAX: return a > b ? a : b;
    case TDM_BAND: return a & b;
    case TDM_BOR: return a | b;
    case TDM_BXOR: return a ^ b;
    case TDM_PROD: r = (i128)((uint64_t)a * (uint64_t)b); break;
    default: r = a + b;
    }
    if (op == TDM_AVG)
        return r;
    unsigned char bytes[8];
    store(dtype, (value){.i = r}, bytes); /* wrap to the type */
    return load(dtype, bytes).i;
}

/* The canonical tree over leaves [low, low + width), width a power of two; leaves from n on are missing. */
static value tree(tdm_dtype dtype, tdm_op op, unsigned char *const *in, int n, size_t element, int low, int width)
{
    if (width == 1)
        return load(dtype, in[low] + element * tdm_dtype_size(dtype));
    value a = tree(dtype, op, in, n, element, low, width / 2);
    if (low + width / 2 >= n)
        return a;
    value b = tree(dtype, op, in, n, element, low + width / 2, width / 2);
    if (dtype == TDM_C64)
        return combine_complex(op, a, b);
    if (is_float(dtype))
        return (value){.d = combine_float(op, dtype != TDM_F64, a.d, b.d)};
    return (value){.i = combine_integer(dtype, op, a.i, b.i)};
}

static void reference(tdm_dtype dtype, tdm_op op, unsigned char *const *in, int n, size_t element, unsigned char *out)
{
    if (n == 1) {
        memcpy(out, in[0] + element * tdm_dtype_size(dtype), tdm_dtype_size(dtype));
        return;
    }
    int width = 1;
    while (width < n)
        width *= 2;
    value v = tree(dtype, op, in, n, element, 0, width);
    if (op == TDM_AVG && dtype == TDM_F64)
        v.d *= 1.0 / n;
    else if (op == TDM_AVG && is_float(dtype))
        v.d = (float)v.d * (1.0f / (float)n);
    else if (op == TDM_AVG && dtype == TDM_C64)
        v.d = (float)v.d * (1.0f / (float)n), v.imaginary = (float)v.imaginary * (1.0f / (float)n);
    else if (op == TDM_AVG)
        v.i /= n;
    store(dtype, v, out);
}

static bool same(tdm_dtype dtype, const unsigned char *a, const unsigned char *b)
{
    if (memcmp(a, b, tdm_dtype_size(dtype)) == 0)
        return true; /* which NaN is not promised */
    if (dtype == TDM_C64)
        return same(TDM_F32, a, b) && same(TDM_F32, a + 4, b + 4);
    return is_float(dtype) && isnan(load(dtype, a).d) && isnan(load(dtype, b).d);
}

/* Ordinary values of many magnitudes, and now and then something special. */
static void fill(tdm_dtype dtype, unsigned char *to, size_t count)
{
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-41, -65504, 3e38, 1.0, 5.96e-8};
    for (size_t i = 0; i < count; i++) {
        uint64_t r = next_random();
        value v = {.d = ((double)(r >> 40) - 8388608.0) * (r % 3 == 0 ? 1e-3 : 1.0), .i = (int64_t)next_random()};
        v.imaginary = r % 29 == 0 ? INFINITY : (double)(int64_t)(v.i >> 40) * 1e-2;
        if (dtype == TDM_BOOL && r % 2 == 0)
            v.i = 0;
        if (dtype == TDM_F16)
            v.d *= 1e-3;
        if (r % 23 == 0)
            v.d = special[(r >> 8) % (sizeof special / sizeof *special)];
        store(dtype, v, to + i * tdm_dtype_size(dtype));
    }
}

static unsigned char memory[LEAVES + 2][COUNT * 8 + 16] __attribute__((aligned(64)));

static bool exists(int dtype, int op)
{
    return tdmi_op_check((tdm_dtype)dtype, (tdm_op)op, "test", "native") == TDM_OK;
}

/* Checks one call; `shift` makes addresses unaligned. */
static void check(tdm_dtype dtype, tdm_op op, int n, size_t count, size_t shift, bool stream)
{
    const size_t size = tdm_dtype_size(dtype);
    unsigned char *in[LEAVES];
    void *out[2] = {memory[LEAVES] + shift, memory[LEAVES + 1]};
    for (int i = 0; i < n; i++)
        fill(dtype, in[i] = memory[i] + (shift != 0 ? (size_t)i % 8 : 0), count);
    memset(memory[LEAVES], 0xee, 2 * sizeof memory[0]);
    tdmi_reduce_tree(dtype, op, (const void *const *)in, n, out, 2, count, stream);
    unsigned char expected[8];
    for (size_t i = 0; i < count; i++) {
        reference(dtype, op, in, n, i, expected);
        for (int k = 0; k < 2; k++)
            if (!same(dtype, (unsigned char *)out[k] + i * size, expected))
                fail_msg("%s %s n %d count %zu element %zu output %d", tdm_dtype_name(dtype), tdm_op_name(op), n, count, i, k);
    }
    assert_int_equal(((unsigned char *)out[0])[count * size], 0xee);
    assert_int_equal(((unsigned char *)out[1])[count * size], 0xee);
    tdmi_reduce_tree(dtype, op, (const void *const *)in, n, (void *const[]){in[n - 1]}, 1, count, stream); /* in place */
    assert_memory_equal(in[n - 1], out[0], count * size);
}

static void every_dtype_and_operation_gives_the_canonical_tree(void **state)
{
    (void)state;
    static const int ns[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 31, 33, LEAVES};
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
        for (int op = 0; op < TDM_OP_COUNT; op++)
            for (size_t i = 0; i < sizeof ns / sizeof *ns && exists(dtype, op); i++) {
                check((tdm_dtype)dtype, (tdm_op)op, ns[i], 67, 0, false);
                check((tdm_dtype)dtype, (tdm_op)op, ns[i], 13, 1, true);
            }
}

static void counts_around_vectors_and_tiles_are_complete(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1024, COUNT};
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            check((tdm_dtype)dtype, exists(dtype, TDM_AVG) ? TDM_AVG : TDM_BXOR, 2, counts[i], i % 2, i % 3 == 0);
            check((tdm_dtype)dtype, TDM_SUM, 7, counts[i], (i + 1) % 2, i % 2 == 0);
        }
}

/* Widening, adding partial sums and finishing, as algorithms over links do, gives the same bits as the tree in one go. */
/* Two buffers in place may take one pass of their own: any distance between them, counts around vectors and the limit. */
static void two_buffers_in_place_have_the_bits_of_the_tree(void **state)
{
    (void)state;
    enum { APART = 32 << 10 };
    static const size_t counts[] = {0, 1, 15, 17, 64, 1023, 2048, 4097}, offsets[] = {0, 64, 512, 2048, 4000};
    unsigned char *block = aligned_alloc(4096, 3 * APART + 8192), *expected = malloc(APART + 8192);
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++) {
                const size_t nbytes = counts[c] * tdm_dtype_size((tdm_dtype)dtype);
                unsigned char *two[2] = {block, block + APART + offsets[o]};
                if (nbytes > APART || tdmi_op_check((tdm_dtype)dtype, TDM_SUM, "test", "native") != TDM_OK)
                    continue;
                for (int i = 0; i < 2; i++)
                    fill((tdm_dtype)dtype, two[i], counts[c]);
                two[0][nbytes] = two[1][nbytes] = 0xa5;
                tdmi_reduce_tree((tdm_dtype)dtype, TDM_SUM, (const void *const *)two, 2, (void *const[]){expected}, 1, counts[c], false);
                tdmi_reduce_tree((tdm_dtype)dtype, TDM_SUM, (const void *const *)two, 2, (void *const *)two, 2, counts[c], false);
                for (int i = 0; i < 2; i++)
                    assert_true(memcmp(two[i], expected, nbytes) == 0 && two[i][nbytes] == 0xa5);
            }
    free(block);
    free(expected);
}

/* tdmi_reduce_take: the bits of the tree in an array of its own or over the other input, and what is next over what was used. */
static void what_is_taken_has_the_bits_of_the_tree_and_is_refilled(void **state)
{
    (void)state;
    enum { NBYTES = 24 << 10, PAD = 72 };
    static const size_t counts[] = {0, 1, 15, 17, 64, 255, 257, 1023, 2999};
    static unsigned char two[2][NBYTES + PAD], next[NBYTES + PAD], out[NBYTES + PAD], expected[NBYTES + PAD];
    for (int d = 0; d < TDM_DTYPE_COUNT; d++)
        for (int o = 0; o < TDM_OP_COUNT; o++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts && exists(d, o); c++)
                for (int way = 0; way < 16; way++) {
                    const tdm_dtype dtype = (tdm_dtype)d;
                    const size_t nbytes = counts[c] * tdm_dtype_size(dtype), shift = c * 8;
                    const bool refills = (way & 1) != 0, stream = (way & 2) != 0, over = (way & 4) != 0;
                    const int n = way < 8 ? 2 : 1, used = n == 1 ? 0 : (int)(c % 2);
                    unsigned char *from[2] = {two[0] + shift, two[1]}, *to = over && n == 2 ? from[1 - used] : out;
                    for (int i = 0; i < 2; i++)
                        fill(dtype, from[i], counts[c]);
                    fill(dtype, next, counts[c]);
                    tdmi_reduce_tree(dtype, (tdm_op)o, (const void *const *)from, n, (void *[]){expected}, 1, counts[c], false);
                    const unsigned char before = from[used][0];
                    to[nbytes] = from[used][nbytes] = 0xa5;
                    tdmi_reduce_take(dtype, (tdm_op)o, (const void *const *)from, n, to, from[used], refills ? next : NULL,
                                     counts[c], stream);
                    assert_true(memcmp(to, expected, nbytes) == 0 && to[nbytes] == 0xa5 && from[used][nbytes] == 0xa5);
                    assert_true(refills ? memcmp(from[used], next, nbytes) == 0 : nbytes == 0 || from[used][0] == before);
                }
}

static void steps_over_links_equal_the_tree(void **state)
{
    (void)state;
    enum { N = 4, ELEMENTS = 77 };
    static unsigned char acc[N][ELEMENTS * 16], out[ELEMENTS * 8], one_go[ELEMENTS * 8];
    for (int d = 0; d < TDM_DTYPE_COUNT; d++)
        for (int o = 0; o < TDM_OP_COUNT; o++) {
            const tdm_dtype dtype = (tdm_dtype)d, acc_dtype = tdmi_accumulate_dtype(dtype, (tdm_op)o);
            const tdm_op op = (tdm_op)o;
            if (!exists(d, o))
                continue;
            const void *in[N];
            for (int i = 0; i < N; i++) {
                fill(dtype, memory[i], ELEMENTS);
                in[i] = memory[i];
                tdmi_reduce_widen(dtype, op, in[i], acc[i], ELEMENTS);
            }
            tdmi_reduce_pair(acc_dtype, op, acc[0], acc[1], acc[1], ELEMENTS);
            tdmi_reduce_pair(acc_dtype, op, acc[2], acc[3], acc[2], ELEMENTS);
            tdmi_reduce_pair(acc_dtype, op, acc[1], acc[2], acc[0], ELEMENTS);
            tdmi_reduce_finish(dtype, op, N, acc[0], out, ELEMENTS);
            tdmi_reduce_tree(dtype, op, in, N, (void *const[]){one_go}, 1, ELEMENTS, false);
            for (size_t i = 0; i < ELEMENTS; i++)
                assert_true(same(dtype, out + i * tdm_dtype_size(dtype), one_go + i * tdm_dtype_size(dtype)));
        }
}

static void minus_zero_is_less_than_zero_and_nan_wins(void **state)
{
    (void)state;
    const float a[4] = {0.0f, -0.0f, NAN, 1.0f}, b[4] = {-0.0f, 0.0f, 1.0f, NAN};
    float out[4];
    const void *in[2] = {a, b};
    tdmi_reduce_tree(TDM_F32, TDM_MIN, in, 2, (void *const[]){out}, 1, 4, false);
    assert_true(signbit(out[0]) && signbit(out[1]) && isnan(out[2]) && isnan(out[3]));
    tdmi_reduce_tree(TDM_F32, TDM_MAX, in, 2, (void *const[]){out}, 1, 4, false);
    assert_true(!signbit(out[0]) && !signbit(out[1]) && isnan(out[2]) && isnan(out[3]));
}

static void averages_and_wrapping_of_integers_are_as_documented(void **state)
{
    (void)state;
    const int32_t a[3] = {3, -3, 8}, b[3] = {4, -4, 1};
    int32_t average[3];
    tdmi_reduce_tree(TDM_I32, TDM_AVG, (const void *const[]){a, b}, 2, (void *const[]){average}, 1, 3, false);
    assert_true(average[0] == 3 && average[1] == -3 && average[2] == 4);
    const int8_t c = 120, d = 100;
    int8_t sum, mean;
    tdmi_reduce_tree(TDM_I8, TDM_SUM, (const void *const[]){&c, &d}, 2, (void *const[]){&sum}, 1, 1, false);
    tdmi_reduce_tree(TDM_I8, TDM_AVG, (const void *const[]){&c, &d}, 2, (void *const[]){&mean}, 1, 1, false);
    assert_int_equal(sum, -36);
    assert_int_equal(mean, 110);
    const uint64_t big[3] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 4}; /* their sum takes 66 bits */
    const int64_t low[3] = {INT64_MIN, INT64_MIN, INT64_MIN + 4};
    uint64_t big_mean;
    int64_t low_mean;
    tdmi_reduce_tree(TDM_U64, TDM_AVG, (const void *const[]){big, big + 1, big + 2}, 3, (void *const[]){&big_mean}, 1, 1, false);
    tdmi_reduce_tree(TDM_I64, TDM_AVG, (const void *const[]){low, low + 1, low + 2}, 3, (void *const[]){&low_mean}, 1, 1, false);
    assert_true(big_mean == UINT64_MAX - 2);
    assert_true(low_mean == INT64_MIN + 2); /* the third toward zero: -2^63 + 4/3 */
}

/* Three ranks that give 1, 2 and 3, in every type: the exact result, rounded once. */
static void small_numbers_have_exact_results_in_every_type(void **state)
{
    (void)state;
    static const double results[TDM_OP_COUNT] = {[TDM_SUM] = 6, [TDM_AVG] = 2, [TDM_MIN] = 1, [TDM_MAX] = 3,
                                                 [TDM_PROD] = 6, [TDM_BAND] = 0, [TDM_BOR] = 3, [TDM_BXOR] = 0};
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
        for (int op = 0; op < TDM_OP_COUNT; op++) {
            if (!exists(dtype, op))
                continue;
            const void *in[3];
            unsigned char out[8], expected[8];
            for (int r = 0; r < 3; r++) {
                store((tdm_dtype)dtype, (value){.d = r + 1, .i = r + 1}, memory[r]);
                in[r] = memory[r];
            }
            double result = results[op];
            if (dtype == TDM_BOOL) /* all are true */
                result = 1;
            if (op == TDM_AVG && (dtype == TDM_F32 || dtype == TDM_C64)) /* 1/3 was rounded, and so is 6 times it */
                result = 6.0f * (1.0f / 3.0f);
            store((tdm_dtype)dtype, (value){.d = result, .i = (i128)result}, expected);
            tdmi_reduce_tree((tdm_dtype)dtype, (tdm_op)op, in, 3, (void *const[]){out}, 1, 1, false);
            assert_memory_equal(out, expected, tdm_dtype_size((tdm_dtype)dtype));
        }
}

static void any_byte_but_0_is_true(void **state)
{
    (void)state;
    const uint8_t a[4] = {0, 0, 2, 0x80}, b[4] = {0, 4, 0, 0x81};
    static const struct {
        tdm_op op;
        uint8_t result[4];
    } cases[] = {{TDM_SUM, {0, 1, 1, 1}}, {TDM_MAX, {0, 1, 1, 1}},  {TDM_BOR, {0, 1, 1, 1}}, {TDM_PROD, {0, 0, 0, 1}},
                 {TDM_MIN, {0, 0, 0, 1}}, {TDM_BAND, {0, 0, 0, 1}}, {TDM_BXOR, {0, 1, 1, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t out[4];
        tdmi_reduce_tree(TDM_BOOL, cases[i].op, (const void *const[]){a, b}, 2, (void *const[]){out}, 1, 4, false);
        assert_memory_equal(out, cases[i].result, 4);
    }
}

/* Eight bfloat16: 256 and seven 1s. In bfloat16 the ones would vanish one by one. The same at every position. */
static void halves_are_summed_in_float32_and_rounded_once(void **state)
{
    (void)state;
    enum { ELEMENTS = 100003 };
    static uint16_t big[ELEMENTS], one[ELEMENTS], out[ELEMENTS];
    for (int dtype = TDM_BF16; dtype <= TDM_F16; dtype++) {
        const bool is_bf16 = dtype == TDM_BF16;
        for (size_t i = 0; i < ELEMENTS; i++) {
            big[i] = is_bf16 ? tdmi_f32_to_bf16(256) : tdmi_f32_to_f16(2048);
            one[i] = is_bf16 ? tdmi_f32_to_bf16(1) : tdmi_f32_to_f16(1);
        }
        const void *in[8] = {big, one, one, one, one, one, one, one};
        tdmi_reduce_tree((tdm_dtype)dtype, TDM_SUM, in, 8, (void *const[]){out}, 1, ELEMENTS, false);
        for (size_t i = 0; i < ELEMENTS; i++) /* 263 and 2055, rounded once */
            assert_true(is_bf16 ? tdmi_bf16_to_f32(out[i]) == 264.0f : tdmi_f16_to_f32(out[i]) == 2056.0f);
    }
}

static void every_float16_is_widened_and_rounded_as_one_at_a_time(void **state)
{
    (void)state;
    static uint16_t in[65536], out[65536];
    static float wide[65536];
    for (size_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    tdmi_reduce_widen(TDM_F16, TDM_SUM, in, wide, 65536);
    for (size_t i = 0; i < 65536; i++)
        assert_true(isnan(wide[i]) ? isnan(tdmi_f16_to_f32(in[i])) : wide[i] == tdmi_f16_to_f32(in[i]));
    for (size_t i = 0; i < 65536; i++)
        wide[i] = tdmi_float_from_bits((uint32_t)next_random());
    tdmi_reduce_finish(TDM_F16, TDM_SUM, 2, wide, out, 65536);
    for (size_t i = 0; i < 65536; i++)
        assert_int_equal(out[i], tdmi_f32_to_f16(wide[i]));
    tdmi_reduce_finish(TDM_BF16, TDM_SUM, 2, wide, out, 65536);
    for (size_t i = 0; i < 65536; i++)
        assert_int_equal(out[i], tdmi_f32_to_bf16(wide[i]));
}

int main(void)
{
    printf("instruction set %s\n", tdmi_isa_name(tdmi_cpu_isa()));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_and_operation_gives_the_canonical_tree),
        cmocka_unit_test(counts_around_vectors_and_tiles_are_complete),
        cmocka_unit_test(two_buffers_in_place_have_the_bits_of_the_tree),
        cmocka_unit_test(what_is_taken_has_the_bits_of_the_tree_and_is_refilled),
        cmocka_unit_test(steps_over_links_equal_the_tree),
        cmocka_unit_test(minus_zero_is_less_than_zero_and_nan_wins),
        cmocka_unit_test(averages_and_wrapping_of_integers_are_as_documented),
        cmocka_unit_test(small_numbers_have_exact_results_in_every_type),
        cmocka_unit_test(any_byte_but_0_is_true),
        cmocka_unit_test(halves_are_summed_in_float32_and_rounded_once),
        cmocka_unit_test(every_float16_is_widened_and_rounded_as_one_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
