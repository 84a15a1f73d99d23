/* multiply.c - the innermost product: a tile of C in registers.
 *
 *            k ->               j ->
 *          a a a a            b b b b      each step of k loads WIDE vectors of B and broadcasts TALL floats of A for
 *      i   a a a a      k     b b b b      TALL x WIDE multiply-adds into sums that stay in registers: loads are never the
 *          a a a a            b b b b      limit. A's rows of a tile come from the first cache, B's panels from the second. */
#include "kernels/simd/multiply.h"

INLINE void tile(int tall, int wide, bool rows, int64_t kc, operand_a a, const float *b, int64_t b_row, float *c,
                 int64_t c_row, operand_d d)
{
    vf sum[TALL][WIDE];
    UNROLL
    for (int i = 0; i < tall; i++)
        UNROLL
        for (int j = 0; j < wide; j++)
            sum[i][j] = (vf){0};
    const float *at = a.at;
    const int64_t row = rows ? a.row : 1, step = rows ? 1 : a.step;
    for (int64_t k = 0; k < kc; k++, at += step, b += b_row) {
        vf v[WIDE];
        UNROLL
        for (int j = 0; j < wide; j++)
            v[j] = load(b + j * LANES);
        UNROLL
        for (int i = 0; i < tall; i++) {
            const float x = at[i * row];
            UNROLL
            for (int j = 0; j < wide; j++)
                sum[i][j] += v[j] * x;
        }
    }
    UNROLL
    for (int i = 0; i < tall; i++)
        UNROLL
        for (int j = 0; j < wide; j++) {
            if (d.at != NULL)
                sum[i][j] += load(d.at + i * d.row + j * LANES);
            store(c + i * c_row + j * LANES, sum[i][j]);
        }
}

typedef void tile_function(int64_t kc, operand_a a, const float *b, int64_t b_row, float *c, int64_t c_row, operand_d d);

/* Heights that any number of rows is made of. */
#if LANES == 16
#define HEIGHTS(X) X(12) X(8) X(4) X(2) X(1)
#else
#define HEIGHTS(X) X(6) X(4) X(2) X(1)
#endif

#define TILE(tall, wide, rows)                                                                                         \
    static __attribute__((noinline)) void tile_##tall##_##wide##_##rows(                                               \
        int64_t kc, operand_a a, const float *b, int64_t b_row, float *c, int64_t c_row, operand_d d)                  \
    {                                                                                                                  \
        tile(tall, wide, rows, kc, a, b, b_row, c, c_row, d);                                                          \
    }
#define TILES(tall) TILE(tall, 1, 0) TILE(tall, 2, 0) TILE(tall, 1, 1) TILE(tall, 2, 1)
HEIGHTS(TILES)

static const struct {
    int tall;
    tile_function *run[2][WIDE]; /* [A is read along its rows][vectors - 1] */
} tiles[] = {
#define ROW(tall) {tall, {{tile_##tall##_1_0, tile_##tall##_2_0}, {tile_##tall##_1_1, tile_##tall##_2_1}}},
    HEIGHTS(ROW)
#undef ROW
};

INLINE void fetch_some(fetch_ahead *f)
{
    for (int64_t i = 0; i < f->lines && f->rows > 0; i++) {
        __builtin_prefetch(f->at + f->done, 0, 2);
        f->done += 64 / (int64_t)sizeof *f->at;
        if (f->done >= f->columns) {
            f->done = 0;
            f->at += f->row;
            f->rows--;
        }
    }
}

/* The last columns, fewer than a vector: a tile of its own, then copied. */
static void edge(tile_function *run, int tall, int64_t n, int64_t kc, operand_a a, const float *b, int64_t b_row, float *c,
                 int64_t c_row, operand_d d)
{
    float sums[TALL * LANES];
    run(kc, a, b, b_row, sums, LANES, (operand_d){NULL, 0});
    for (int i = 0; i < tall; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * c_row + j] = sums[i * LANES + j] + (d.at != NULL ? d.at[i * d.row + j] : 0.0f);
}

void SIMD_NAME(multiply)(int64_t m, int64_t n, int64_t kc, operand_a a, operand_b b, float *c, int64_t c_row, operand_d d,
                         fetch_ahead *ahead)
{
    const bool rows = a.step == 1;
    const int64_t whole = n / LANES * LANES; /* columns in whole vectors */
    const float *last = b.at + whole / PANEL * b.panel + whole % PANEL;
    int64_t last_row = b.row;
    float copy[K_BLOCK * LANES];
    if (whole < n && !b.padded) { /* the last vector of a plain B would read past its end */
        for (int64_t k = 0; k < kc; k++)
            store(copy + k * LANES, load_part(last + k * b.row, n - whole, 0.0f));
        last = copy;
        last_row = LANES;
    }
    size_t height = 0;
    for (int64_t i = 0; i < m;) {
        while (tiles[height].tall > m - i)
            height++;
        const int tall = tiles[height].tall;
        tile_function *const *run = tiles[height].run[rows];
        const operand_a a_tile = {a.at + i * a.row, a.row, a.step};
        for (int64_t j = 0; j < whole; j += PANEL) {
            if (ahead != NULL)
                fetch_some(ahead);
            const float *d_tile = d.at != NULL ? d.at + i * d.row + j : NULL;
            run[whole - j >= PANEL](kc, a_tile, b.at + j / PANEL * b.panel, b.row, c + i * c_row + j, c_row,
                                    (operand_d){d_tile, d.row});
        }
        if (whole < n) {
            const float *d_tile = d.at != NULL ? d.at + i * d.row + whole : NULL;
            edge(run[0], tall, n - whole, kc, a_tile, last, last_row, c + i * c_row + whole, c_row,
                 (operand_d){d_tile, d.row});
        }
        i += tall;
    }
}

operand_a SIMD_NAME(spread_rows)(int64_t m, int64_t kc, const float *at, int64_t row, float *room)
{
    if (row % 512 != 0)
        return (operand_a){at, row, 1};
    const int64_t spread = kc + LANES;
    for (int64_t i = 0; i < m; i++)
        memcpy(room + i * spread, at + i * row, (size_t)kc * sizeof *at);
    return (operand_a){room, spread, 1};
}

void SIMD_NAME(pack)(int64_t kc, int64_t n, const float *in, int64_t in_row, float *out)
{
    for (int64_t j = 0; j < n; j += PANEL, out += kc * PANEL)
        for (int64_t k = 0; k < kc; k++)
            UNROLL
            for (int64_t v = 0; v < PANEL; v += LANES) {
                const float *from = in + k * in_row + j + v;
                const int64_t left = n - j - v;
                if (left > 0)
                    store(out + k * PANEL + v, left >= LANES ? load(from) : load_part(from, left, 0.0f));
            }
}

/* Rows become columns, LANES by LANES, by exchanging ever larger parts of pairs of rows. */
INLINE void turn(vf r[LANES])
{
    vf t[LANES];
#if LANES == 16
    UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
    UNROLL
    for (int i = 0; i < 16; i += 4)
        UNROLL
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13,
                                                   28, 29);
            r[i + 2 * j + 1] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27,
                                                       14, 15, 30, 31);
        }
    UNROLL
    for (int i = 0; i < 16; i += 8)
        UNROLL
        for (int j = 0; j < 4; j++) {
            t[i + j] = __builtin_shufflevector(r[i + j], r[i + j + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26,
                                               27);
            t[i + j + 4] = __builtin_shufflevector(r[i + j], r[i + j + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28,
                                                   29, 30, 31);
        }
    UNROLL
    for (int j = 0; j < 8; j++) {
        r[j] = __builtin_shufflevector(t[j], t[j + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        r[j + 8] = __builtin_shufflevector(t[j], t[j + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    }
#else
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4)
        UNROLL
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[i + 2 * j + 1] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    UNROLL
    for (int j = 0; j < 4; j++) {
        t[j] = __builtin_shufflevector(r[j], r[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        t[j + 4] = __builtin_shufflevector(r[j], r[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    UNROLL
    for (int j = 0; j < 8; j++)
        r[j] = t[j];
#endif
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

void SIMD_NAME(pack_transposed)(int64_t kc, int64_t n, const float *in, int64_t in_row, float *out)
{
    for (int64_t j = 0; j < n; j += LANES) {
        float *to = out + j / PANEL * PANEL * kc + j % PANEL;
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
