/* topk.c - the k largest, found by their bits: magnitudes of floats order as the integers of the same bits do.
 *
 *     31 bits of |x|:  | 11 bits | 10 bits | 10 bits |      three counts of how many there are of each value of a piece, each among
 *                                                           those that share the pieces before, give the k-th largest exactly
 * Cost   one pass to add and count, two to count, one to take: whatever the values are
 * Source  Lin et al., Deep Gradient Compression, ICLR 2018; the selection is a radix select */
#include "core/dtype.h"

#include <tandem/compress.h>

enum { TOP = 11, PIECE = 10 };
#define INFINITE 0x7f800000u /* from there on infinities and NaNs */

static inline uint32_t magnitude(float x)
{
    return tdmi_float_bits(x) & 0x7fffffffu;
}

/* Goes down from the highest value while those passed are fewer than *k: the value that the k-th has. *k: how many of it are wanted. */
static uint32_t pick(const uint32_t *how_many, uint32_t values, size_t *k)
{
    uint32_t v = values - 1;
    while (how_many[v] < *k)
        *k -= how_many[v--];
    return v;
}

/* The next PIECE bits of the k-th largest among those whose bits above are `prefix`. */
static uint32_t next_piece(const float *x, size_t count, uint32_t prefix, unsigned shift, size_t *k)
{
    uint32_t how_many[1 << PIECE] = {0};
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = magnitude(x[i]) >> shift;
        if (bits >> PIECE == prefix)
            how_many[bits & ((1 << PIECE) - 1)]++;
    }
    return prefix << PIECE | pick(how_many, 1 << PIECE, k);
}

void tdm_topk_compress(const float *in, float *residual, size_t count, uint32_t *index, float *value, size_t k)
{
    uint32_t how_many[1 << TOP] = {0};
    for (size_t i = 0; i < count; i++) {
        residual[i] += in[i];
        how_many[magnitude(residual[i]) >> 2 * PIECE]++;
    }
    if (k == 0)
        return;
    size_t equal = k, taken = 0; /* equal: how many travel of those that are as large as the smallest that does */
    uint32_t least = pick(how_many, 1 << TOP, &equal);
    least = next_piece(residual, count, least, PIECE, &equal);
    least = next_piece(residual, count, least, 0, &equal);
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = magnitude(residual[i]);
        if (bits > least || (bits == least && equal > 0)) {
            equal -= bits == least;
            index[taken] = (uint32_t)i;
            value[taken++] = residual[i];
            residual[i] = 0;
        } else if (bits >= INFINITE) {
            residual[i] = 0;
        }
    }
}

void tdm_topk_add(const uint32_t *index, const float *value, size_t k, float factor, float *out)
{
    for (size_t i = 0; i < k; i++)
        out[index[i]] += factor * value[i];
}
