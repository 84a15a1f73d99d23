/* codec_kernels.c - one bit an element, and products with thin matrices, on the vectors of the reduce kernels. Built once per
 * instruction set (meson.build) with KERNELS naming the table. What must be equal on all ranks - signs, scales, what factors
 * give back - has the same bits on every set; products that are averaged over the ranks afterwards need not. */
#include "compress/codec_kernels.h"

#include "coll/reduce_vectors.h"

enum { LANES = VB / sizeof(float), DOUBLES = 8, COLUMNS = 4, ROWS = 4 };

static inline void store(float *to, vf32 v)
{
    memcpy(to, &v, sizeof v);
}

static inline vf32 load(const float *from)
{
    return load_f32((const unsigned char *)from);
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

/* Eight sums, whatever the machine's vectors. */
static double feed_squares(const float *in, float *residual, size_t count)
{
    double sum[DOUBLES] = {0};
    size_t i = 0;
    for (; i + DOUBLES <= count; i += DOUBLES)
        for (size_t k = 0; k < DOUBLES; k++) {
            residual[i + k] += in[i + k];
            sum[k] += (double)residual[i + k] * (double)residual[i + k];
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

/* ---- thin products ---- */

static inline float sum_of(vf32 v)
{
    float sum = 0;
    for (unsigned i = 0; i < LANES; i++)
        sum += v[i];
    return sum;
}

/* out[j] = row . q[j] for `many` columns, at most COLUMNS. */
static inline void dots(const float *row, const float *q, size_t columns, int many, float *out)
{
    vf32 sum[COLUMNS] = {{0}};
    size_t c = 0;
    for (; c + LANES <= columns; c += LANES) {
        const vf32 v = load(row + c);
        for (int j = 0; j < many; j++)
            sum[j] += v * load(q + (size_t)j * columns + c);
    }
    for (int j = 0; j < many; j++) {
        float total = sum_of(sum[j]);
        for (size_t i = c; i < columns; i++)
            total += row[i] * q[(size_t)j * columns + i];
        out[j] = total;
    }
}

static inline void add_row(float *row, const float *residual, size_t columns)
{
    size_t c = 0;
    for (; c + LANES <= columns; c += LANES)
        store(row + c, load(row + c) + load(residual + c));
    for (; c < columns; c++)
        row[c] += residual[c];
}

static void feed_times(float *m, const float *residual, size_t rows, size_t columns, const float *q, int k, float *p)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = m + i * columns;
        add_row(row, residual + i * columns, columns);
        for (int j = 0; j < k; j += COLUMNS) {
            const float *from = q + (size_t)j * columns;
            float out[COLUMNS];
            const int many = k - j < COLUMNS ? k - j : COLUMNS;
            if (many == COLUMNS) /* constant: unrolled */
                dots(row, from, columns, COLUMNS, out);
            else
                dots(row, from, columns, many, out);
            for (int n = 0; n < many; n++)
                p[(size_t)(j + n) * rows + i] = out[n];
        }
    }
}

/* q += p[0] row 0 + p[1] row 1 + ..., ROWS of them. */
static inline void add_rows(const float *row, size_t columns, const float p[ROWS], float *q)
{
    size_t c = 0;
    for (; c + LANES <= columns; c += LANES) {
        vf32 sum = load(q + c);
        for (size_t r = 0; r < ROWS; r++)
            sum += load(row + r * columns + c) * p[r];
        store(q + c, sum);
    }
    for (; c < columns; c++)
        for (size_t r = 0; r < ROWS; r++)
            q[c] += row[r * columns + c] * p[r];
}

static void transposed_times(const float *m, size_t rows, size_t columns, const float *p, int k, float *q)
{
    memset(q, 0, (size_t)k * columns * sizeof *q);
    size_t i = 0;
    for (; i + ROWS <= rows; i += ROWS)
        for (int j = 0; j < k; j++)
            add_rows(m + i * columns, columns, p + (size_t)j * rows + i, q + (size_t)j * columns);
    for (; i < rows; i++)
        for (int j = 0; j < k; j++)
            for (size_t c = 0; c < columns; c++)
                q[(size_t)j * columns + c] += m[i * columns + c] * p[(size_t)j * rows + i];
}

static void restore(float *m, float *residual, size_t rows, size_t columns, const float *p, const float *q, int k)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = m + i * columns, *lost = residual + i * columns;
        size_t c = 0;
        for (; c + LANES <= columns; c += LANES) {
            vf32 v = load(q + c) * p[i];
            for (int j = 1; j < k; j++)
                v += load(q + (size_t)j * columns + c) * p[(size_t)j * rows + i];
            store(lost + c, keep_finite(load(row + c) - v));
            store(row + c, v);
        }
        for (; c < columns; c++) {
            float v = q[c] * p[i];
            for (int j = 1; j < k; j++)
                v += q[(size_t)j * columns + c] * p[(size_t)j * rows + i];
            lost[c] = keep_finite_one(row[c] - v);
            row[c] = v;
        }
    }
}

const tdmi_codec_kernels KERNELS = {.feed_squares = feed_squares, .take_signs = take_signs, .add_signs = add_signs,
                                    .feed_times = feed_times, .transposed_times = transposed_times, .restore = restore};
