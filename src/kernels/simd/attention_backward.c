/* attention_backward.c - gradients of causal attention; p is computed again from the scores and lse.
 *
 *                  keys ->                 for SQUARE queries by SQUARE keys of one head, on or below the diagonal:
 *   queries       +---+                      ROWS queries at a time: p = exp(q k^T - lse), ds = p (dy v^T - delta),
 *     |           | \ |   skipped            dq += ds k
 *     v           +---+---+                  then ROWS keys at a time: dv += p^T dy, dk += ds^T q
 *                 |   | \ |
 *                 +---+---+                with delta = dy . y of each query, and the scale of the scores inside ds
 * Only one square of p and of ds exists at a time. One head of one sequence is a tile of work. */
#include "kernels/simd/multiply.h"
#include "kernels/simd/simd.h"

#include "kernels/shapes.h"
#include "kernels/threads.h"

#include <math.h>

#define SQUARE 192
#define ROWS 16
_Static_assert(SQUARE % ROWS == 0 && SQUARE % PANEL == 0 && SQUARE <= K_BLOCK, "squares are whole rows and whole panels");

typedef struct {
    const void *dy, *qkv, *y;
    const float *lse;
    void *dqkv;
    float *rooms;
    tdm_dtype type; /* of dy, qkv, y and dqkv */
    int64_t T, C, H, D, heads; /* heads: of all sequences */
    int64_t width; /* of the rows of p and ds */
    int64_t room;  /* floats of each worker */
    float scale;
} operands;

/* What one head works with. Rows of q, k, v and their gradients are `row` apart, those of dy and y `y_row`. */
typedef struct {
    const float *q, *k, *v, *dy, *y, *lse;
    float *dq, *dk, *dv;
    int64_t row, y_row;
    float *keys, *values; /* turned, in panels */
    float *p, *ds;        /* [SQUARE][width] */
    float *delta;         /* [T] */
    fetch_ahead *ahead;   /* of 16 bits: q, k and v of the worker's next head, which are copied at once; float32 is read on the way */
} one_head;

static operands shape_of(const tdmi_kernel_io *io)
{
    operands o = {.T = io->in[1].dims[1], .C = io->in[1].dims[2] / 3, .H = io->attr.heads, .type = io->in[1].dtype};
    o.D = o.C / o.H;
    o.heads = io->in[1].dims[0] * o.H;
    o.scale = 1.0f / sqrtf((float)o.D);
    o.width = whole_panels(least(o.T, SQUARE));
    o.room = 2 * whole_panels(o.T) * o.D + 2 * o.width * o.width + whole_panels(o.T) + (o.type != TDM_F32 ? 8 * o.T * o.D : 0);
    return o;
}

static bool supports(const tdmi_kernel_io *io)
{
    return io->in[1].dims[2] / 3 / io->attr.heads <= K_BLOCK;
}

static tdm_status prepare(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    *workspace_nbytes = (size_t)(shape_of(io).room * tdmi_kernels_threads()) * sizeof(float);
    *state = NULL;
    return TDM_OK;
}

static float dot(const float *a, const float *b, int64_t count)
{
    vf sum = {0};
    int64_t c = 0;
    for (; c + LANES <= count; c += LANES)
        sum += load(a + c) * load(b + c);
    if (c < count)
        sum += load_part(a + c, count - c, 0.0f) * load_part(b + c, count - c, 0.0f);
    return sum_lanes(sum);
}

/* `rows` rows of n scores become p, rows of dp become ds. All may see the first `full` columns, a multiple of LANES, the first row
 * `seen` of those behind and each row one more than the one before; what they may not see becomes 0. */
INLINE void gradients_of_rows(int rows, const operands *o, float *p, float *ds, int64_t n, int64_t full, int64_t seen, const float *lse,
                              const float *delta)
{
    const float base = o->scale * LOG2_E;
    for (int64_t v = 0; v < n; v += LANES)
        UNROLL
        for (int i = 0; i < rows; i++) {
            float *p_at = p + i * o->width + v, *ds_at = ds + i * o->width + v;
            vf e = power_of_2(load(p_at) * base - lse[i] * LOG2_E);
            if (v >= full)
                e = first_lanes(seen + i - (v - full), e, (vf){0});
            store(p_at, e);
            const vf d = e * (load(ds_at) - delta[i]) * o->scale;
            store(ds_at, v < full ? d : first_lanes(seen + i - (v - full), d, (vf){0}));
        }
}

/* p, ds and dq of the queries of a square. */
static void queries_of_square(const operands *o, const one_head *h, int64_t query, int64_t queries, int64_t key)
{
    const int64_t row = h->row;
    const operand_b keys = {h->keys + key * o->D, o->D * PANEL, PANEL, INT64_MAX, true};
    const operand_b values = {h->values + key * o->D, o->D * PANEL, PANEL, INT64_MAX, true};
    for (int64_t i = 0; i < queries; i += ROWS) {
        const int64_t at = query + i, m = least(queries - i, ROWS);
        const int64_t n = least(at + m - key, SQUARE);
        float *p = h->p + i * o->width, *ds = h->ds + i * o->width;
        SIMD_NAME(multiply)(m, whole_vectors(n), o->D, &(operand_a){h->q + at * row, row, 1}, &keys, p, o->width, (operand_d){NULL, 0},
                            h->ahead);
        SIMD_NAME(multiply)(m, whole_vectors(n), o->D, &(operand_a){h->dy + at * h->y_row, h->y_row, 1}, &values, ds, o->width, (operand_d){NULL, 0},
                            h->ahead);
        for (int64_t r = 0; r < m;) {
            const int64_t rows = m - r < 2 ? 1 : 2, full = least(at - key, n);
            if (rows == 2)
                gradients_of_rows(2, o, p + r * o->width, ds + r * o->width, n, full, r + 1, h->lse + at + r, h->delta + at + r);
            else
                gradients_of_rows(1, o, p + r * o->width, ds + r * o->width, n, full, r + 1, h->lse + at + r, h->delta + at + r);
            r += rows;
        }
        float *dq = h->dq + at * row;
        const operand_b rows_of_k = plain_b(h->k + key * row, row, o->D);
        SIMD_NAME(multiply)(m, o->D, n, &(operand_a){ds, o->width, 1}, &rows_of_k, dq, row, (operand_d){key > 0 ? dq : NULL, row}, h->ahead);
    }
}

/* dk and dv of the keys of a square. */
static void keys_of_square(const operands *o, const one_head *h, int64_t query, int64_t queries, int64_t key, int64_t keys)
{
    const int64_t row = h->row;
    for (int64_t i = 0; i < keys; i += ROWS) {
        const int64_t at = key + i, m = least(keys - i, ROWS);
        const int64_t first = at > query ? at - query : 0; /* the queries before do not see these keys */
        const int64_t from = query + first, offset = first * o->width + i;
        float *dv = h->dv + at * row, *dk = h->dk + at * row;
        const operand_b dy = plain_b(h->dy + from * h->y_row, h->y_row, o->D), q = plain_b(h->q + from * row, row, o->D);
        SIMD_NAME(multiply)(m, o->D, queries - first, &(operand_a){h->p + offset, 1, o->width}, &dy, dv, row,
                            (operand_d){query > key ? dv : NULL, row}, h->ahead);
        SIMD_NAME(multiply)(m, o->D, queries - first, &(operand_a){h->ds + offset, 1, o->width}, &q, dk, row,
                            (operand_d){query > key ? dk : NULL, row}, h->ahead);
    }
}

/* Where the operands of a head of float32 lie; q is at element `at` of qkv, dy at `y`. */
static void head_in_place(const operands *o, one_head *h, int64_t at, int64_t y)
{
    const int64_t C = o->C;
    h->q = (const float *)o->qkv + at, h->k = h->q + C, h->v = h->k + C;
    h->dy = (const float *)o->dy + y, h->y = (const float *)o->y + y;
    h->dq = (float *)o->dqkv + at, h->dk = h->dq + C, h->dv = h->dk + C;
    h->row = 3 * C, h->y_row = C;
}

/* The same of 16 bits: copied to float32 in `room`. */
static void head_in_room(const operands *o, one_head *h, int64_t at, int64_t y, float *room)
{
    const int64_t size = o->T * o->D;
    for (int part = 0; part < 3; part++)
        widen_rows(o->type, o->qkv, at + part * o->C, 3 * o->C, o->T, o->D, room + part * size);
    widen_rows(o->type, o->dy, y, o->C, o->T, o->D, room + 3 * size);
    widen_rows(o->type, o->y, y, o->C, o->T, o->D, room + 4 * size);
    h->q = room, h->k = room + size, h->v = room + 2 * size, h->dy = room + 3 * size, h->y = room + 4 * size;
    h->dq = room + 5 * size, h->dk = room + 6 * size, h->dv = room + 7 * size;
    h->row = h->y_row = o->D;
}

/* Lines of all rows of a part of qkv of the head whose q is at element `at`. */
static fetch_matrix fetch_part(const operands *o, int64_t at, int part)
{
    const int64_t size = (int64_t)tdm_dtype_size(o->type);
    return (fetch_matrix){(const char *)o->qkv + (at + part * o->C) * size, (o->D * size + LINE_BYTES - 1) / LINE_BYTES, LINE_BYTES, o->T,
                          3 * o->C * size};
}

static void head(void *arg, int64_t tile, int worker)
{
    const operands *o = arg;
    const int64_t next = tile + tdmi_kernels_threads(), next_at = next / o->H * o->T * 3 * o->C + next % o->H * o->D;
    fetch_ahead ahead = {.done = 0};
    for (int part = 0; part < 3 && next < o->heads && o->type != TDM_F32; part++)
        ahead.matrix[part] = fetch_part(o, next_at, part);
    const int64_t T = o->T, b = tile / o->H, column = tile % o->H * o->D, at = b * T * 3 * o->C + column, y = b * T * o->C + column;
    one_head h = {.ahead = &ahead, .lse = o->lse + tile * T, .keys = o->rooms + worker * o->room};
    h.values = h.keys + whole_panels(T) * o->D, h.p = h.values + whole_panels(T) * o->D;
    h.ds = h.p + o->width * o->width, h.delta = h.ds + o->width * o->width;
    if (o->type == TDM_F32)
        head_in_place(o, &h, at, y);
    else
        head_in_room(o, &h, at, y, h.delta + whole_panels(T));
    SIMD_NAME(pack_transposed)(o->D, T, INT64_MAX, h.k, h.row, h.keys, o->D * PANEL);
    SIMD_NAME(pack_transposed)(o->D, T, INT64_MAX, h.v, h.row, h.values, o->D * PANEL);
    for (int64_t t = 0; t < T; t++)
        h.delta[t] = dot(h.dy + t * h.y_row, h.y + t * h.y_row, o->D);
    for (int64_t query = 0; query < T; query += SQUARE)
        for (int64_t key = 0; key <= query; key += SQUARE) {
            const int64_t queries = least(T - query, SQUARE), keys = least(T - key, SQUARE);
            queries_of_square(o, &h, query, queries, key);
            keys_of_square(o, &h, query, queries, key, keys);
        }
    for (int part = 0; part < 3 && o->type != TDM_F32; part++)
        narrow_rows(o->type, h.dq + part * T * o->D, o->D, T, o->D, o->dqkv, at + part * o->C, 3 * o->C);
}

static void run(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state;
    operands o = shape_of(io);
    o.dy = in[0], o.qkv = in[1], o.y = in[2], o.lse = in[3], o.dqkv = out[0], o.rooms = workspace;
    tdmi_kernels_tiles(o.heads, head, &o);
}

const tdmi_kernel SIMD_NAME(attention_backward) = {.name = SIMD_LABEL("attention_backward"),
                                                   .op = TDMI_OP_ATTENTION_BACKWARD,
                                                   .isa = SIMD_NEEDS,
                                                   .supports = supports,
                                                   .prepare = prepare,
                                                   .run = run};
