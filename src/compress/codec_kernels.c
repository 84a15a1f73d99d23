/* codec_kernels.c - one bit an element, and products with thin matrices, on the vectors of the reduce kernels. Built once per
 * instruction set (meson.build) with KERNELS naming the table. What must be equal on all ranks - signs, scales, what factors
 * give back - has the same bits on every set; products that are averaged over the ranks afterwards need not. */
#include "compress/codec_kernels.h"

#include "coll/reduce_vectors.h"

enum { LANES = VB / sizeof(float), DOUBLES = 8, COLUMNS = 4, ROWS = 4, AHEAD = 4096, FAR = 1 << 18 /* elements: no second cache holds more */ };

static inline void store(float *to, vf32 v)
{
    memcpy(to, &v, sizeof v);
}

static inline vf32 load(const float *from)
{
    return load_f32((const unsigned char *)from);
}

static inline void ask_to_read(const float *at)
{
    __builtin_prefetch(at, 0, 2);
}

static inline void ask_to_write(const float *at)
{
    __builtin_prefetch(at, 1, 2);
}

/* To memory, with no read of the line before; `to` is aligned. stores_past_end: before anybody else may look. */
static inline void store_past(float *to, vf32 v)
{
#if defined(__AVX512F__)
    _mm512_stream_ps(to, (__m512)v);
#elif defined(__AVX2__)
    _mm256_stream_ps(to, (__m256)v);
#elif defined(__x86_64__)
    _mm_stream_ps(to, (__m128)v);
#else
    store(to, v);
#endif
}

static inline void stores_past_end(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* 0 in place of infinities and NaNs. */
static inline vf32 keep_finite(vf32 v)
{
    return (vf32)((vi32)v & (vi32)((vi32)((vu32)v & 0x7f800000u) != 0x7f800000));
}

static inline float keep_finite_one(float v)
{
    return v - v == 0 ? v : 0;
}

/* ---- one bit ---- */

typedef float eight_floats __attribute__((vector_size(DOUBLES * sizeof(float))));
typedef double eight_doubles __attribute__((vector_size(DOUBLES * sizeof(double))));

static inline void feed_eight(const float *in, float *residual, eight_doubles *sum)
{
    eight_floats x, more;
    memcpy(&x, residual, sizeof x);
    memcpy(&more, in, sizeof more);
    x += more;
    memcpy(residual, &x, sizeof x);
    const eight_doubles wide = __builtin_convertvector(x, eight_doubles);
    *sum += wide * wide;
}

/* Eight sums, whatever the machine's vectors. */
static double feed_squares(const float *in, float *residual, size_t count)
{
    eight_doubles sum = {0};
    size_t i = 0;
    for (; i + 2 * DOUBLES <= count; i += 2 * DOUBLES) { /* a line of the cache */
        ask_to_write(residual + i + AHEAD);
        feed_eight(in + i, residual + i, &sum);
        feed_eight(in + i + DOUBLES, residual + i + DOUBLES, &sum);
    }
    if (i + DOUBLES <= count) {
        feed_eight(in + i, residual + i, &sum);
        i += DOUBLES;
    }
    for (size_t k = 0; i < count; i++, k++) {
        residual[i] += in[i];
        sum[k] += (double)residual[i] * (double)residual[i];
    }
    return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

/* Bit i: x[i] >= 0. */
static inline unsigned signs_of(const float x[16])
{
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask(_mm512_loadu_ps(x), _mm512_setzero_ps(), _CMP_GE_OQ);
#elif defined(__AVX2__)
    const __m256 zero = _mm256_setzero_ps();
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), zero, _CMP_GE_OQ)) |
           (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + 8), zero, _CMP_GE_OQ)) << 8;
#else
    unsigned bits = 0;
    for (unsigned i = 0; i < 16; i++)
        bits |= (unsigned)(x[i] >= 0) << i;
    return bits;
#endif
}

/* +scale where the lane's bit of `bits` is set, else -scale. */
static inline vf32 signed_scale(unsigned bits, float scale)
{
    vu32 lane;
    for (unsigned i = 0; i < LANES; i++)
        lane[i] = i;
    const vu32 word = (vu32){0} + bits, minus = (~(word >> lane) & 1u) << 31;
    const vf32 s = (vf32){0} + scale;
    return (vf32)((vu32)s ^ minus);
}

static inline void take_sixteen(float *residual, float scale, uint8_t bits[2])
{
    const unsigned word = signs_of(residual);
    bits[0] = (uint8_t)word;
    bits[1] = (uint8_t)(word >> 8);
    for (unsigned at = 0; at < 16; at += LANES)
        store(residual + at, keep_finite(load(residual + at) - signed_scale(word >> at, scale)));
}

static void take_signs(float *residual, float scale, uint8_t *bits, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        take_sixteen(residual + i, scale, bits + i / 8);
    const size_t rest = count - i;
    if (rest == 0)
        return;
    float pad[16];
    uint8_t two[2];
    for (size_t k = 0; k < 16; k++)
        pad[k] = k < rest ? residual[i + k] : -1;
    take_sixteen(pad, scale, two);
    memcpy(residual + i, pad, rest * sizeof *pad);
    memcpy(bits + i / 8, two, (rest + 7) / 8);
}

static void add_signs(const uint8_t *bits, float scale, float *out, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const unsigned word = bits[i / 8] | (unsigned)bits[i / 8 + 1] << 8;
        for (unsigned at = 0; at < 16; at += LANES)
            store(out + i + at, load(out + i + at) + signed_scale(word >> at, scale));
    }
    for (; i < count; i++)
        out[i] += (bits[i / 8] >> i % 8 & 1) != 0 ? scale : -scale;
}

/* ---- thin products ----
 * Matrices come from far: rows go through ROWS at once, so that each load of a factor serves all of them; lines are asked for
 * AHEAD elements before they are needed, for the machine's own prefetching ends at each page; what is written and not read goes
 * past the caches. Reading behind the end of a matrix is only asked for, which is no fault. */

static inline float sum_of(vf32 v)
{
    float sum = 0;
    for (unsigned i = 0; i < LANES; i++)
        sum += v[i];
    return sum;
}

/* A tile of `tall` rows and `many` columns of a factor [many][columns]; both constant where it counts: unrolled.
 * out[r][j] = row r . q[j]; with a residual, row r += residual first. */
static inline void dots(float *m, const float *residual, size_t columns, const float *q, int tall, int many, float out[ROWS][COLUMNS])
{
    vf32 sum[ROWS][COLUMNS] = {{{0}}};
    size_t c = 0;
    for (; c + LANES <= columns; c += LANES) {
        vf32 v[ROWS];
        for (int r = 0; r < tall; r++) {
            const size_t at = (size_t)r * columns + c;
            v[r] = load(m + at);
            if (residual == NULL)
                continue;
            ask_to_write(m + at + AHEAD);
            ask_to_read(residual + at + AHEAD);
            v[r] += load(residual + at);
            store(m + at, v[r]);
        }
        for (int j = 0; j < many; j++) {
            const vf32 factor = load(q + (size_t)j * columns + c);
            for (int r = 0; r < tall; r++)
                sum[r][j] += v[r] * factor;
        }
    }
    for (int r = 0; r < tall; r++) {
        float *row = m + (size_t)r * columns;
        for (size_t i = c; i < columns && residual != NULL; i++)
            row[i] += residual[(size_t)r * columns + i];
        for (int j = 0; j < many; j++) {
            out[r][j] = sum_of(sum[r][j]);
            for (size_t i = c; i < columns; i++)
                out[r][j] += row[i] * q[(size_t)j * columns + i];
        }
    }
}

static inline void feed_tile(float *m, const float *residual, size_t rows, size_t columns, const float *q, int k, int tall, float *p)
{
    for (int j = 0; j < k; j += COLUMNS) {
        const float *from = q + (size_t)j * columns;
        float out[ROWS][COLUMNS];
        const int many = k - j < COLUMNS ? k - j : COLUMNS;
        if (j == 0 && many == COLUMNS)
            dots(m, residual, columns, from, tall, COLUMNS, out);
        else if (many == COLUMNS)
            dots(m, NULL, columns, from, tall, COLUMNS, out);
        else
            dots(m, j == 0 ? residual : NULL, columns, from, tall, many, out);
        for (int n = 0; n < many; n++)
            for (int r = 0; r < tall; r++)
                p[(size_t)(j + n) * rows + (size_t)r] = out[r][n];
    }
}

static void feed_times(float *m, const float *residual, size_t rows, size_t columns, const float *q, int k, float *p)
{
    size_t i = 0;
    for (; i + ROWS <= rows; i += ROWS)
        feed_tile(m + i * columns, residual + i * columns, rows, columns, q, k, ROWS, p + i);
    for (; i < rows; i++)
        feed_tile(m + i * columns, residual + i * columns, rows, columns, q, k, 1, p + i);
}

/* q[j] += p[j][0] row 0 + p[j][1] row 1 + ..., for `many` columns of the factors. */
static inline void add_tile(const float *m, size_t rows, size_t columns, const float *p, int tall, int many, float *q)
{
    size_t c = 0;
    for (; c + LANES <= columns; c += LANES) {
        vf32 v[ROWS];
        for (int r = 0; r < tall; r++) {
            const size_t at = (size_t)r * columns + c;
            ask_to_read(m + at + AHEAD);
            v[r] = load(m + at);
        }
        for (int j = 0; j < many; j++) {
            vf32 sum = load(q + (size_t)j * columns + c);
            for (int r = 0; r < tall; r++)
                sum += v[r] * p[(size_t)j * rows + (size_t)r];
            store(q + (size_t)j * columns + c, sum);
        }
    }
    for (; c < columns; c++)
        for (int j = 0; j < many; j++)
            for (int r = 0; r < tall; r++)
                q[(size_t)j * columns + c] += m[(size_t)r * columns + c] * p[(size_t)j * rows + (size_t)r];
}

static void transposed_times(const float *m, size_t rows, size_t columns, const float *p, int k, float *q)
{
    memset(q, 0, (size_t)k * columns * sizeof *q);
    for (size_t i = 0; i < rows; i += ROWS)
        for (int j = 0; j < k; j += COLUMNS) {
            const int tall = rows - i < ROWS ? (int)(rows - i) : ROWS, many = k - j < COLUMNS ? k - j : COLUMNS;
            const float *row = m + i * columns, *from = p + (size_t)j * rows + i;
            float *to = q + (size_t)j * columns;
            if (tall == ROWS && many == COLUMNS)
                add_tile(row, rows, columns, from, ROWS, COLUMNS, to);
            else
                add_tile(row, rows, columns, from, tall, many, to);
        }
}

/* Element by element in one order, whatever the tile. */
static inline void restore_tile(float *m, float *residual, size_t rows, size_t columns, const float *p, const float *q, int k, int tall,
                                bool past)
{
    size_t c = 0;
    for (; c + LANES <= columns; c += LANES) {
        vf32 v[ROWS];
        for (int r = 0; r < tall; r++)
            v[r] = load(q + c) * p[r];
        for (int j = 1; j < k; j++) {
            const vf32 factor = load(q + (size_t)j * columns + c);
            for (int r = 0; r < tall; r++)
                v[r] += factor * p[(size_t)j * rows + (size_t)r];
        }
        for (int r = 0; r < tall; r++) {
            const size_t at = (size_t)r * columns + c;
            ask_to_write(m + at + AHEAD);
            const vf32 lost = keep_finite(load(m + at) - v[r]);
            if (past)
                store_past(residual + at, lost);
            else
                store(residual + at, lost);
            store(m + at, v[r]);
        }
    }
    for (; c < columns; c++)
        for (int r = 0; r < tall; r++) {
            float v = q[c] * p[r];
            for (int j = 1; j < k; j++)
                v += q[(size_t)j * columns + c] * p[(size_t)j * rows + (size_t)r];
            residual[(size_t)r * columns + c] = keep_finite_one(m[(size_t)r * columns + c] - v);
            m[(size_t)r * columns + c] = v;
        }
}

static void restore(float *m, float *residual, size_t rows, size_t columns, const float *p, const float *q, int k)
{
    const bool past = rows * columns >= FAR && columns % LANES == 0 && (uintptr_t)residual % VB == 0;
    size_t i = 0;
    for (; i + ROWS <= rows; i += ROWS) {
        float *row = m + i * columns, *lost = residual + i * columns;
        if (past && k == COLUMNS)
            restore_tile(row, lost, rows, columns, p + i, q, COLUMNS, ROWS, true);
        else if (past)
            restore_tile(row, lost, rows, columns, p + i, q, k, ROWS, true);
        else
            restore_tile(row, lost, rows, columns, p + i, q, k, ROWS, false);
    }
    for (; i < rows; i++)
        restore_tile(m + i * columns, residual + i * columns, rows, columns, p + i, q, k, 1, false);
    stores_past_end();
}

const tdmi_codec_kernels KERNELS = {.feed_squares = feed_squares, .take_signs = take_signs, .add_signs = add_signs,
                                    .feed_times = feed_times, .transposed_times = transposed_times, .restore = restore};
