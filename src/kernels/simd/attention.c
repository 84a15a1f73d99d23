/* attention.c - causal attention without a T x T matrix: a few rows of scores at a time.
 *
 *              keys ->                     for ROWS queries and up to K_BLOCK keys of one head:
 *   queries    s . . . . .                   scores = q k^T; p = exp(scores - the row's largest), 0 above the diagonal
 *     |        s s . . . .                   y = y x correction for the largest value so far + p v
 *     v        s s s . . .    . skipped    at the end y / sum of p, lse = largest + log of the sum
 * One head of one sequence is a tile of work. The keys are turned into panels once; values are read where they are. Operands of 16
 * bits become float32 in the worker's room, a head at a time. */
#include "kernels/simd/multiply.h"
#include "kernels/simd/simd.h"

#include "kernels/shapes.h"
#include "kernels/threads.h"

#include <float.h>
#include <math.h>

#define ROWS 16 /* queries at a time: their last key is never in a later block of keys than their first */
_Static_assert(K_BLOCK % ROWS == 0 && K_BLOCK % PANEL == 0, "blocks of keys are whole rows of scores and whole panels");

typedef struct {
    const void *qkv;
    void *y;
    float *lse, *rooms;
    tdm_dtype type; /* of qkv and y */
    int64_t T, C, H, D;
    int64_t width, depth; /* of the rows of scores and of y, in whole vectors */
    int64_t room;         /* floats of each worker: keys, scores, y, and q, k, v of 16 bits */
    float scale;          /* of scores as powers of 2 */
} operands;

static operands shape_of(const tdmi_kernel_io *io)
{
    operands o = {.T = io->in[0].dims[1], .C = io->in[0].dims[2] / 3, .H = io->attr.heads, .type = io->in[0].dtype};
    o.D = o.C / o.H;
    o.scale = LOG2_E / sqrtf((float)o.D);
    o.width = whole_panels(least(o.T, K_BLOCK));
    o.depth = whole_panels(o.D);
    o.room = whole_panels(o.T) * o.D + ROWS * (o.width + o.depth) + (o.type != TDM_F32 ? 3 * o.T * o.D : 0);
    return o;
}

static bool supports(const tdmi_kernel_io *io)
{
    return io->in[0].dims[2] / 3 / io->attr.heads <= K_BLOCK;
}

static tdm_status prepare(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    *workspace_nbytes = (size_t)(shape_of(io).room * tdmi_kernels_threads()) * sizeof(float);
    *state = NULL;
    return TDM_OK;
}

/* What is known of a row of y so far. */
typedef struct {
    float most, sum; /* the largest score, scaled; the sum of p */
} row_so_far;

/* `rows` rows of n scores become p. All may see the first `full` columns, a multiple of LANES, the first row `seen` of those behind
 * and each row one more than the one before. What was summed before is multiplied so that it is relative to the new largest score. */
INLINE void exponentials_of_rows(int rows, const operands *o, float *scores, int64_t n, int64_t full, int64_t seen, bool begins,
                                 row_so_far *so_far, float *sums)
{
    const int64_t width = o->width;
    vf top[4], total[4], shift[4];
    float factor[4];
    UNROLL
    for (int i = 0; i < rows; i++)
        top[i] = splat(-FLT_MAX), total[i] = (vf){0};
    for (int64_t v = 0; v < full; v += LANES)
        UNROLL
        for (int i = 0; i < rows; i++)
            top[i] = larger(load(scores + i * width + v), top[i]);
    for (int64_t v = full; v < n; v += LANES)
        UNROLL
        for (int i = 0; i < rows; i++)
            top[i] = larger(first_lanes(seen + i - (v - full), load(scores + i * width + v), splat(-FLT_MAX)), top[i]);
    UNROLL
    for (int i = 0; i < rows; i++) {
        const float before = so_far[i].most, now = largest_lane(top[i]) * o->scale;
        so_far[i].most = now > before ? now : before;
        shift[i] = splat(so_far[i].most);
        factor[i] = begins || now <= before ? 1.0f : exp2f(before - now);
    }
    for (int64_t v = 0; v < full; v += LANES)
        UNROLL
        for (int i = 0; i < rows; i++) {
            const vf p = power_of_2(load(scores + i * width + v) * o->scale - shift[i]);
            store(scores + i * width + v, p);
            total[i] += p;
        }
    for (int64_t v = full; v < n; v += LANES)
        UNROLL
        for (int i = 0; i < rows; i++) {
            const vf p = first_lanes(seen + i - (v - full), power_of_2(load(scores + i * width + v) * o->scale - shift[i]), (vf){0});
            store(scores + i * width + v, p);
            total[i] += p;
        }
    UNROLL
    for (int i = 0; i < rows; i++) {
        so_far[i].sum = so_far[i].sum * factor[i] + sum_lanes(total[i]);
        for (int64_t c = 0; c < o->D && factor[i] != 1.0f; c += LANES)
            store(sums + i * o->depth + c, load(sums + i * o->depth + c) * factor[i]);
    }
}

/* What one head works with: q, k and v, whose rows are `row` apart, and in the worker's room the keys in panels and ROWS rows of
 * scores and of y. y begins at element y of the output. */
typedef struct {
    const float *q, *k, *v;
    float *keys, *scores, *sums, *lse;
    int64_t row, y;
} one_head;

/* m <= ROWS queries from `query` on. */
static void rows_of_y(const operands *o, const one_head *h, int64_t query, int64_t m)
{
    const int64_t end = query + m;
    row_so_far so_far[ROWS];
    for (int64_t i = 0; i < m; i++)
        so_far[i] = (row_so_far){-FLT_MAX, 0.0f};
    for (int64_t key = 0; key < end; key += K_BLOCK) {
        const int64_t n = least(end - key, K_BLOCK), full = least(query - key, n);
        SIMD_NAME(multiply)(m, whole_vectors(n), o->D, &(operand_a){h->q + query * h->row, h->row, 1},
                            &(operand_b){h->keys + key * o->D, o->D * PANEL, PANEL, INT64_MAX, true}, h->scores, o->width,
                            (operand_d){NULL, 0}, NULL);
        for (int64_t i = 0; i < m;) {
            float *scores = h->scores + i * o->width, *sums = h->sums + i * o->depth;
            const int64_t rows = m - i < 4 ? 1 : 4;
            if (rows == 4)
                exponentials_of_rows(4, o, scores, n, full, i + 1, key == 0, so_far + i, sums);
            else
                exponentials_of_rows(1, o, scores, n, full, i + 1, key == 0, so_far + i, sums);
            i += rows;
        }
        const operand_b values = plain_b(h->v + key * h->row, h->row, o->D);
        SIMD_NAME(multiply)(m, o->D, n, &(operand_a){h->scores, o->width, 1}, &values, h->sums, o->depth,
                            (operand_d){key > 0 ? h->sums : NULL, o->depth}, NULL);
    }
    for (int64_t i = 0; i < m; i++)
        h->lse[query + i] = (so_far[i].most + log2f(so_far[i].sum)) / LOG2_E;
    for (int64_t i = 0; i < m; i++) {
        const float factor = 1.0f / so_far[i].sum, *sums = h->sums + i * o->depth;
        const int64_t y = h->y + (query + i) * o->C;
#define ROW(T)                                                                                                         \
    for (int64_t c = 0; c < o->D; c += LANES)                                                                          \
    put_as(T, o->y, y + c, y + o->D, load(sums + c) * factor)
        FOR_TYPE(o->type, ROW);
#undef ROW
    }
}

static void head(void *arg, int64_t tile, int worker)
{
    const operands *o = arg;
    const int64_t C = o->C, D = o->D, T = o->T, sequence = tile / o->H * T, at = sequence * 3 * C + tile % o->H * D;
    one_head h = {.keys = o->rooms + worker * o->room, .lse = o->lse + tile * T, .y = sequence * C + tile % o->H * D};
    h.scores = h.keys + whole_panels(T) * D, h.sums = h.scores + ROWS * o->width;
    if (o->type == TDM_F32) {
        h.q = (const float *)o->qkv + at, h.k = h.q + C, h.v = h.k + C, h.row = 3 * C;
    } else {
        float *room = h.sums + ROWS * o->depth;
        for (int part = 0; part < 3; part++)
            widen_rows(o->type, o->qkv, at + part * C, 3 * C, T, D, room + part * T * D);
        h.q = room, h.k = room + T * D, h.v = room + 2 * T * D, h.row = D;
    }
    SIMD_NAME(pack_transposed)(D, T, INT64_MAX, h.k, h.row, h.keys, D * PANEL);
    for (int64_t query = 0; query < T; query += ROWS)
        rows_of_y(o, &h, query, least(T - query, ROWS));
}

static void run(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state;
    operands o = shape_of(io);
    o.qkv = in[0], o.y = out[0], o.lse = out[1], o.rooms = workspace;
    tdmi_kernels_tiles(io->in[0].dims[0] * o.H, head, &o);
}

const tdmi_kernel SIMD_NAME(attention) = {.name = SIMD_LABEL("attention"),
                                          .op = TDMI_OP_ATTENTION,
                                          .isa = SIMD_NEEDS,
                                          .supports = supports,
                                          .prepare = prepare,
                                          .run = run};
