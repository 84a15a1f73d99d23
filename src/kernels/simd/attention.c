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
    int64_t room;         /* floats of each worker: keys, scores, y */
    float scale;
} operands;

static operands shape_of(const tdmi_kernel_io *io)
{
    operands o = {.T = io->in[0].dims[1], .C = io->in[0].dims[2] / 3, .H = io->attr.heads, .type = io->in[0].dtype};
    o.D = o.C / o.H;
    o.scale = 1.0f / sqrtf((float)o.D);
    o.width = whole_panels(least(o.T, K_BLOCK));
    o.depth = whole_panels(o.D);
    o.room = whole_panels(o.T) * o.D + ROWS * (o.width + o.depth) + (o.type != TDM_F32 ? 4 * o.T * o.D : 0);
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

/* scores [n] become p, of which the first `valid` are not 0. Updates the row's largest score and sum so far; returns what
 * the earlier parts of the row are to be multiplied with. */
static float exponentials_of_row(float *scores, int64_t n, int64_t valid, float scale, float *most, float *sum)
{
    vf top = splat(-FLT_MAX), total = {0};
    int64_t v = 0;
    for (; v + LANES <= valid; v += LANES)
        top = larger(load(scores + v), top);
    if (v < valid)
        top = larger(first_lanes(valid - v, load(scores + v), splat(-FLT_MAX)), top);
    const float before = *most, now = largest_lane(top) * scale;
    *most = now > before ? now : before;
    for (v = 0; v + LANES <= valid; v += LANES) {
        const vf p = exponential(load(scores + v) * scale - *most);
        store(scores + v, p);
        total += p;
    }
    for (; v < n; v += LANES) {
        const vf p = first_lanes(valid - v, exponential(load(scores + v) * scale - *most), (vf){0});
        store(scores + v, p);
        total += p;
    }
    if (*sum == 0.0f) { /* the row begins */
        *sum = sum_lanes(total);
        return 1.0f;
    }
    const float correction = expf(before - *most);
    *sum = *sum * correction + sum_lanes(total);
    return correction;
}

static void multiply_row(float *row, int64_t count, float factor)
{
    for (int64_t c = 0; c < count; c += LANES)
        store(row + c, load(row + c) * factor);
}

/* q, k and v of one head, their rows `row` apart, and its y, whose rows are y_row apart. */
typedef struct {
    const float *q, *k, *v;
    float *y;
    int64_t row, y_row;
} one_head;

/* m <= ROWS queries from `query` on. */
static void rows_of_y(const operands *o, const one_head *h, int64_t query, int64_t m, const float *keys, float *scores, float *sums,
                      float *lse)
{
    const int64_t row = h->row, end = query + m;
    const float *q = h->q, *v = h->v;
    float most[ROWS], sum[ROWS];
    for (int64_t i = 0; i < m; i++)
        most[i] = -FLT_MAX, sum[i] = 0.0f;
    for (int64_t key = 0; key < end; key += K_BLOCK) {
        const int64_t n = least(end - key, K_BLOCK);
        SIMD_NAME(multiply)(m, whole_vectors(n), o->D, (operand_a){q + query * row, row, 1},
                            (operand_b){keys + key * o->D, o->D * PANEL, PANEL, INT64_MAX, true}, scores, o->width, (operand_d){NULL, 0},
                            NULL);
        for (int64_t i = 0; i < m; i++) {
            const int64_t seen = query + i + 1 - key, valid = seen < n ? seen : n;
            const float correction = exponentials_of_row(scores + i * o->width, n, valid, o->scale, &most[i], &sum[i]);
            if (correction != 1.0f)
                multiply_row(sums + i * o->depth, o->D, correction);
        }
        SIMD_NAME(multiply)(m, o->D, n, (operand_a){scores, o->width, 1}, plain_b(v + key * row, row, o->D), sums,
                            o->depth, (operand_d){key > 0 ? sums : NULL, o->depth}, NULL);
    }
    for (int64_t i = 0; i < m; i++) {
        multiply_row(sums + i * o->depth, o->D, 1.0f / sum[i]);
        memcpy(h->y + (query + i) * h->y_row, sums + i * o->depth, (size_t)o->D * sizeof *h->y);
        lse[query + i] = most[i] + logf(sum[i]);
    }
}

static void head(void *arg, int64_t tile, int worker)
{
    const operands *o = arg;
    const int64_t b = tile / o->H, at = b * o->T * 3 * o->C + tile % o->H * o->D, y = b * o->T * o->C + tile % o->H * o->D;
    float *keys = o->rooms + worker * o->room, *scores = keys + whole_panels(o->T) * o->D, *sums = scores + ROWS * o->width;
    one_head h;
    if (o->type == TDM_F32) {
        const float *q = (const float *)o->qkv + at;
        h = (one_head){q, q + o->C, q + 2 * o->C, (float *)o->y + y, 3 * o->C, o->C};
    } else {
        float *room = sums + ROWS * o->depth;
        for (int part = 0; part < 3; part++)
            widen_rows(o->type, o->qkv, at + part * o->C, 3 * o->C, o->T, o->D, room + part * o->T * o->D);
        h = (one_head){room, room + o->T * o->D, room + 2 * o->T * o->D, room + 3 * o->T * o->D, o->D, o->D};
    }
    SIMD_NAME(pack_transposed)(o->D, o->T, INT64_MAX, h.k, h.row, keys, o->D * PANEL);
    for (int64_t query = 0; query < o->T; query += ROWS)
        rows_of_y(o, &h, query, least(o->T - query, ROWS), keys, scores, sums, o->lse + tile * o->T);
    if (o->type != TDM_F32)
        narrow_rows(o->type, h.y, o->D, o->T, o->D, o->y, y, o->C);
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
