/* onebit.c - signs and one scale.
 *
 *     x = in + residual     0.5  -0.1   0.0  -0.6        scale = |x| / sqrt(4) = 0.39
 *     travels               +     -     +     -          1 bit an element, and the scale
 *     residual              0.11  0.29 -0.39 -0.21       x - (+-scale), for the next step
 *
 * Source  Tang et al., 1-bit Adam: communication efficient large-scale training with Adam's convergence speed, ICML 2021 */
#include "compress/codec_kernels.h"

#include <tandem/compress.h>

#include <math.h>

void tdm_onebit_compress(const float *in, float *residual, uint8_t *bits, float *scale, size_t count)
{
    const tdmi_codec_kernels *kernels = tdmi_codec_kernels_here();
    const double squares = kernels->feed_squares(in, residual, count);
    *scale = count == 0 ? 0 : (float)sqrt(squares / (double)count);
    kernels->take_signs(residual, *scale, bits, count);
}

void tdm_onebit_add(const uint8_t *bits, float scale, float *out, size_t count)
{
    tdmi_codec_kernels_here()->add_signs(bits, scale, out, count);
}
