/* turn.c - a matrix turned, and the sums of its columns on the way.
 *
 *   in [rows, columns]   a b c        out [columns, rows]   a d      sums   a+d
 *                        d e f   ->                         b e             b+e
 *                                                           c f             c+f
 *
 * For weight gradients dw = dy^T x: a product reads both operands along rows, and db falls out of the same pass over dy.
 * Costs one pass over the memory of both. */
#include "kernels/simd/simd.h"
#include "kernels/simd/turn.h"

/* Columns [j, j + LANES) of in; the type is a constant here. */
INLINE void turn_strip(tdm_dtype type, int64_t rows, int64_t columns, const void *in, int64_t in_row, int64_t j, void *out, float *sums)
{
    const int64_t width = least(columns - j, LANES);
    vf sum = {0};
    for (int64_t i = 0; i < rows; i += LANES) {
        const int64_t height = least(rows - i, LANES);
        vf r[LANES];
        if (width == LANES && height == LANES) {
            UNROLL
            for (int k = 0; k < LANES; k++) {
                r[k] = load_as(type, in, (i + k) * in_row + j);
                sum += r[k];
            }
        } else {
            for (int64_t k = 0; k < LANES; k++) {
                r[k] = k < height ? part_as(type, in, (i + k) * in_row + j, (i + k) * in_row + columns) : (vf){0};
                sum += r[k];
            }
        }
        turn(r);
        if (width == LANES && height == LANES) {
            UNROLL
            for (int k = 0; k < LANES; k++)
                store_as(type, out, (j + k) * rows + i, r[k]);
        } else {
            for (int64_t k = 0; k < width; k++)
                put_as(type, out, (j + k) * rows + i, (j + k + 1) * rows, r[k]);
        }
    }
    store_part(sums + j, sum, width);
}

void SIMD_NAME(turn_matrix)(tdm_dtype type, int64_t rows, int64_t columns, const void *in, int64_t in_row, void *out, float *sums)
{
    for (int64_t j = 0; j < columns; j += LANES)
#define STRIP(T) turn_strip(T, rows, columns, in, in_row, j, out, sums)
        FOR_TYPE(type, STRIP);
#undef STRIP
}
