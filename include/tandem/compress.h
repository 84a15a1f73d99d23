/* compress.h - float32 gradients as halves for the way over the wire, with the rounding error kept for the next step.
 *
 *     tdm_cast_compress(TDM_BF16, gradient, residual, half, count);
 *     tdm_all_reduce(group, half, half, count, TDM_BF16, TDM_AVG, NULL);      summed in float32, rounded once
 *     tdm_cast_decompress(TDM_BF16, half, gradient, count);
 *
 * Error feedback: residual holds what rounding took away so far. It is added before the next rounding, so over many steps the
 * sum of what was sent differs from the sum of the gradients by less than one rounding. */
#ifndef TANDEM_COMPRESS_H
#define TANDEM_COMPRESS_H

#include <tandem/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tdm_cast_compress - out = round(in + residual); residual = (in + residual) - out.
 *   dtype     TDM_BF16 or TDM_F16, the type of out
 *   in        [count] float32, borrowed for the call
 *   residual  [count] float32, read and written: this rank's memory between steps, zeros at first. NULL: no error feedback.
 *             Where out is infinite or NaN it becomes 0: a step that overflowed leaves nothing behind
 *   out       [count] of dtype; no overlap with in or residual
 *   count     elements; 0 is legal. Any alignment
 * Errors  TDM_ERR_INVALID a pointer is NULL | TDM_ERR_UNSUPPORTED another dtype
 * Result  round to nearest even, f16 overflows to infinity, a NaN stays one; the same bits on every instruction set
 * Cost    one pass: reads 4 (with residual 8) and writes 2 (6) bytes an element            Thread  any; parts of an array may go in parallel
 * Source  Seide et al., 1-bit stochastic gradient descent, Interspeech 2014 (error feedback)           Since  0.2 */
TDM_API TDM_MUST_CHECK tdm_status tdm_cast_compress(tdm_dtype dtype, const float *in, float *residual, void *out, size_t count);

/* tdm_cast_decompress - out = in, widened: exact.
 *   in   [count] of dtype, borrowed; out  [count] float32, no overlap
 * Errors, Thread  as above            Cost  one pass: reads 2, writes 4 bytes an element             Since  0.2 */
TDM_API TDM_MUST_CHECK tdm_status tdm_cast_decompress(tdm_dtype dtype, const void *in, float *out, size_t count);

#ifdef __cplusplus
}
#endif
#endif
