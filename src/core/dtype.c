/* dtype.c - names and sizes of element types, float16 conversion. */
#include "core/dtype.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[TDM_DTYPE_COUNT + 1] = {
#define ROW(NAME, name, size) {name, size},
    TDM_DTYPE_MAP(ROW)
#undef ROW
    [TDMI_I128] = {"unknown", 16},
};
static const struct {
    const char *name;
    tdm_dtype dtype;
} short_names[] = {
    {"f32", TDM_F32}, {"float", TDM_F32},  {"f64", TDM_F64}, {"double", TDM_F64}, {"bf16", TDM_BF16}, {"f16", TDM_F16},
    {"half", TDM_F16}, {"i32", TDM_I32},   {"i64", TDM_I64}, {"i8", TDM_I8},      {"u8", TDM_U8},
    {"u32", TDM_U32},  {"u64", TDM_U64},   {"c64", TDM_C64},
};

size_t tdm_dtype_size(tdm_dtype dtype)
{
    return (unsigned)dtype <= TDMI_I128 ? dtypes[dtype].size : 0;
}

const char *tdm_dtype_name(tdm_dtype dtype)
{
    return (unsigned)dtype < TDM_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

bool tdm_dtype_parse(const char *name, tdm_dtype *out)
{
    for (int i = 0; i < TDM_DTYPE_COUNT; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = (tdm_dtype)i;
            return true;
        }
    for (size_t i = 0; i < sizeof short_names / sizeof *short_names; i++)
        if (strcmp(short_names[i].name, name) == 0) {
            *out = short_names[i].dtype;
            return true;
        }
    return false;
}

float tdmi_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 31u, mantissa = half & 0x3ffu;
    if (exponent == 31)
        return tdmi_float_from_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24 is exact in float32 */
        float value = (float)mantissa * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    return tdmi_float_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t tdmi_f32_to_f16(float value)
{
    uint32_t bits = tdmi_float_bits(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x47800000u) /* 2^16 and above; what rounds up to 2^16 overflows below */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* below 2^-14: adding 0.5 leaves the subnormal's bits, rounded to even */
        uint32_t sum = tdmi_float_bits(tdmi_float_from_bits(magnitude) + 0.5f);
        return (uint16_t)(sign | (sum - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}
