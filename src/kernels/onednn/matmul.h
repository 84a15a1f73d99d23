/* matmul.h - C = A B in fixed tiles, each a oneDNN primitive that runs on one thread. */
#ifndef TDMI_KERNELS_ONEDNN_MATMUL_H
#define TDMI_KERNELS_ONEDNN_MATMUL_H

#include "core/error.h"

#include <tandem/dtype.h>

/* Element [i,j] of a matrix lies at i * row + j * column; one of the two is 1. */
typedef struct tdmi_matrix {
    int64_t row, column;
} tdmi_matrix;

typedef struct tdmi_matmul_shape {
    int64_t m, n, k;
    tdmi_matrix a, b, c; /* [m,k], [k,n], [m,n] */
    bool bias;           /* adds one value a column of C */
    bool add;            /* C += A B */
    bool cut_rows;       /* tiles are rows of C, else columns */
    bool makes_a;        /* rows of A are made where they are needed (tdmi_matmul_hooks.before), plain; only with cut_rows */
    int64_t tile;        /* rows or columns of a tile */
    tdm_dtype type, c_type; /* F32 or BF16: of A and B, and of C; a bias is F32 */
} tdmi_matmul_shape;

typedef struct tdmi_matmul tdmi_matmul;

/* Makes the primitives. *workspace_nbytes: for all threads. */
tdm_status tdmi_matmul_create(const tdmi_matmul_shape *shape, tdmi_matmul **out, size_t *workspace_nbytes);
void tdmi_matmul_destroy(tdmi_matmul *matmul);

/* What is done around a tile, by the thread that computes it; NULL: nothing. */
typedef struct tdmi_matmul_hooks {
    void (*before)(void *arg, int64_t row, int64_t rows, void *a); /* write these rows of A, [rows, k] */
    void (*after)(void *arg, int64_t row, int64_t rows, int64_t column, int64_t columns); /* this block of C is finished */
    void *arg;
} tdmi_matmul_hooks;

/* a is not looked at where `before` makes it. A tile that oneDNN fails to compute (it found no memory) is filled with NaN, which the
 * loss check of a step reports. */
void tdmi_matmul_run(const tdmi_matmul *matmul, const void *a, const void *b, const float *bias, void *c, void *workspace,
                     const tdmi_matmul_hooks *hooks);

#endif
