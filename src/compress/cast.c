/* cast.c - halves for the wire. Rounding and widening are those of the reductions (coll/reduce.h), so a gradient that was cast
 * here has the bits a reduction would have given it; only error feedback needs loops of its own. */
#include <tandem/compress.h>

#include "coll/reduce.h"
#include "compress/cast_kernels.h"
#include "core/cpu.h"
#include "core/error.h"

static const tdmi_cast_kernels *kernels(void)
{
    switch (tdmi_cpu_isa()) {
#if defined(__x86_64__)
    case TDMI_ISA_AVX512: return &tdmi_cast_kernels_avx512;
    case TDMI_ISA_AVX2: return &tdmi_cast_kernels_avx2;
#endif
    default: return &tdmi_cast_kernels_plain;
    }
}

static tdm_status check(const char *call, tdm_dtype dtype, const void *in, const void *out, size_t count)
{
    if (dtype != TDM_BF16 && dtype != TDM_F16)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "%s: %s is no type to cast float32 to; use bfloat16 or float16", call,
                         tdm_dtype_name(dtype));
    if (count > 0 && (in == NULL || out == NULL))
        return tdmi_fail(TDM_ERR_INVALID, "%s: %s is NULL, but count is %zu", call, in == NULL ? "in" : "out", count);
    return TDM_OK;
}

tdm_status tdm_cast_compress(tdm_dtype dtype, const float *in, float *residual, void *out, size_t count)
{
    const tdm_status st = check("tdm_cast_compress", dtype, in, out, count);
    if (st != TDM_OK || count == 0)
        return st;
    if (residual == NULL)
        tdmi_reduce_finish(dtype, TDM_SUM, 1, in, out, count);
    else if (dtype == TDM_BF16)
        kernels()->feed_bf16(in, residual, out, count);
    else
        kernels()->feed_f16(in, residual, out, count);
    return TDM_OK;
}

tdm_status tdm_cast_decompress(tdm_dtype dtype, const void *in, float *out, size_t count)
{
    const tdm_status st = check("tdm_cast_decompress", dtype, in, out, count);
    if (st == TDM_OK && count > 0)
        tdmi_reduce_widen(dtype, TDM_SUM, in, out, count);
    return st;
}
