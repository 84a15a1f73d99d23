/* embedding.c - rows of the table picked by token, and their gradient. Backward gives each thread its own columns, so a
 * row's gradients are added in the order of the rows of dy whatever the number of threads. What falls on one row of a gradient of
 * 16 bits is summed in float32 and rounded once: rows of dy with one token are chained first. */
#include "kernels/simd/simd.h"
#include "kernels/simd/vector.h"

#include "kernels/shapes.h"
#include "kernels/threads.h"

#define TILE 32 /* rows of y */

typedef struct {
    const int32_t *tokens;
    const float *wte, *wpe, *dy;
    float *y;
    void *dwte, *dwpe;
    tdm_dtype type;        /* of dwte and dwpe */
    int32_t *last;         /* of a 16-bit type: [V] the last row of dy with the token so far, or -1 */
    int32_t *next;         /* [rows] the next row with the same token, or -1; then [rows] whether a row is its token's first */
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

/* Columns c to c + count - 1 of a row of the table: plus the rows of dy from `row` on, by `next` or `stride` apart. */
INLINE void add_chain(tdm_dtype type, const operands *o, void *table, int64_t to, int64_t c, int64_t count, int64_t row,
                      const int32_t *next, int64_t stride)
{
    const int64_t begin = to * o->C + c, end = begin + count;
    for (int64_t i = begin; i < end; i += LANES) {
        vf sum = part_as(type, table, i, end);
        for (int64_t n = row; n >= 0 && n < o->rows; n = next != NULL ? next[n] : n + stride)
            sum += part_as(TDM_F32, o->dy, n * o->C + c + (i - begin), n * o->C + c + count);
        put_as(type, table, i, end, sum);
    }
}

INLINE void add_chains(tdm_dtype type, const operands *o, int64_t c, int64_t count)
{
    for (int64_t n = 0; n < o->rows && o->dwte != NULL; n++)
        if (o->next[o->rows + n] != 0)
            add_chain(type, o, o->dwte, o->tokens[n], c, count, n, o->next, 0);
    for (int64_t t = 0; t < o->T && o->dwpe != NULL; t++)
        add_chain(type, o, o->dwpe, t, c, count, t, NULL, o->T);
}

static void add_rows(const operands *o, int64_t c, int64_t count)
{
    float *dwte = o->dwte, *dwpe = o->dwpe;
    for (int64_t n = 0; n < o->rows; n++) {
        const float *dy = o->dy + n * o->C + c;
        if (dwte != NULL) {
            float *row = dwte + o->tokens[n] * o->C + c;
            sum_rows(row, dy, row, count);
        }
        if (dwpe != NULL) {
            float *row = dwpe + n % o->T * o->C + c;
            sum_rows(row, dy, row, count);
        }
    }
}

static void zero_columns(const operands *o, void *table, int64_t rows, int64_t c, int64_t count)
{
    const size_t size = tdm_dtype_size(o->type);
    for (int64_t r = 0; r < rows; r++)
        memset((char *)table + (size_t)(r * o->C + c) * size, 0, (size_t)count * size);
}

static void backward_tile(void *arg, int64_t tile, int worker)
{
    const operands *o = arg;
    (void)worker;
    const int64_t c = tile * o->columns, count = least(o->C - c, o->columns);
    if (o->dwte != NULL && !o->add_wte)
        zero_columns(o, o->dwte, o->V, c, count);
    if (o->dwpe != NULL && !o->add_wpe)
        zero_columns(o, o->dwpe, o->P, c, count);
    if (o->type == TDM_BF16)
        add_chains(TDM_BF16, o, c, count);
    else if (o->type == TDM_F16)
        add_chains(TDM_F16, o, c, count);
    else
        add_rows(o, c, count);
}

/* next[n] of each row, and at next[rows + n] whether it begins a chain. */
static void chain_rows(operands *o)
{
    for (int64_t v = 0; v < o->V; v++)
        o->last[v] = -1;
    for (int64_t n = 0; n < o->rows; n++) {
        int32_t *last = &o->last[o->tokens[n]];
        o->next[n] = -1;
        o->next[o->rows + n] = *last < 0;
        if (*last >= 0)
            o->next[*last] = (int32_t)n;
        *last = (int32_t)n;
    }
}

static tdm_dtype gradient_type(const tdmi_kernel_io *io)
{
    return io->out[0].ndim >= 0 ? io->out[0].dtype : io->out[1].dtype;
}

static tdm_status prepare_backward(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const bool chains = gradient_type(io) != TDM_F32 && io->out[0].ndim >= 0;
    *workspace_nbytes = chains ? ((size_t)io->out[0].dims[0] + 2 * tdmi_shape_count(&io->in[1])) * sizeof(int32_t) : 0;
    *state = NULL;
    return TDM_OK;
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state;
    operands o = {.dy = in[0], .tokens = in[1], .dwte = out[0], .dwpe = out[1],
                  .rows = (int64_t)tdmi_shape_count(&io->in[1]), .T = tdmi_shape_width(&io->in[1]),
                  .C = tdmi_shape_width(&io->in[0]), .V = io->out[0].dims[0], .P = io->out[1].dims[0], .type = gradient_type(io),
                  .last = workspace, .add_wte = tdmi_accumulates(io, 0), .add_wpe = tdmi_accumulates(io, 1)};
    if (o.type != TDM_F32 && o.dwte != NULL) {
        o.next = o.last + o.V;
        chain_rows(&o);
    }
    const int64_t share = (o.C + tdmi_kernels_threads() - 1) / tdmi_kernels_threads();
    o.columns = (share + 63) / 64 * 64;
    tdmi_kernels_tiles((o.C + o.columns - 1) / o.columns, backward_tile, &o);
}

const tdmi_kernel SIMD_NAME(embedding) = {
    .name = SIMD_LABEL("embedding"), .op = TDMI_OP_EMBEDDING, .isa = SIMD_NEEDS, .run = forward};
const tdmi_kernel SIMD_NAME(embedding_backward) = {
    .name = SIMD_LABEL("embedding_backward"), .op = TDMI_OP_EMBEDDING_BACKWARD, .isa = SIMD_NEEDS, .prepare = prepare_backward,
    .run = backward};
