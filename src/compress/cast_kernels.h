/* cast_kernels.h - the inner loops that cast_kernels.c fills once per instruction set. Only cast.c sees it. */
#ifndef TDMI_COMPRESS_CAST_KERNELS_H
#define TDMI_COMPRESS_CAST_KERNELS_H

#include <stddef.h>

typedef struct tdmi_cast_kernels {
    /* out = round(in + residual), residual = what that took away; see tdm_cast_compress. */
    void (*feed_bf16)(const float *in, float *residual, void *out, size_t count);
    void (*feed_f16)(const float *in, float *residual, void *out, size_t count);
} tdmi_cast_kernels;

extern const tdmi_cast_kernels tdmi_cast_kernels_plain;
#if defined(__x86_64__)
extern const tdmi_cast_kernels tdmi_cast_kernels_avx2, tdmi_cast_kernels_avx512;
#endif

#endif
