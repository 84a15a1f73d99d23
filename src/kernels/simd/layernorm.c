/* layernorm.c - forward and backward, a row at a time: the row stays in the first cache for all its passes.
 * dw and db are summed over TILE rows into the workspace, then over tiles, in order. */
#include "kernels/simd/simd.h"
#include "kernels/simd/vector.h"

#include "kernels/shapes.h"
#include "kernels/threads.h"

#include <math.h>

#define TILE 32 /* rows */

typedef struct {
    const float *x, *w, *b, *mean, *rstd;
    const void *dy;
    void *y;                    /* forward */
    float *mean_out, *rstd_out;
    float *dx, *partial;        /* backward; partial [tiles][2][C] */
    void *narrow;               /* dx in a type of 16 bits, or NULL */
    tdm_dtype narrow_type;
    const float *a;             /* forward of a sum: x = a + branch is written first; branch of type branch_type */
    const void *branch;
    float *sum;
    tdm_dtype branch_type;
    tdm_dtype type;             /* of y and dy */
    int64_t N, C;
    float eps;
    bool add_dx;
} operands;

/* a row's elements c..c+LANES-1, those past its end as 0 */
INLINE vf part(const float *row, int64_t c, int64_t C)
{
    return part_as(TDM_F32, row, c, C);
}

INLINE void put(float *row, int64_t c, int64_t C, vf v)
{
    put_as(TDM_F32, row, c, C, v);
}

INLINE void forward_row(const operands *o, int64_t n, tdm_dtype type)
{
    const float *x = o->x + n * o->C;
    const int64_t y = n * o->C;
    vf sum[4] = {{0}, {0}, {0}, {0}}, square[4] = {{0}, {0}, {0}, {0}};
    int64_t c = 0;
    for (; c + 4 * LANES <= o->C; c += 4 * LANES)
        UNROLL
        for (int i = 0; i < 4; i++)
            sum[i] += load(x + c + i * LANES);
    for (; c < o->C; c += LANES)
        sum[0] += part(x, c, o->C);
    const float mean = sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3])) / (float)o->C;
    for (c = 0; c + 4 * LANES <= o->C; c += 4 * LANES)
        UNROLL
        for (int i = 0; i < 4; i++) {
            const vf d = load(x + c + i * LANES) - mean;
            square[i] += d * d;
        }
    for (; c < o->C; c += LANES) {
        const vf d = (o->C - c >= LANES ? load(x + c) : load_part(x + c, o->C - c, mean)) - mean;
        square[0] += d * d;
    }
    const float variance = sum_lanes((square[0] + square[1]) + (square[2] + square[3])) / (float)o->C;
    const float rstd = 1.0f / sqrtf(variance + o->eps);
    for (c = 0; c < o->C; c += LANES)
        put_as(type, o->y, y + c, y + o->C, (part(x, c, o->C) - mean) * rstd * part(o->w, c, o->C) + part(o->b, c, o->C));
    o->mean_out[n] = mean;
    o->rstd_out[n] = rstd;
}

static void sum_row(const operands *o, int64_t n)
{
    const int64_t begin = n * o->C, end = begin + o->C;
#define ROW(T)                                                                                                         \
    for (int64_t c = begin; c < end; c += LANES)                                                                       \
    put_as(TDM_F32, o->sum, c, end, part_as(TDM_F32, o->a, c, end) + part_as(T, o->branch, c, end))
    FOR_TYPE(o->branch_type, ROW);
#undef ROW
}

static void forward_tile(void *arg, int64_t tile, int worker)
{
    const operands *o = arg;
    (void)worker;
    for (int64_t n = tile * TILE; o->sum != NULL && n < o->N && n < (tile + 1) * TILE; n++)
        sum_row(o, n);
#define ROWS(type)                                                                                                     \
    for (int64_t n = tile * TILE; n < o->N && n < (tile + 1) * TILE; n++)                                              \
    forward_row(o, n, type)
    FOR_TYPE(o->type, ROWS);
#undef ROWS
}

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    operands o = {.x = in[0], .w = in[1], .b = in[2], .y = out[0], .mean_out = out[1], .rstd_out = out[2],
                  .N = tdmi_shape_rows(&io->in[0]), .C = tdmi_shape_width(&io->in[0]), .eps = io->attr.eps,
                  .type = io->out[0].dtype};
    tdmi_kernels_tiles((o.N + TILE - 1) / TILE, forward_tile, &o);
}

static void sum_and_norm(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    operands o = {.a = in[0], .branch = in[1], .branch_type = io->in[1].dtype, .sum = out[0], .x = out[0], .w = in[2], .b = in[3],
                  .y = out[1], .mean_out = out[2], .rstd_out = out[3], .N = tdmi_shape_rows(&io->in[0]),
                  .C = tdmi_shape_width(&io->in[0]), .eps = io->attr.eps, .type = io->out[1].dtype};
    tdmi_kernels_tiles((o.N + TILE - 1) / TILE, forward_tile, &o);
}

INLINE void backward_row(const operands *o, int64_t n, float *dw, float *db, tdm_dtype type)
{
    const int64_t dy = n * o->C, end = dy + o->C;
    const float *x = o->x + n * o->C, mean = o->mean[n], rstd = o->rstd[n];
    float *dx = o->dx + n * o->C;
    vf sum_dh = {0}, sum_dh_h = {0};
    for (int64_t c = 0; c < o->C; c += LANES) {
        const vf d = part_as(type, o->dy, dy + c, end), h = (part(x, c, o->C) - mean) * rstd, dh = d * part(o->w, c, o->C);
        sum_dh += dh;
        sum_dh_h += dh * h;
        put(dw, c, o->C, part(dw, c, o->C) + d * h);
        put(db, c, o->C, part(db, c, o->C) + d);
    }
    const float mean_dh = sum_lanes(sum_dh) / (float)o->C, mean_dh_h = sum_lanes(sum_dh_h) / (float)o->C;
    for (int64_t c = 0; c < o->C; c += LANES) {
        const vf h = (part(x, c, o->C) - mean) * rstd, dh = part_as(type, o->dy, dy + c, end) * part(o->w, c, o->C);
        vf d = (dh - mean_dh - h * mean_dh_h) * rstd;
        if (o->add_dx)
            d += part(dx, c, o->C);
        put(dx, c, o->C, d);
    }
    if (o->narrow != NULL)
        narrow_rows(o->narrow_type, dx, o->C, 1, o->C, o->narrow, n * o->C, o->C);
}

static void backward_tile(void *arg, int64_t tile, int worker)
{
    const operands *o = arg;
    (void)worker;
    float *dw = o->partial + tile * 2 * o->C, *db = dw + o->C;
    memset(dw, 0, (size_t)(2 * o->C) * sizeof *dw);
#define ROWS(type)                                                                                                     \
    for (int64_t n = tile * TILE; n < o->N && n < (tile + 1) * TILE; n++)                                              \
    backward_row(o, n, dw, db, type)
    FOR_TYPE(o->type, ROWS);
#undef ROWS
}

/* out = (add ? out : 0) + the partial sums of all tiles, each 2 C apart. */
INLINE void sum_tiles_as(tdm_dtype type, const float *partial, int64_t tiles, int64_t C, bool add, void *out)
{
    for (int64_t c = 0; c < C; c += LANES) {
        vf sum = part(partial, c, C);
        for (int64_t tile = 1; tile < tiles; tile++)
            sum += part(partial + tile * 2 * C, c, C);
        put_as(type, out, c, C, add ? part_as(type, out, c, C) + sum : sum);
    }
}

static void sum_tiles(const float *partial, int64_t tiles, int64_t C, bool add, tdm_dtype type, void *out)
{
#define SUM(type) sum_tiles_as(type, partial, tiles, C, add, out)
    FOR_TYPE(type, SUM);
#undef SUM
}

static tdm_status prepare_backward(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const int64_t N = tdmi_shape_rows(&io->in[1]), C = tdmi_shape_width(&io->in[1]);
    *workspace_nbytes = (size_t)((N + TILE - 1) / TILE * 2 * C) * sizeof(float);
    *state = NULL;
    return TDM_OK;
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state;
    operands o = {.dy = in[0], .x = in[1], .w = in[2], .mean = in[3], .rstd = in[4], .dx = out[0], .partial = workspace,
                  .N = tdmi_shape_rows(&io->in[1]), .C = tdmi_shape_width(&io->in[1]),
                  .add_dx = tdmi_accumulates(io, 0), .type = io->in[0].dtype,
                  .narrow = io->out_count > 3 ? out[3] : NULL, .narrow_type = io->out[3].dtype};
    const int64_t tiles = (o.N + TILE - 1) / TILE;
    tdmi_kernels_tiles(tiles, backward_tile, &o);
    sum_tiles(o.partial, tiles, o.C, tdmi_accumulates(io, 1), io->out[1].dtype, out[1]);
    sum_tiles(o.partial + o.C, tiles, o.C, tdmi_accumulates(io, 2), io->out[2].dtype, out[2]);
}

const tdmi_kernel SIMD_NAME(layernorm) = {
    .name = SIMD_LABEL("layernorm"), .op = TDMI_OP_LAYERNORM, .isa = SIMD_NEEDS, .run = forward};
const tdmi_kernel SIMD_NAME(residual_layernorm) = {
    .name = SIMD_LABEL("residual_layernorm"), .op = TDMI_OP_RESIDUAL_LAYERNORM, .isa = SIMD_NEEDS, .run = sum_and_norm};
const tdmi_kernel SIMD_NAME(layernorm_backward) = {.name = SIMD_LABEL("layernorm_backward"),
                                                   .op = TDMI_OP_LAYERNORM_BACKWARD,
                                                   .isa = SIMD_NEEDS,
                                                   .prepare = prepare_backward,
                                                   .run = backward};
