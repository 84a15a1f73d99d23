/* dtype.h - float16 and bfloat16 as bits, converted one at a time (bulk conversion lives with the reduce kernels). */
#ifndef TDMI_CORE_DTYPE_H
#define TDMI_CORE_DTYPE_H

#include <tandem/dtype.h>

#include <string.h>

/* A type of partial sums only, 128-bit integers: tdm_dtype_size knows it, no call may have it. */
#define TDMI_I128 TDM_DTYPE_COUNT

/* tdm_dtype_size of a type that is one, and its logarithm; for inner code. */
static inline unsigned tdmi_dtype_shift(tdm_dtype dtype)
{
    static const uint8_t shift[TDM_DTYPE_COUNT + 1] = {
#define ROW(NAME, name, size) (size) == 8 ? 3 : (size) == 4 ? 2 : (size) == 2 ? 1 : 0,
        TDM_DTYPE_MAP(ROW)
#undef ROW
        4};
    return shift[dtype];
}

static inline size_t tdmi_dtype_bytes(tdm_dtype dtype)
{
    return (size_t)1 << tdmi_dtype_shift(dtype);
}

static inline uint32_t tdmi_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float tdmi_float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float tdmi_bf16_to_f32(uint16_t half)
{
    return tdmi_float_from_bits((uint32_t)half << 16);
}

/* Round to nearest even; every NaN becomes the quiet NaN 0x7fc0 (as PyTorch does). */
static inline uint16_t tdmi_f32_to_bf16(float value)
{
    uint32_t bits = tdmi_float_bits(value);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

float tdmi_f16_to_f32(uint16_t half);
uint16_t tdmi_f32_to_f16(float value); /* round to nearest even, overflow to infinity */

#endif
