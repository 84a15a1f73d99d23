/* codec_kernels.h - the inner loops that codec_kernels.c fills once per instruction set, for onebit.c and powersgd.c. */
#ifndef TDMI_COMPRESS_CODEC_KERNELS_H
#define TDMI_COMPRESS_CODEC_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Matrices are row after row; the factors P [n, k] and Q [m, k] are kept column after column. */
typedef struct tdmi_codec_kernels {
    /* residual += in; the sum of its squares, in one order for all instruction sets. */
    double (*feed_squares)(const float *in, float *residual, size_t count);
    /* bits = residual >= 0; residual -= +-scale, 0 where that is not finite. */
    void (*take_signs)(float *residual, float scale, uint8_t *bits, size_t count);
    void (*add_signs)(const uint8_t *bits, float scale, float *out, size_t count);
    /* m += residual; p = m q. */
    void (*feed_times)(float *m, const float *residual, size_t rows, size_t columns, const float *q, int k, float *p);
    /* q = m^T p. */
    void (*transposed_times)(const float *m, size_t rows, size_t columns, const float *p, int k, float *q);
    /* residual = m - p q^T, 0 where that is not finite; m = p q^T. */
    void (*restore)(float *m, float *residual, size_t rows, size_t columns, const float *p, const float *q, int k);
} tdmi_codec_kernels;

extern const tdmi_codec_kernels tdmi_codec_kernels_plain;
#if defined(__x86_64__)
extern const tdmi_codec_kernels tdmi_codec_kernels_avx2, tdmi_codec_kernels_avx512;
#endif

/* The table of this CPU. */
const tdmi_codec_kernels *tdmi_codec_kernels_here(void);

#endif
