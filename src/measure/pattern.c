/* pattern.c - one period of the pattern is computed, the rest is copied or compared with it. */
#include "measure/pattern.h"

#include "core/dtype.h"

#include <string.h>

#define PERIOD 4093 /* prime: no cut of a buffer is a multiple of it by chance */

typedef unsigned char period[PERIOD * 8];

/* bool has three operations under seven names. */
static tdm_op simplify(tdm_dtype dtype, tdm_op op)
{
    if (dtype != TDM_BOOL || op == TDM_BXOR)
        return op;
    return op == TDM_MIN || op == TDM_PROD || op == TDM_BAND ? TDM_BAND : TDM_BOR;
}

/* Element i of `rank` as a whole number: -3..3 (0..6 where there is no sign), or 1 and now and then 2 for products. A bool is
 * 0 or 1, so that now and then one rank decides. A complex number has it as its real part. */
static int value(tdm_dtype dtype, tdm_op op, int rank, size_t i)
{
    uint32_t mixed = ((uint32_t)i * 2654435761u) ^ ((uint32_t)rank * 2246822519u);
    mixed = (mixed ^ mixed >> 15) * 3266489917u;
    int v = (int)((mixed >> 16) % 7);
    if (dtype == TDM_BOOL)
        return op == TDM_BXOR ? v % 2 : (v == 0) == (simplify(dtype, op) == TDM_BOR) ? 1 : 0;
    if (op == TDM_PROD)
        return v == 0 && (dtype != TDM_C64 || rank < 100) ? 2 : 1; /* infinity times 0i is not a number */
    return dtype == TDM_U8 || dtype == TDM_U32 || dtype == TDM_U64 ? v : v - 3;
}

/* Writes a number that the dtype holds or rounds once; integers wrap. */
static void write_real(tdm_dtype dtype, double x, unsigned char *to)
{
    float f[2] = {(float)x, 0};
    uint16_t half = dtype == TDM_BF16 ? tdmi_f32_to_bf16(f[0]) : tdmi_f32_to_f16(f[0]);
    switch (dtype) {
    case TDM_F64: memcpy(to, &x, sizeof x); break;
    case TDM_F32: memcpy(to, f, sizeof *f); break;
    case TDM_C64: memcpy(to, f, sizeof f); break;
    default: memcpy(to, &half, sizeof half);
    }
}

static bool is_real(tdm_dtype dtype)
{
    return dtype == TDM_F32 || dtype == TDM_F64 || dtype == TDM_BF16 || dtype == TDM_F16 || dtype == TDM_C64;
}

static void write_integer(tdm_dtype dtype, uint64_t x, unsigned char *to)
{
    memcpy(to, &x, tdm_dtype_size(dtype)); /* little endian: the low bytes */
}

static void inputs(tdm_dtype dtype, tdm_op op, int rank, period out)
{
    for (size_t i = 0; i < PERIOD; i++) {
        int v = value(dtype, op, rank, i);
        if (is_real(dtype))
            write_real(dtype, v, out + i * tdm_dtype_size(dtype));
        else
            write_integer(dtype, (uint64_t)(int64_t)v, out + i * tdm_dtype_size(dtype));
    }
}

static int64_t combine(tdm_op op, int64_t a, int64_t b)
{
    switch (op) {
    case TDM_MIN: return a < b ? a : b;
    case TDM_MAX: return a > b ? a : b;
    case TDM_PROD: return (int64_t)((uint64_t)a * (uint64_t)b);
    case TDM_BAND: return a & b;
    case TDM_BOR: return a | b;
    case TDM_BXOR: return a ^ b;
    default: return a + b;
    }
}

static void results(tdm_dtype dtype, tdm_op op, int n, period out)
{
    for (size_t i = 0; i < PERIOD; i++) {
        unsigned char *to = out + i * tdm_dtype_size(dtype);
        int64_t whole = value(dtype, op, 0, i);
        double product = (double)whole; /* powers of two: exact, or infinite in any order */
        for (int rank = 1; rank < n; rank++) {
            whole = combine(simplify(dtype, op), whole, value(dtype, op, rank, i));
            product *= value(dtype, op, rank, i);
        }
        if (op == TDM_AVG && n > 1 && is_real(dtype))
            write_real(dtype, dtype == TDM_F64 ? (double)whole * (1.0 / n) : (float)whole * (1.0f / (float)n), to);
        else if (is_real(dtype))
            write_real(dtype, op == TDM_PROD ? product : (double)whole, to);
        else
            write_integer(dtype, (uint64_t)(op == TDM_AVG ? whole / n : whole), to);
    }
}

void tdmi_pattern_fill(tdm_dtype dtype, tdm_op op, int rank, size_t first, void *data, size_t count)
{
    const size_t size = tdm_dtype_size(dtype);
    period one;
    inputs(dtype, op, rank, one);
    for (size_t i = 0; i < count;) {
        size_t at = (first + i) % PERIOD, run = count - i < PERIOD - at ? count - i : PERIOD - at;
        memcpy((char *)data + i * size, one + at * size, run * size);
        i += run;
    }
}

static size_t differences(const period one, size_t size, size_t first, const void *data, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count;) {
        size_t at = (first + i) % PERIOD, run = count - i < PERIOD - at ? count - i : PERIOD - at;
        const unsigned char *found = (const unsigned char *)data + i * size, *expected = one + at * size;
        if (memcmp(found, expected, run * size) != 0)
            for (size_t k = 0; k < run; k++)
                wrong += memcmp(found + k * size, expected + k * size, size) != 0 ? 1 : 0;
        i += run;
    }
    return wrong;
}

size_t tdmi_pattern_wrong_copy(tdm_dtype dtype, tdm_op op, int rank, size_t first, const void *data, size_t count)
{
    period one;
    inputs(dtype, op, rank, one);
    return differences(one, tdm_dtype_size(dtype), first, data, count);
}

size_t tdmi_pattern_wrong_result(tdm_dtype dtype, tdm_op op, int n, size_t first, const void *data, size_t count)
{
    period one;
    results(dtype, op, n, one);
    return differences(one, tdm_dtype_size(dtype), first, data, count);
}
