/* compress.h - float32 gradients made small for the way over the wire, with what that loses kept for the next step: halves,
 * one bit each, the largest few, low-rank factors. docs/compress.md compares them. Flat arrays only: reducer.h has the hooks
 * that send them.
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

/* ---- which codec: what tdm_reducer_options.compress and `tandem train --compress` take ---- */
typedef enum tdm_codec {
    TDM_CODEC_NONE,
    TDM_CODEC_F16,
    TDM_CODEC_BF16,
    TDM_CODEC_POWERSGD,
    TDM_CODEC_ONEBIT,
    TDM_CODEC_TOPK
} tdm_codec;

typedef struct tdm_compression {
    tdm_codec codec;
    int rank;          /* POWERSGD: columns of the factors, 1 to 256; 0: 4 */
    double min_saving; /* POWERSGD: a matrix whose factors are not smaller than it by more than this factor travels whole; 0: 2 */
    double fraction;   /* TOPK: of the elements that travel, up to 1; 0: 0.01 */
    int warmup;        /* ONEBIT in `tandem train`: steps of plain AdamW before the variance is frozen; 0: 15 % of the run */
    uint64_t seed;     /* POWERSGD: of the first factors; the same on all ranks */
} tdm_compression;

/* tdm_compression_parse - "none", "f16", "bf16", "powersgd", "powersgd:8", "onebit", "onebit:100", "topk", "topk:0.05".
 * Errors  TDM_ERR_INVALID says what there is and the range of its number */
TDM_API TDM_MUST_CHECK tdm_status tdm_compression_parse(const char *text, tdm_compression *out);
TDM_API const char *tdm_codec_name(tdm_codec codec); /* "none", "f16", ...: static */

/* A part of a flat buffer: one parameter. */
typedef struct tdm_part {
    size_t first, count;
    size_t rows; /* a matrix of so many rows, row after row; 0 or 1: a vector */
} tdm_part;

/* tdm_compression_sends - bytes that a rank sends for one buffer of these parts: forecasts.  ranks  of the group.
 * An allreduce of D bytes sends 2 (ranks-1)/ranks D. */
TDM_API size_t tdm_compression_sends(const tdm_compression *compression, const tdm_part *part, int parts, int ranks);

/* ---- one bit ----
 * tdm_onebit_compress - x = in + residual; scale = |x| / sqrt(count) (2-norm); bit = x >= 0, so zero counts as +1; residual = x - (+-scale).
 *   in        [count], borrowed
 *   residual  [count], read and written, zeros at first; 0 where x or scale is not finite. May not be NULL: one bit without it does not train
 *   bits      [(count + 7) / 8] bytes: element i is bit i % 8 of byte i / 8; those behind the last are 0
 *   scale     one number
 * tdm_onebit_add     - out += +-scale, the sum of what several ranks sent.   out [count]
 * Result  the same bits on every instruction set    Cost  compress: two passes, add: one    Thread  any
 * Source  Tang et al., 1-bit Adam, ICML 2021, arXiv:2102.02888                               Since  0.2 */
TDM_API void tdm_onebit_compress(const float *in, float *residual, uint8_t *bits, float *scale, size_t count);
TDM_API void tdm_onebit_add(const uint8_t *bits, float scale, float *out, size_t count);

/* ---- the largest few ----
 * tdm_topk_compress - x = in + residual; the k elements of largest magnitude travel (of equal ones those in front; a NaN is larger than all),
 *                     the rest stays in residual.
 *   in        [count], borrowed;   residual [count] as above;   count  below 2^32
 *   index     [k] ascending;   value  [k];   k at most count
 * tdm_topk_add      - out[index] += factor value
 * Cost  compress: five passes, whatever the values; add: k accesses    Thread  any
 * Source  Lin et al., Deep Gradient Compression, ICLR 2018 (without momentum correction)     Since  0.2 */
TDM_API void tdm_topk_compress(const float *in, float *residual, size_t count, uint32_t *index, float *value, size_t k);
TDM_API void tdm_topk_add(const uint32_t *index, const float *value, size_t k, float factor, float *out);

/* ---- low-rank factors ----
 * Matrices M [n, m] of a flat buffer as P Q^T, with k = min(rank, n, m) columns; vectors and matrices that would not get smaller (min_saving)
 * travel whole. A step, in which the caller averages over all ranks what begin and middle write:
 *     begin    gradient += residual;  first  <- every M Q, then the parts that travel whole
 *     middle   P <- orthonormal columns of the averaged first;  second <- every M^T P
 *     end      gradient <- P Q^T with the averaged second, and the averaged whole parts;  residual <- what that lost;  Q stays for the next step
 * Columns that depend on others count as 0 in P and are drawn anew in Q: zero and rank-deficient matrices are exact, never NaN.
 *   tdm_powersgd_create   part: copied. Errors  TDM_ERR_INVALID a part that is no matrix of its rows, a rank out of range | TDM_ERR_NO_MEMORY
 *   tdm_powersgd_sizes    elements of first and second; second 0: nothing is compressed, begin and end are a plain average
 *   tdm_powersgd_factor   Q of a part, [k, m] (transposed), to save and restore; NULL where it travels whole
 * gradient, residual: the flat buffer; residual is zero at first, and 0 where something was not finite.
 * Result  bits depend on `first` and `second` alone: ranks that averaged the same numbers get the same    Thread  one at a time
 * Cost    begin, middle, end: one pass each over the matrices, of 12, 4 and 12 bytes and 2 k operations an element
 * Source  Vogels et al., PowerSGD, NeurIPS 2019, arXiv:1905.13727                            Since  0.2 */
typedef struct tdm_powersgd tdm_powersgd;
TDM_API TDM_MUST_CHECK tdm_status tdm_powersgd_create(const tdm_part *part, int parts, const tdm_compression *compression, tdm_powersgd **out);
TDM_API void tdm_powersgd_destroy(tdm_powersgd *powersgd); /* NULL is fine */
TDM_API void tdm_powersgd_sizes(const tdm_powersgd *powersgd, size_t *first, size_t *second);
TDM_API void tdm_powersgd_begin(tdm_powersgd *powersgd, float *gradient, const float *residual, float *first);
TDM_API void tdm_powersgd_middle(tdm_powersgd *powersgd, const float *gradient, float *first, float *second);
TDM_API void tdm_powersgd_end(tdm_powersgd *powersgd, float *gradient, float *residual, const float *first, const float *second);
TDM_API float *tdm_powersgd_factor(tdm_powersgd *powersgd, int part, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
