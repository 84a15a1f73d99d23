/* multiply.h - the product of matrices that everything here is built from: C = A B + D over one block of k. */
#ifndef TDMI_KERNELS_SIMD_MULTIPLY_H
#define TDMI_KERNELS_SIMD_MULTIPLY_H

#include "kernels/simd/vector.h"

#define WIDE 3               /* vectors of C's columns in a tile */
#define PANEL (WIDE * LANES) /* columns of a panel of B */
#if LANES == 16
#define TALL 8 /* rows of C in a tile: 24 sums, 3 of B, 1 of A in 32 registers */
#else
#define TALL 4 /* 12 sums, 3 of B, 1 of A in 16 registers */
#endif
#define K_BLOCK 384 /* the most of k that a call takes */

/* m x kc floats, element (i, k) at at[i row + k step]; one of row and step is 1. */
typedef struct {
    const float *at;
    int64_t row, step;
} operand_a;

/* kc x n floats, element (k, j) at at[j / PANEL panel + k row + j % PANEL] for j < narrow. From column `narrow` on, a panel has
 * only PAIR columns: so that 4 vectors are not a tile of 3 and a slow one of 1. `padded`: the last vector of a row may be read
 * whole when only a part of it is columns. */
typedef struct {
    const float *at;
    int64_t panel, row, narrow;
    bool padded;
} operand_b;

#define PAIR (2 * LANES)

/* A plain matrix of n columns. */
INLINE operand_b plain_b(const float *at, int64_t row, int64_t n)
{
    return n == 2 * PAIR ? (operand_b){at, PAIR, row, 0, false} : (operand_b){at, PANEL, row, INT64_MAX, false};
}

/* Where a matrix of n columns that will be packed has its first narrow panel. */
INLINE int64_t first_narrow(int64_t n)
{
    return n % PANEL == LANES && n > PANEL ? n - 2 * PAIR : INT64_MAX;
}

/* What is added to the sums: the matrix itself (accumulate), or one row for all (a bias, row 0), or nothing (NULL). */
typedef struct {
    const float *at;
    int64_t row;
} operand_d;

/* Memory needed soon, fetched into the second cache line by line while the sums run: one line for FETCH_STEPS steps of k of each
 * tile of C. Up to three matrices, one after the other, each as pieces: lines `step` bytes apart. */
typedef struct {
    const char *at;
    int64_t pieces, piece; /* how many, and the bytes from one to the next */
    int64_t lines, step;   /* of a piece */
} fetch_matrix;

#define FETCH_MATRICES 3

typedef struct {
    fetch_matrix matrix[FETCH_MATRICES];
    int64_t done; /* lines of the first piece of the first matrix */
} fetch_ahead;

#define FETCH_STEPS 8
#define LINE_BYTES 64

/* Row by row: rows of `columns` floats. */
INLINE fetch_matrix fetch_rows(const float *at, int64_t rows, int64_t columns, int64_t row)
{
    if (columns == row) /* one long row */
        columns *= rows, rows = rows > 0;
    return (fetch_matrix){(const char *)at, rows, row * 4, (columns * 4 + LINE_BYTES - 1) / LINE_BYTES, LINE_BYTES};
}

/* Line by line down all rows: for rows of few lines. */
INLINE fetch_matrix fetch_columns(const float *at, int64_t rows, int64_t columns, int64_t row)
{
    return (fetch_matrix){(const char *)at, rows > 0 ? (columns * 4 + LINE_BYTES - 1) / LINE_BYTES : 0, LINE_BYTES, rows, row * 4};
}

/* C[m x n] with rows c_row apart. Sums go over k = 0, 1, ... and then add D: the bits do not depend on tiles, m, n or
 * instruction set. kc <= K_BLOCK. `ahead` may be NULL. (Operands come as addresses: a copy on the stack is written in words and read
 * in vectors, which waits for every store before it.) */
void SIMD_NAME(multiply)(int64_t m, int64_t n, int64_t kc, const operand_a *a, const operand_b *b, float *c, int64_t c_row, operand_d d,
                         fetch_ahead *ahead);

INLINE int64_t whole_vectors(int64_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

INLINE int64_t whole_panels(int64_t n)
{
    return (n + PANEL - 1) / PANEL * PANEL;
}

/* Blocks of about equal size: the least multiple of 16 that cuts `size` into as few blocks of at most `most` as can be. */
INLINE int64_t even_block(int64_t size, int64_t most)
{
    const int64_t blocks = (size + most - 1) / most;
    return (size + blocks * 16 - 1) / (blocks * 16) * 16;
}

/* out = a plain kc x n matrix in zero-padded panels, `panel` apart, row = PANEL, narrow = first_narrow(n). */
void SIMD_NAME(pack)(int64_t kc, int64_t n, const float *in, int64_t in_row, float *out, int64_t panel);
/* The same of its transpose, with any narrow: out[k][j] = in[j][k]. */
void SIMD_NAME(pack_transposed)(int64_t kc, int64_t n, int64_t narrow, const float *in, int64_t in_row, float *out, int64_t panel);
/* A distance of panels that does not put all of them into the same set of a cache. */
INLINE int64_t packed_panel(int64_t kc)
{
    return kc * PANEL + LANES;
}

/* out[j][i] = in[i][j] + d[j][i] for i < m, j < n. */
void SIMD_NAME(transpose)(int64_t m, int64_t n, const float *in, int64_t in_row, float *out, int64_t out_row, operand_d d);

#endif
