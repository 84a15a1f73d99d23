/* linear.c - y = x w^T + b, dx = dy w, dw = dy^T x, db = sum of dy over rows.
 *
 * Plain layouts; tiles as wide as was fastest. Where own vector products (simd/) are faster, they serve: the table below.
 *
 * GFLOP/s of one core, oneDNN 2.6.3 / own, Sapphire Rapids (AVX-512), medians of runs beside other load:
 *   rows x I -> O        forward     input      weight         rows x I -> O        forward     input      weight
 *   256  768  2304      138 / 151   167 / 154  155 / 160      1024  256   768      136 / 158   158 / 158  142 / 154
 *   256  768   768      142 / 158   168 / 159  147 / 164      1024  256   256      136 / 116   161 / 149  146 / 151
 *   256  768  3072      126 / 146   166 / 150  143 / 164      1024  256  1024      105 / 103   159 / 159  129 / 155
 *   256 3072   768      142 / 142   145 / 150   88 / 146      1024 1024   256      155 / 159   161 / 158  146 / 148
 *   256  768 50257      112 / 108   139 / 145  143 / 153
 * An input gradient times gelu', ms: 256 3072 768 9.5 / 9.2, 2048 1024 256 13.7 / 11.8: own.
 * On AVX2 only oneDNN has been chosen. */
#include "kernels/onednn/matmul.h"
#include "kernels/onednn/onednn.h"
#include "kernels/simd/simd.h"
#include "kernels/shapes.h"
#include "kernels/threads.h"

#include "core/cpu.h"
#include "core/dtype.h"

#define COLUMNS 512      /* of y or dx in a tile */
#define ROWS_OF_DW 256   /* of dw in a tile */

/* bfloat16 is oneDNN's where the processor multiplies it faster than float32: AMX, or VDPBF16PS but on Intel's cores, where it
 * ran at half the rate of float32. */
static bool serves_type(const tdmi_kernel_io *io)
{
    return io->in[0].dtype == TDM_F32 ? io->out[0].dtype == TDM_F32
                                      : io->in[0].dtype == TDM_BF16 && io->out[0].dtype != TDM_F16 && tdmi_cpu_multiplies_bf16();
}

/* The table: forward products of AVX-512 belong to simd/ unless the weights are small or the output is a vocabulary; weight
 * gradients and input gradients times gelu' of AVX-512 to simd/. */
static bool serves_forward(const tdmi_kernel_io *io)
{
    const int64_t O = io->in[1].dims[0], I = io->in[1].dims[1];
    if (!serves_type(io))
        return false;
    return io->in[0].dtype == TDM_BF16 || tdmi_cpu_isa() < TDMI_ISA_AVX512 || O * I <= 256 * 256 || O >= 16384;
}

static bool serves_but_f32_of_avx512(const tdmi_kernel_io *io)
{
    return serves_type(io) && (io->in[0].dtype == TDM_BF16 || tdmi_cpu_isa() < TDMI_ISA_AVX512);
}

static tdm_status prepare_forward(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const int64_t O = io->in[1].dims[0], I = io->in[1].dims[1], N = (int64_t)tdmi_shape_count(&io->in[0]) / I;
    const tdmi_matmul_shape shape = {.m = N, .n = O, .k = I, .a = {I, 1}, .b = {1, I}, .c = {O, 1},
                                     .bias = io->in_count > 2 && io->in[2].ndim >= 0, .tile = COLUMNS,
                                     .type = io->in[0].dtype, .c_type = io->out[0].dtype};
    tdmi_matmul *matmul;
    tdm_status st = tdmi_matmul_create(&shape, &matmul, workspace_nbytes);
    if (st == TDM_OK)
        *state = matmul;
    return st;
}

/* What is made of the result: a gelu beside it, or in its place its gradient. */
typedef struct gelu {
    tdm_dtype type;
    int64_t row;
    const void *y;
    void *out;
} gelu;

static void gelu_of_block(void *arg, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    const gelu *g = arg;
    const int64_t at = row * g->row + column;
    tdmi_simd_gelu_block(g->type, g->y, g->out, at, g->row, rows, columns);
}

static void gelu_backward_of_block(void *arg, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    const gelu *g = arg;
    const int64_t at = row * g->row + column;
    tdmi_simd_gelu_backward_block(g->type, g->y, g->out, at, g->row, rows, columns);
}

static void run_forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    const bool with_gelu = io->op == TDMI_OP_LINEAR_GELU;
    gelu g = {io->out[0].dtype, tdmi_shape_width(&io->out[0]), out[0], with_gelu ? out[1] : NULL};
    tdmi_matmul_run(state, in[0], in[1], io->in_count > 2 ? in[2] : NULL, out[0], workspace,
                    &(tdmi_matmul_hooks){.after = with_gelu ? gelu_of_block : NULL, .arg = &g});
}

static tdm_status prepare_input(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const int64_t O = io->in[1].dims[0], I = io->in[1].dims[1], N = (int64_t)tdmi_shape_count(&io->in[0]) / O;
    const tdmi_matmul_shape shape = {.m = N, .n = I, .k = O, .a = {O, 1}, .b = {I, 1}, .c = {I, 1},
                                     .add = tdmi_accumulates(io, 0), .tile = COLUMNS, .type = io->in[0].dtype, .c_type = io->out[0].dtype};
    tdmi_matmul *matmul;
    tdm_status st = tdmi_matmul_create(&shape, &matmul, workspace_nbytes);
    if (st == TDM_OK)
        *state = matmul;
    return st;
}

static void run_input(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    const bool of_gelu = io->op == TDMI_OP_LINEAR_BACKWARD_INPUT_GELU;
    gelu g = {io->out[0].dtype, tdmi_shape_width(&io->out[0]), of_gelu ? in[2] : NULL, out[0]};
    tdmi_matmul_run(state, in[0], in[1], NULL, out[0], workspace,
                    &(tdmi_matmul_hooks){.after = of_gelu ? gelu_backward_of_block : NULL, .arg = &g});
}

/* oneDNN reads dy along its rows at a fifth of the speed (bfloat16, O = 3072): rows of dy^T are turned for each tile of dw, and
 * their sums are db. */
typedef struct turning {
    const char *dy;
    void *db; /* NULL: no bias */
    int64_t N, O;
    bool add;
    tdm_dtype type, db_type;
} turning;

static void turn_rows(void *arg, int64_t row, int64_t rows, void *out)
{
    const turning *t = arg;
    float sums[ROWS_OF_DW];
    tdmi_simd_turn_matrix(t->type, t->N, rows, t->dy + row * (int64_t)tdm_dtype_size(t->type), t->O, out, sums);
    if (t->db == NULL)
        return;
    for (int64_t j = 0; j < rows; j++)
        if (t->db_type == TDM_BF16) {
            uint16_t *db = (uint16_t *)t->db + row;
            db[j] = tdmi_f32_to_bf16(t->add ? tdmi_bf16_to_f32(db[j]) + sums[j] : sums[j]);
        } else {
            float *db = (float *)t->db + row;
            db[j] = t->add ? db[j] + sums[j] : sums[j];
        }
}

static tdm_status prepare_weight(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const int64_t O = io->out[0].dims[0], I = io->out[0].dims[1], N = (int64_t)tdmi_shape_count(&io->in[0]) / O;
    const tdmi_matmul_shape shape = {.m = O, .n = I, .k = N, .makes_a = true, .b = {I, 1}, .c = {I, 1},
                                     .add = tdmi_accumulates(io, 0), .cut_rows = true, .tile = ROWS_OF_DW,
                                     .type = io->in[0].dtype, .c_type = io->out[0].dtype};
    tdmi_matmul *matmul;
    tdm_status st = tdmi_matmul_create(&shape, &matmul, workspace_nbytes);
    if (st == TDM_OK)
        *state = matmul;
    return st;
}

static void run_weight(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    const int64_t O = io->out[0].dims[0], N = (int64_t)tdmi_shape_count(&io->in[0]) / O;
    turning t = {in[0], io->out_count > 1 ? out[1] : NULL, N, O, tdmi_accumulates(io, 1), io->in[0].dtype, io->out[1].dtype};
    tdmi_matmul_run(state, NULL, in[1], NULL, out[0], workspace, &(tdmi_matmul_hooks){.before = turn_rows, .arg = &t});
}

static void release(void *state)
{
    tdmi_matmul_destroy(state);
}

const tdmi_kernel tdmi_onednn_linear = {.name = "linear/onednn", .op = TDMI_OP_LINEAR, .isa = TDMI_ISA_AVX2,
                                        .supports = serves_forward, .prepare = prepare_forward, .run = run_forward, .release = release};
const tdmi_kernel tdmi_onednn_linear_backward_input = {.name = "linear_backward_input/onednn", .op = TDMI_OP_LINEAR_BACKWARD_INPUT,
                                                       .isa = TDMI_ISA_AVX2, .supports = serves_type, .prepare = prepare_input, .run = run_input,
                                                       .release = release};
const tdmi_kernel tdmi_onednn_linear_gelu = {.name = "linear_gelu/onednn", .op = TDMI_OP_LINEAR_GELU, .isa = TDMI_ISA_AVX2,
                                             .supports = serves_forward, .prepare = prepare_forward, .run = run_forward,
                                             .release = release};
const tdmi_kernel tdmi_onednn_linear_backward_input_gelu = {.name = "linear_backward_input_gelu/onednn",
                                                            .op = TDMI_OP_LINEAR_BACKWARD_INPUT_GELU,
                                                            .isa = TDMI_ISA_AVX2, .supports = serves_but_f32_of_avx512,
                                                            .prepare = prepare_input, .run = run_input, .release = release};
const tdmi_kernel tdmi_onednn_linear_backward_weight = {.name = "linear_backward_weight/onednn",
                                                        .op = TDMI_OP_LINEAR_BACKWARD_WEIGHT, .isa = TDMI_ISA_AVX2,
                                                        .supports = serves_but_f32_of_avx512, .prepare = prepare_weight,
                                                        .run = run_weight, .release = release};
