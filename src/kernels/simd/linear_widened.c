/* linear_widened.c - products of 16-bit matrices where the processor multiplies float32 only: a chunk of the weight's rows at a
 * time becomes float32, the best float32 kernel multiplies, and what comes out is rounded once.
 *
 *     w [O,I]  | chunk |          y [N,O] = x w^T          a chunk: columns of y, its rows of w
 *              | chunk |   ->     dx[N,I] = dy w           a chunk: columns of dy, rows of w; sums stay in float32
 *              | chunk |          dw[O,I] = dy^T x         a chunk: columns of dy, rows of dw
 *
 * Costs one pass over the operands more; a chunk stays in the second cache. */
#include "kernels/simd/simd.h"
#include "kernels/simd/vector.h"

#include "core/memory.h"
#include "kernels/shapes.h"

#define CHUNK 512 /* rows of w */

typedef struct {
    tdmi_bound_kernel full, last; /* of float32; last: the rest of the rows, where CHUNK does not divide them */
    int64_t N, I, O;
    size_t inner_nbytes; /* workspace of both, on a cache line */
} widened;

/* Three matrices of float32 in the workspace, behind that of the inner kernel. */
typedef struct {
    void *inner;
    float *whole; /* [N, I]: x or dx */
    float *weight; /* [CHUNK, I]: w or dw */
    float *part;   /* [N, CHUNK]: y or dy */
    float *bias;   /* [CHUNK]: db */
} rooms;

/* Floats, up to a whole cache line. */
static int64_t whole_lines(int64_t count)
{
    return (count + 15) / 16 * 16;
}

static rooms rooms_of(const widened *w, void *workspace)
{
    rooms r = {.inner = workspace, .whole = (float *)(void *)((char *)workspace + w->inner_nbytes)};
    r.weight = r.whole + whole_lines(w->N * w->I);
    r.part = r.weight + CHUNK * w->I;
    r.bias = r.part + w->N * CHUNK;
    return r;
}

static bool supports_16_bits(const tdmi_kernel_io *io)
{
    return io->in[0].dtype != TDM_F32;
}

static tdm_status bind_inner(const tdmi_kernel_io *io, const tdmi_kernel_io *shapes, int64_t rows, widened *w, tdmi_bound_kernel *out)
{
    tdmi_kernel_io inner = *shapes;
    inner.op = io->op == TDMI_OP_LINEAR_GELU                  ? TDMI_OP_LINEAR
               : io->op == TDMI_OP_LINEAR_BACKWARD_INPUT_GELU ? TDMI_OP_LINEAR_BACKWARD_INPUT
                                                              : io->op;
    inner.attr = io->attr;
    for (int k = 0; k < inner.in_count; k++)
        for (int d = 0; d < inner.in[k].ndim; d++)
            inner.in[k].dims[d] = inner.in[k].dims[d] < 0 ? rows : inner.in[k].dims[d];
    for (int k = 0; k < inner.out_count; k++)
        for (int d = 0; d < inner.out[k].ndim; d++)
            inner.out[k].dims[d] = inner.out[k].dims[d] < 0 ? rows : inner.out[k].dims[d];
    if (inner.op == TDMI_OP_LINEAR_BACKWARD_INPUT)
        inner.attr.accumulate = 1; /* chunk by chunk */
    tdm_status st = tdmi_kernel_bind(&inner, SIMD_NEEDS, out);
    const size_t nbytes = (out->workspace_nbytes + 63) / 64 * 64;
    if (st == TDM_OK && nbytes > w->inner_nbytes)
        w->inner_nbytes = nbytes;
    return st;
}

static void release(void *state)
{
    widened *w = state;
    tdmi_kernel_unbind(&w->full);
    tdmi_kernel_unbind(&w->last);
    tdmi_free(w);
}

/* shapes: of the inner kernel, -1 where the rows of a chunk are. */
static tdm_status prepare(const tdmi_kernel_io *io, const tdmi_kernel_io *shapes, int64_t N, int64_t I, int64_t O, void **state,
                          size_t *workspace_nbytes)
{
    widened *w = tdmi_calloc(1, sizeof *w, "kernels");
    if (w == NULL)
        return TDM_ERR_NO_MEMORY;
    w->N = N, w->I = I, w->O = O;
    tdm_status st = O >= CHUNK ? bind_inner(io, shapes, CHUNK, w, &w->full) : TDM_OK;
    if (st == TDM_OK && O % CHUNK != 0)
        st = bind_inner(io, shapes, O % CHUNK, w, &w->last);
    if (st != TDM_OK) {
        release(w);
        return st;
    }
    *workspace_nbytes = w->inner_nbytes + (size_t)(whole_lines(N * I) + CHUNK * I + N * CHUNK + CHUNK) * sizeof(float);
    *state = w;
    return TDM_OK;
}

static tdm_status prepare_forward(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const int64_t O = io->in[1].dims[0], I = io->in[1].dims[1], N = (int64_t)tdmi_shape_count(&io->in[0]) / I;
    tdmi_kernel_io shapes = {.in_count = 3, .out_count = 1, .in = {{TDM_F32, 2, {N, I}}, {TDM_F32, 2, {-1, I}}, {TDM_F32, 1, {-1}}},
                             .out = {{TDM_F32, 2, {N, -1}}}};
    if (io->in_count < 3 || io->in[2].ndim < 0)
        shapes.in[2].ndim = -1;
    return prepare(io, &shapes, N, I, O, state, workspace_nbytes);
}

static tdm_status prepare_input(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const int64_t O = io->in[1].dims[0], I = io->in[1].dims[1], N = (int64_t)tdmi_shape_count(&io->in[0]) / O;
    const tdmi_kernel_io shapes = {.in_count = 2, .out_count = 1, .in = {{TDM_F32, 2, {N, -1}}, {TDM_F32, 2, {-1, I}}},
                                   .out = {{TDM_F32, 2, {N, I}}}};
    return prepare(io, &shapes, N, I, O, state, workspace_nbytes);
}

static tdm_status prepare_weight(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const int64_t O = io->out[0].dims[0], I = io->out[0].dims[1], N = (int64_t)tdmi_shape_count(&io->in[0]) / O;
    tdmi_kernel_io shapes = {.in_count = 2, .out_count = 2, .in = {{TDM_F32, 2, {N, -1}}, {TDM_F32, 2, {N, I}}},
                             .out = {{TDM_F32, 2, {-1, I}}, {TDM_F32, 1, {-1}}}};
    if (io->out_count < 2 || io->out[1].ndim < 0)
        shapes.out[1].ndim = -1;
    return prepare(io, &shapes, N, I, O, state, workspace_nbytes);
}

static const tdmi_bound_kernel *kernel_of(const widened *w, int64_t rows)
{
    return rows == CHUNK ? &w->full : &w->last;
}

static void run_forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    const widened *w = state;
    const rooms r = rooms_of(w, workspace);
    const float *bias = io->in_count > 2 ? in[2] : NULL;
    widen_rows(io->in[0].dtype, in[0], 0, w->I, w->N, w->I, r.whole);
    for (int64_t o = 0; o < w->O; o += CHUNK) {
        const int64_t rows = least(CHUNK, w->O - o);
        widen_rows(io->in[1].dtype, in[1], o * w->I, w->I, rows, w->I, r.weight);
        tdmi_kernel_run(kernel_of(w, rows), (const void *[]){r.whole, r.weight, bias != NULL ? bias + o : NULL}, (void *[]){r.part},
                        r.inner);
        narrow_rows(io->out[0].dtype, r.part, rows, w->N, rows, out[0], o, w->O);
        if (io->op == TDMI_OP_LINEAR_GELU)
            SIMD_NAME(gelu_block)(io->out[0].dtype, out[0], out[1], o, w->O, w->N, rows);
    }
}

static void run_input(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    const widened *w = state;
    const rooms r = rooms_of(w, workspace);
    if (tdmi_accumulates(io, 0))
        widen_rows(io->out[0].dtype, out[0], 0, w->I, w->N, w->I, r.whole);
    else
        memset(r.whole, 0, (size_t)(w->N * w->I) * sizeof *r.whole);
    for (int64_t o = 0; o < w->O; o += CHUNK) {
        const int64_t rows = least(CHUNK, w->O - o);
        widen_rows(io->in[0].dtype, in[0], o, w->O, w->N, rows, r.part);
        widen_rows(io->in[1].dtype, in[1], o * w->I, w->I, rows, w->I, r.weight);
        tdmi_kernel_run(kernel_of(w, rows), (const void *[]){r.part, r.weight}, (void *[]){r.whole}, r.inner);
    }
    narrow_rows(io->out[0].dtype, r.whole, w->I, w->N, w->I, out[0], 0, w->I);
    if (io->op == TDMI_OP_LINEAR_BACKWARD_INPUT_GELU)
        SIMD_NAME(gelu_backward_block)(io->out[0].dtype, in[2], out[0], 0, w->I, w->N, w->I);
}

static void run_weight(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    const widened *w = state;
    const rooms r = rooms_of(w, workspace);
    const tdm_dtype type = io->out[0].dtype;
    const bool with_bias = io->out_count > 1 && out[1] != NULL;
    widen_rows(io->in[1].dtype, in[1], 0, w->I, w->N, w->I, r.whole);
    for (int64_t o = 0; o < w->O; o += CHUNK) {
        const int64_t rows = least(CHUNK, w->O - o);
        widen_rows(io->in[0].dtype, in[0], o, w->O, w->N, rows, r.part);
        if (tdmi_accumulates(io, 0))
            widen_rows(type, out[0], o * w->I, w->I, rows, w->I, r.weight);
        if (with_bias && tdmi_accumulates(io, 1))
            widen_rows(type, out[1], o, rows, 1, rows, r.bias);
        tdmi_kernel_run(kernel_of(w, rows), (const void *[]){r.part, r.whole}, (void *[]){r.weight, with_bias ? r.bias : NULL}, r.inner);
        narrow_rows(type, r.weight, w->I, rows, w->I, out[0], o * w->I, w->I);
        if (with_bias)
            narrow_rows(type, r.bias, rows, 1, rows, out[1], o, rows);
    }
}

const tdmi_kernel SIMD_NAME(linear_widened) = {.name = SIMD_LABEL("linear") "_widened", .op = TDMI_OP_LINEAR, .isa = SIMD_NEEDS,
                                               .supports = supports_16_bits, .prepare = prepare_forward, .run = run_forward,
                                               .release = release};
const tdmi_kernel SIMD_NAME(linear_gelu_widened) = {.name = SIMD_LABEL("linear_gelu") "_widened", .op = TDMI_OP_LINEAR_GELU, .isa = SIMD_NEEDS,
                                                    .supports = supports_16_bits, .prepare = prepare_forward,
                                                    .run = run_forward, .release = release};
const tdmi_kernel SIMD_NAME(linear_backward_input_gelu_widened) = {.name = SIMD_LABEL("linear_backward_input_gelu") "_widened",
                                                                   .op = TDMI_OP_LINEAR_BACKWARD_INPUT_GELU,
                                                                   .isa = SIMD_NEEDS,
                                                                   .supports = supports_16_bits,
                                                                   .prepare = prepare_input,
                                                                   .run = run_input,
                                                                   .release = release};
const tdmi_kernel SIMD_NAME(linear_backward_input_widened) = {.name = SIMD_LABEL("linear_backward_input") "_widened",
                                                              .op = TDMI_OP_LINEAR_BACKWARD_INPUT,
                                                              .isa = SIMD_NEEDS,
                                                              .supports = supports_16_bits,
                                                              .prepare = prepare_input,
                                                              .run = run_input,
                                                              .release = release};
const tdmi_kernel SIMD_NAME(linear_backward_weight_widened) = {.name = SIMD_LABEL("linear_backward_weight") "_widened",
                                                               .op = TDMI_OP_LINEAR_BACKWARD_WEIGHT,
                                                               .isa = SIMD_NEEDS,
                                                               .supports = supports_16_bits,
                                                               .prepare = prepare_weight,
                                                               .run = run_weight,
                                                               .release = release};
