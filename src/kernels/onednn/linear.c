/* linear.c - y = x w^T + b, dx = dy w, dw = dy^T x, db = sum of dy over rows.
 *
 * Plain layouts: on the shapes of GPT-2 oneDNN's matmul comes within a few percent of what a core can do without packing
 * weights first. Tiles are as wide as was fastest with one thread. */
#include "kernels/onednn/matmul.h"
#include "kernels/onednn/onednn.h"
#include "kernels/shapes.h"
#include "kernels/threads.h"

#include "core/cpu.h"

#include <string.h>

#define COLUMNS 512      /* of y or dx in a tile */
#define ROWS_OF_DW 1024  /* of dw in a tile */
#define BIAS_COLUMNS 64  /* of db in a tile */

static tdm_status prepare_forward(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const int64_t O = io->in[1].dims[0], I = io->in[1].dims[1], N = (int64_t)tdmi_shape_count(&io->in[0]) / I;
    const tdmi_matmul_shape shape = {.m = N, .n = O, .k = I, .a = {I, 1}, .b = {1, I}, .c = {O, 1},
                                     .bias = io->in_count > 2 && io->in[2].ndim >= 0, .tile = COLUMNS};
    tdmi_matmul *matmul;
    tdm_status st = tdmi_matmul_create(&shape, &matmul, workspace_nbytes);
    if (st == TDM_OK)
        *state = matmul;
    return st;
}

static void run_forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    tdmi_matmul_run(state, in[0], in[1], io->in_count > 2 ? in[2] : NULL, out[0], workspace);
}

static tdm_status prepare_input(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const int64_t O = io->in[1].dims[0], I = io->in[1].dims[1], N = (int64_t)tdmi_shape_count(&io->in[0]) / O;
    const tdmi_matmul_shape shape = {.m = N, .n = I, .k = O, .a = {O, 1}, .b = {I, 1}, .c = {I, 1},
                                     .add = tdmi_accumulates(io, 0), .tile = COLUMNS};
    tdmi_matmul *matmul;
    tdm_status st = tdmi_matmul_create(&shape, &matmul, workspace_nbytes);
    if (st == TDM_OK)
        *state = matmul;
    return st;
}

static void run_input(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)io;
    tdmi_matmul_run(state, in[0], in[1], NULL, out[0], workspace);
}

static tdm_status prepare_weight(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const int64_t O = io->out[0].dims[0], I = io->out[0].dims[1], N = (int64_t)tdmi_shape_count(&io->in[0]) / O;
    const tdmi_matmul_shape shape = {.m = O, .n = I, .k = N, .a = {1, O}, .b = {I, 1}, .c = {I, 1},
                                     .add = tdmi_accumulates(io, 0), .cut_rows = true, .tile = ROWS_OF_DW};
    tdmi_matmul *matmul;
    tdm_status st = tdmi_matmul_create(&shape, &matmul, workspace_nbytes);
    if (st == TDM_OK)
        *state = matmul;
    return st;
}

typedef struct bias_sum {
    const float *dy;
    float *db;
    int64_t N, O;
    bool add;
} bias_sum;

static void sum_columns(void *arg, int64_t tile, int worker)
{
    const bias_sum *s = arg;
    const int64_t first = tile * BIAS_COLUMNS, left = s->O - first, count = left < BIAS_COLUMNS ? left : BIAS_COLUMNS;
    float sum[BIAS_COLUMNS] = {0};
    (void)worker;
    if (count == BIAS_COLUMNS) {
        for (int64_t n = 0; n < s->N; n++)
            for (int64_t j = 0; j < BIAS_COLUMNS; j++)
                sum[j] += s->dy[n * s->O + first + j];
    } else {
        for (int64_t n = 0; n < s->N; n++)
            for (int64_t j = 0; j < count; j++)
                sum[j] += s->dy[n * s->O + first + j];
    }
    for (int64_t j = 0; j < count; j++)
        s->db[first + j] = s->add ? s->db[first + j] + sum[j] : sum[j];
}

static void run_weight(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    const int64_t O = io->out[0].dims[0], N = (int64_t)tdmi_shape_count(&io->in[0]) / O;
    tdmi_matmul_run(state, in[0], in[1], NULL, out[0], workspace);
    if (io->out_count > 1 && out[1] != NULL) {
        bias_sum sum = {in[0], out[1], N, O, tdmi_accumulates(io, 1)};
        tdmi_kernels_tiles((O + BIAS_COLUMNS - 1) / BIAS_COLUMNS, sum_columns, &sum);
    }
}

static void release(void *state)
{
    tdmi_matmul_destroy(state);
}

const tdmi_kernel tdmi_onednn_linear = {.name = "linear/onednn", .op = TDMI_OP_LINEAR, .isa = TDMI_ISA_AVX2,
                                        .prepare = prepare_forward, .run = run_forward, .release = release};
const tdmi_kernel tdmi_onednn_linear_backward_input = {.name = "linear_backward_input/onednn", .op = TDMI_OP_LINEAR_BACKWARD_INPUT,
                                                       .isa = TDMI_ISA_AVX2, .prepare = prepare_input, .run = run_input,
                                                       .release = release};
const tdmi_kernel tdmi_onednn_linear_backward_weight = {.name = "linear_backward_weight/onednn",
                                                        .op = TDMI_OP_LINEAR_BACKWARD_WEIGHT, .isa = TDMI_ISA_AVX2,
                                                        .prepare = prepare_weight, .run = run_weight, .release = release};
