/* element.h - one element of a tensor of float32, bfloat16 or float16, read as a float and written rounded to nearest even. */
#ifndef TDMI_KERNELS_PLAIN_ELEMENT_H
#define TDMI_KERNELS_PLAIN_ELEMENT_H

#include "core/dtype.h"

static inline float tdmi_element(tdm_dtype dtype, const void *at, int64_t i)
{
    if (dtype == TDM_BF16)
        return tdmi_bf16_to_f32(((const uint16_t *)at)[i]);
    if (dtype == TDM_F16)
        return tdmi_f16_to_f32(((const uint16_t *)at)[i]);
    return ((const float *)at)[i];
}

static inline void tdmi_set_element(tdm_dtype dtype, void *at, int64_t i, float value)
{
    if (dtype == TDM_BF16)
        ((uint16_t *)at)[i] = tdmi_f32_to_bf16(value);
    else if (dtype == TDM_F16)
        ((uint16_t *)at)[i] = tdmi_f32_to_f16(value);
    else
        ((float *)at)[i] = value;
}

/* A tensor with its type, as kernels hold it. */
typedef struct tdmi_in {
    tdm_dtype dtype;
    const void *at;
} tdmi_in;

typedef struct tdmi_out {
    tdm_dtype dtype;
    void *at;
} tdmi_out;

static inline float tdmi_get(tdmi_in x, int64_t i)
{
    return tdmi_element(x.dtype, x.at, i);
}

static inline void tdmi_put(tdmi_out y, int64_t i, double value)
{
    tdmi_set_element(y.dtype, y.at, i, (float)value);
}

/* What lies there already, where a result is added to it. */
static inline float tdmi_before(tdmi_out y, int64_t i)
{
    return tdmi_element(y.dtype, y.at, i);
}

#endif
