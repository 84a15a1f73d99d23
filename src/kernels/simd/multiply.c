/* multiply.c - the innermost product: a tile of C in registers.
 *
 *            k ->               j ->
 *          a a a a            b b b b      each step of k loads WIDE vectors of B and broadcasts TALL floats of A for
 *      i   a a a a      k     b b b b      TALL x WIDE multiply-adds into sums that stay in registers: loads are never the
 *          a a a a            b b b b      limit. A's rows of a tile come from the first cache, B's panels from the second. */
#include "kernels/simd/multiply.h"
#include "kernels/simd/turn.h"

#define GROUPS ((TALL + 3) / 4)   /* of 4 rows */

/* One step of k. Row i of a tile is at[i / 4][i % 4 * row]: a few registers address them all. */
INLINE void step_of_k(int tall, int wide, vf sum[TALL][WIDE], const float *const at[GROUPS], int64_t row, const float *b)
{
    vf v[WIDE];
    UNROLL
    for (int j = 0; j < wide; j++)
        v[j] = load(b + j * LANES);
    UNROLL
    for (int i = 0; i < tall; i++) {
        const float x = at[i / 4][i % 4 * row];
        UNROLL
        for (int j = 0; j < wide; j++)
            sum[i][j] += v[j] * x;
    }
}

/* One tile of C. Fetches one line from `ahead` on for every FETCH_STEPS steps of k, ahead_step bytes apart. */
INLINE void tile(int tall, int wide, int64_t kc, const float *a, int64_t row, int64_t step, const float *b, int64_t b_row,
                 float *c, int64_t c_row, const float *d, int64_t d_row, const char *ahead, int64_t ahead_step)
{
    vf sum[TALL][WIDE];
    UNROLL
    for (int i = 0; i < tall; i++) {
        UNROLL
        for (int j = 0; j < wide; j++) {
            __builtin_prefetch(c + i * c_row + j * LANES, 1, 3);
            sum[i][j] = (vf){0};
        }
    }
    const float *at[GROUPS];
    UNROLL
    for (int g = 0; g < GROUPS; g++)
        at[g] = a + 4 * g * row;
    int64_t k = 0;
    for (; k + FETCH_STEPS <= kc; k += FETCH_STEPS) {
        __builtin_prefetch(ahead, 0, 2);
        ahead += ahead_step;
        UNROLL
        for (int u = 0; u < FETCH_STEPS; u++, b += b_row) {
            step_of_k(tall, wide, sum, at, row, b);
            UNROLL
            for (int g = 0; g < GROUPS; g++)
                at[g] += step;
        }
    }
    for (; k < kc; k++, b += b_row) {
        step_of_k(tall, wide, sum, at, row, b);
        UNROLL
        for (int g = 0; g < GROUPS; g++)
            at[g] += step;
    }
    UNROLL
    for (int i = 0; i < tall; i++)
        UNROLL
        for (int j = 0; j < wide; j++) {
            if (d != NULL)
                sum[i][j] += load(d + i * d_row + j * LANES);
            store(c + i * c_row + j * LANES, sum[i][j]);
        }
}

/* On to the next matrix of which there is something. */
INLINE void next_matrix(fetch_ahead *f)
{
    do {
        UNROLL
        for (int i = 1; i < FETCH_MATRICES; i++)
            f->matrix[i - 1] = f->matrix[i];
        f->matrix[FETCH_MATRICES - 1].pieces = 0;
    } while (f->matrix[0].pieces == 0 && f->matrix[1].pieces > 0);
}

/* The next `count` lines, as far as the piece has them, are being fetched. */
INLINE void advance(fetch_ahead *f, int64_t count)
{
    fetch_matrix *m = &f->matrix[0];
    f->done += count;
    if (f->done < m->lines)
        return;
    f->done = 0;
    m->at += m->piece;
    if (--m->pieces <= 0)
        next_matrix(f);
}

/* `tiles` tiles side by side: the same rows of A, one panel of B (or the first part of one) each. The rows of A, or its steps where
 * it is not read along its rows, are a_far apart. */
INLINE void strip(int tall, int wide, bool rows, int64_t tiles, int64_t kc, const float *a, int64_t a_far, const float *b, int64_t b_row,
                  int64_t b_panel, float *c, int64_t c_row, operand_d d, fetch_ahead *ahead)
{
    for (int64_t t = 0; t < tiles; t++) {
        const char *next = (const char *)a;
        int64_t step = 0;
        if (ahead->matrix[0].pieces > 0) {
            step = ahead->matrix[0].step;
            next = ahead->matrix[0].at + ahead->done * step;
            advance(ahead, kc / FETCH_STEPS);
        }
        tile(tall, wide, kc, a, rows ? a_far : 1, rows ? 1 : a_far, b, b_row, c, c_row, d.at, d.row, next, step);
        b += b_panel;
        c += wide * LANES;
        if (d.at != NULL)
            d.at += wide * LANES;
    }
}

typedef void strip_function(int64_t tiles, int64_t kc, const float *a, int64_t a_far, const float *b, int64_t b_row, int64_t b_panel,
                            float *c, int64_t c_row, operand_d d, fetch_ahead *ahead);

/* Heights that any number of rows is made of. */
#if LANES == 16
#define HEIGHTS(X) X(8) X(4) X(2) X(1)
#else
#define HEIGHTS(X) X(4) X(2) X(1)
#endif

#define STRIP(tall, wide, rows)                                                                                        \
    static __attribute__((noinline)) void strip_##tall##_##wide##_##rows(                                              \
        int64_t tiles, int64_t kc, const float *a, int64_t a_far, const float *b, int64_t b_row, int64_t b_panel, float *c, \
        int64_t c_row, operand_d d, fetch_ahead *ahead)                                                                \
    {                                                                                                                  \
        strip(tall, wide, rows, tiles, kc, a, a_far, b, b_row, b_panel, c, c_row, d, ahead);                           \
    }
#define STRIPS(tall)                                                                                                   \
    STRIP(tall, 1, 0) STRIP(tall, 2, 0) STRIP(tall, 3, 0) STRIP(tall, 1, 1) STRIP(tall, 2, 1) STRIP(tall, 3, 1)
HEIGHTS(STRIPS)

static const struct {
    int tall;
    strip_function *run[2][WIDE]; /* [A is read along its rows][vectors - 1] */
} strips[] = {
#define ROW(tall)                                                                                                      \
    {tall,                                                                                                             \
     {{strip_##tall##_1_0, strip_##tall##_2_0, strip_##tall##_3_0},                                                    \
      {strip_##tall##_1_1, strip_##tall##_2_1, strip_##tall##_3_1}}},
    HEIGHTS(ROW)
#undef ROW
};

/* The last columns, fewer than a vector: a tile of its own, then copied. */
static void edge(strip_function *run, int tall, int64_t n, int64_t kc, const float *a, int64_t a_far, const float *b, int64_t b_row,
                 float *c, int64_t c_row, operand_d d, fetch_ahead *ahead)
{
    float sums[TALL * LANES];
    run(1, kc, a, a_far, b, b_row, 0, sums, LANES, (operand_d){NULL, 0}, ahead);
    for (int i = 0; i < tall; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * c_row + j] = sums[i * LANES + j] + (d.at != NULL ? d.at[i * d.row + j] : 0.0f);
}

/* A run of columns that are tiles of one width, and where B has them. */
typedef struct {
    int64_t from, tiles, vectors; /* vectors 0: the last columns, fewer than a vector */
    const float *at;
    int64_t row;
} span;

/* C's columns as at most three spans: panels, then narrow panels or what is left of a panel, then part of a vector. */
static int spans_of(int64_t n, const operand_b *b, span *out)
{
    const int64_t wide = least(n, b->narrow) / PANEL, from = wide * PANEL, left = n - from;
    const float *at = b->at;
    int count = 0;
    if (wide > 0)
        out[count++] = (span){0, wide, WIDE, at, b->row};
    at += wide * b->panel;
    if (left >= LANES)
        out[count++] = b->narrow < n ? (span){from, left / PAIR, 2, at, b->row} : (span){from, 1, left / LANES, at, b->row};
    at += left / LANES * LANES;
    if (left % LANES > 0)
        out[count++] = (span){n - left % LANES, 1, 0, at, b->row};
    return count;
}

INLINE operand_d d_from(operand_d d, int64_t i, int64_t j)
{
    if (d.at != NULL)
        d.at += i * d.row + j;
    return d;
}

void SIMD_NAME(multiply)(int64_t m, int64_t n, int64_t kc, const operand_a *a, const operand_b *b, float *c, int64_t c_row, operand_d d,
                         fetch_ahead *ahead)
{
    const bool rows = a->step == 1;
    const int64_t a_far = rows ? a->row : a->step;
    fetch_ahead nothing = {.done = 0};
    span spans[3];
    const int count = spans_of(n, b, spans);
    float copy[K_BLOCK * LANES];
    if (ahead == NULL)
        ahead = &nothing;
    if (n % LANES > 0 && !b->padded) { /* the last vector of a plain B would read past its end */
        span *last = &spans[count - 1];
        for (int64_t k = 0; k < kc; k++)
            store(copy + k * LANES, load_part(last->at + k * b->row, n % LANES, 0.0f));
        last->at = copy;
        last->row = LANES;
    }
    size_t height = 0;
    for (int64_t i = 0; i < m;) {
        while (strips[height].tall > m - i)
            height++;
        const int tall = strips[height].tall;
        strip_function *const *run = strips[height].run[rows];
        const float *a_at = a->at + i * a->row;
        for (int s = 0; s < count; s++) {
            const span *at = &spans[s];
            float *c_at = c + i * c_row + at->from;
            const operand_d d_at = d_from(d, i, at->from);
            if (at->vectors > 0)
                run[at->vectors - 1](at->tiles, kc, a_at, a_far, at->at, at->row, b->panel, c_at, c_row, d_at, ahead);
            else
                edge(run[0], tall, n % LANES, kc, a_at, a_far, at->at, at->row, c_at, c_row, d_at, ahead);
        }
        i += tall;
    }
}

void SIMD_NAME(pack)(int64_t kc, int64_t n, const float *in, int64_t in_row, float *out, int64_t panel)
{
    const int64_t narrow = first_narrow(n);
    for (int64_t k = 0; k < kc; k++, in += in_row, out += PANEL) {
        float *to = out;
        int64_t j = 0;
        for (; j + PANEL <= n && j < narrow; j += PANEL, to += panel)
            UNROLL
            for (int64_t v = 0; v < PANEL; v += LANES)
                store(to + v, load(in + j + v));
        for (; j < n && narrow < n; j += PAIR, to += panel)
            UNROLL
            for (int64_t v = 0; v < PAIR; v += LANES)
                store(to + v, load(in + j + v));
        for (; j < n; j += LANES, to += LANES)
            store(to, n - j >= LANES ? load(in + j) : load_part(in + j, n - j, 0.0f));
    }
}

INLINE void load_block(vf r[LANES], const float *in, int64_t in_row, int64_t rows, int64_t columns)
{
    if (rows >= LANES && columns >= LANES) {
        UNROLL
        for (int i = 0; i < LANES; i++)
            r[i] = load(in + i * in_row);
        return;
    }
    for (int64_t i = 0; i < LANES; i++)
        r[i] = i < rows ? load_part(in + i * in_row, columns, 0.0f) : (vf){0};
}

void SIMD_NAME(pack_transposed)(int64_t kc, int64_t n, int64_t narrow, const float *in, int64_t in_row, float *out, int64_t panel)
{
    for (int64_t j = 0; j < n; j += LANES) {
        const int64_t width = j < narrow ? PANEL : PAIR, start = j < narrow ? 0 : narrow;
        float *to = out + (start / PANEL + (j - start) / width) * panel + (j - start) % width;
        for (int64_t k = 0; k < kc; k += LANES) {
            vf r[LANES];
            load_block(r, in + j * in_row + k, in_row, n - j, kc - k);
            turn(r);
            if (kc - k >= LANES) {
                UNROLL
                for (int i = 0; i < LANES; i++)
                    store(to + (k + i) * PANEL, r[i]);
            } else {
                for (int64_t i = 0; i < kc - k; i++)
                    store(to + (k + i) * PANEL, r[i]);
            }
        }
    }
}

void SIMD_NAME(transpose)(int64_t m, int64_t n, const float *in, int64_t in_row, float *out, int64_t out_row, operand_d d)
{
    for (int64_t j = 0; j < n; j += LANES)
        for (int64_t i = 0; i < m; i += LANES) {
            vf r[LANES];
            load_block(r, in + i * in_row + j, in_row, m - i, n - j);
            turn(r);
            const int64_t rows = n - j < LANES ? n - j : LANES, columns = m - i < LANES ? m - i : LANES;
            const float *add = d.at != NULL ? d.at + j * d.row + i : NULL;
            float *to = out + j * out_row + i;
            if (rows == LANES && columns == LANES) {
                UNROLL
                for (int k = 0; k < LANES; k++)
                    store(to + k * out_row, add != NULL ? r[k] + load(add + k * d.row) : r[k]);
            } else {
                for (int64_t k = 0; k < rows; k++) {
                    const vf sum = add != NULL ? r[k] + load_part(add + k * d.row, columns, 0.0f) : r[k];
                    store_part(to + k * out_row, sum, columns);
                }
            }
        }
}
