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
    int64_t tile;        /* rows or columns of a tile */
    tdm_dtype type, c_type; /* F32 or BF16: of A and B, and of C; a bias is F32 */
} tdmi_matmul_shape;

typedef struct tdmi_matmul tdmi_matmul;

/* Makes the primitives. *workspace_nbytes: for all threads. */
tdm_status tdmi_matmul_create(const tdmi_matmul_shape *shape, tdmi_matmul **out, size_t *workspace_nbytes);
void tdmi_matmul_destroy(tdmi_matmul *matmul);
/* A tile that oneDNN fails to compute (it found no memory) is filled with NaN, which the loss check of a step reports. */
void tdmi_matmul_run(const tdmi_matmul *matmul, const void *a, const void *b, const float *bias, void *c, void *workspace);
/* The same, and then after(arg, ...) with each block of C that is finished: rows and columns from these on. */
typedef void (*tdmi_matmul_after)(void *arg, int64_t row, int64_t rows, int64_t column, int64_t columns);
void tdmi_matmul_run_and(const tdmi_matmul *matmul, const void *a, const void *b, const float *bias, void *c, void *workspace,
                         tdmi_matmul_after after, void *arg);

#endif
