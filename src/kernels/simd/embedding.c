/* embedding.c - rows of the table picked by token, and their gradient. Backward gives each thread its own columns, so a
 * row's gradients are added in the order of the rows of dy whatever the number of threads. */
#include "kernels/simd/simd.h"
#include "kernels/simd/vector.h"

#include "kernels/shapes.h"
#include "kernels/threads.h"

#define TILE 32 /* rows of y */

typedef struct {
    const int32_t *tokens;
    const float *wte, *wpe, *dy;
    float *y, *dwte, *dwpe;
    int64_t rows, T, C, V, P, columns; /* columns: of a tile of backward */
    bool add_wte, add_wpe;
} operands;

/* y = a + b, b may be NULL (0); y may be a. */
INLINE void sum_rows(const float *a, const float *b, float *y, int64_t count)
{
    int64_t c = 0;
    for (; c + LANES <= count; c += LANES)
        store(y + c, b != NULL ? load(a + c) + load(b + c) : load(a + c));
    for (; c < count; c++)
        y[c] = b != NULL ? a[c] + b[c] : a[c];
}

static void forward_tile(void *arg, int64_t tile, int worker)
{
    const operands *o = arg;
    (void)worker;
    for (int64_t n = tile * TILE; n < o->rows && n < (tile + 1) * TILE; n++)
        sum_rows(o->wte + o->tokens[n] * o->C, o->wpe != NULL ? o->wpe + n % o->T * o->C : NULL, o->y + n * o->C, o->C);
}

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    operands o = {.tokens = in[0], .wte = in[1], .wpe = in[2], .y = out[0], .rows = (int64_t)tdmi_shape_count(&io->in[0]),
                  .T = tdmi_shape_width(&io->in[0]), .C = tdmi_shape_width(&io->in[1])};
    tdmi_kernels_tiles((o.rows + TILE - 1) / TILE, forward_tile, &o);
}

static void backward_tile(void *arg, int64_t tile, int worker)
{
    const operands *o = arg;
    (void)worker;
    const int64_t c = tile * o->columns, count = least(o->C - c, o->columns);
    if (o->dwte != NULL && !o->add_wte)
        for (int64_t v = 0; v < o->V; v++)
            memset(o->dwte + v * o->C + c, 0, (size_t)count * sizeof(float));
    if (o->dwpe != NULL && !o->add_wpe)
        for (int64_t p = 0; p < o->P; p++)
            memset(o->dwpe + p * o->C + c, 0, (size_t)count * sizeof(float));
    for (int64_t n = 0; n < o->rows; n++) {
        const float *dy = o->dy + n * o->C + c;
        if (o->dwte != NULL) {
            float *row = o->dwte + o->tokens[n] * o->C + c;
            sum_rows(row, dy, row, count);
        }
        if (o->dwpe != NULL) {
            float *row = o->dwpe + n % o->T * o->C + c;
            sum_rows(row, dy, row, count);
        }
    }
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    operands o = {.dy = in[0], .tokens = in[1], .dwte = out[0], .dwpe = out[1],
                  .rows = (int64_t)tdmi_shape_count(&io->in[1]), .T = tdmi_shape_width(&io->in[1]),
                  .C = tdmi_shape_width(&io->in[0]), .V = io->out[0].dims[0], .P = io->out[1].dims[0],
                  .add_wte = tdmi_accumulates(io, 0), .add_wpe = tdmi_accumulates(io, 1)};
    const int64_t share = (o.C + tdmi_kernels_threads() - 1) / tdmi_kernels_threads();
    o.columns = (share + 63) / 64 * 64;
    tdmi_kernels_tiles((o.C + o.columns - 1) / o.columns, backward_tile, &o);
}

const tdmi_kernel SIMD_NAME(embedding) = {
    .name = SIMD_LABEL("embedding"), .op = TDMI_OP_EMBEDDING, .isa = SIMD_NEEDS, .run = forward};
const tdmi_kernel SIMD_NAME(embedding_backward) = {
    .name = SIMD_LABEL("embedding_backward"), .op = TDMI_OP_EMBEDDING_BACKWARD, .isa = SIMD_NEEDS, .run = backward};
