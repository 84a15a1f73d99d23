/* turn.h - a block of LANES x LANES floats in registers, turned. */
#ifndef TDMI_KERNELS_SIMD_TURN_H
#define TDMI_KERNELS_SIMD_TURN_H

#include "kernels/simd/vector.h"

/* Rows become columns, LANES by LANES, by exchanging ever larger parts of pairs of rows. */
INLINE void turn(vf r[LANES])
{
    vf t[LANES];
#if LANES == 16
    UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
    UNROLL
    for (int i = 0; i < 16; i += 4)
        UNROLL
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13,
                                                   28, 29);
            r[i + 2 * j + 1] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27,
                                                       14, 15, 30, 31);
        }
    UNROLL
    for (int i = 0; i < 16; i += 8)
        UNROLL
        for (int j = 0; j < 4; j++) {
            t[i + j] = __builtin_shufflevector(r[i + j], r[i + j + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26,
                                               27);
            t[i + j + 4] = __builtin_shufflevector(r[i + j], r[i + j + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28,
                                                   29, 30, 31);
        }
    UNROLL
    for (int j = 0; j < 8; j++) {
        r[j] = __builtin_shufflevector(t[j], t[j + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        r[j + 8] = __builtin_shufflevector(t[j], t[j + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    }
#else
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4)
        UNROLL
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[i + 2 * j + 1] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    UNROLL
    for (int j = 0; j < 4; j++) {
        t[j] = __builtin_shufflevector(r[j], r[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        t[j + 4] = __builtin_shufflevector(r[j], r[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    UNROLL
    for (int j = 0; j < 8; j++)
        r[j] = t[j];
#endif
}

#endif
