/* powersgd.c - one step of power iteration on each matrix, from where the last step ended.
 *
 *            m              k          k                       averaged over the ranks:  first = P (n k numbers a matrix),
 *       .----------.      .---.      .---.   P = M Q                                     second = Q (m k), instead of n m
 *     n |    M     |   =  | P |   .  | Q | m Q = M^T P'        P' = orthonormal columns of the averaged P
 *       '----------'      '---'      '---'   M ~ P' Q^T        M - P' Q^T stays here as residual
 *
 * Cost   three passes over M: 12, 4 and 12 bytes an element, 6 k n m operations; 2 k^2 (n + m) for orthogonal columns, in double
 * Source  Vogels, Karimireddy, Jaggi, PowerSGD: practical low-rank gradient compression, NeurIPS 2019 */
#include "compress/codec.h"

#include "compress/codec_kernels.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

#define DEPENDENT 1e-7 /* what orthogonalising leaves of a column, as a part of it, where float32 has nothing more to say */
#define DRAWS 8        /* of a new column, before it is given up: one is enough but for bad luck */

typedef struct matrix {
    size_t first, rows, columns; /* in the flat buffer; rows and columns of what travels whole are 1 and its count */
    int k;                       /* 0: travels whole */
    float *q;                    /* [k][columns] */
} matrix;

struct tdm_powersgd {
    matrix *part;
    int parts;
    uint64_t seed;
    float *factors; /* all q */
    size_t first, second;
};

static tdm_status check(const tdm_part *part, int parts, const tdm_compression *c)
{
    if (c->rank < 0 || c->rank > 256 || c->min_saving < 0)
        return tdmi_fail(TDM_ERR_INVALID, "powersgd: rank %d and min_saving %g; ranks go from 1 to 256, savings are positive", c->rank,
                         c->min_saving);
    for (int i = 0; i < parts; i++)
        if (part[i].rows > 1 && part[i].count % part[i].rows != 0)
            return tdmi_fail(TDM_ERR_INVALID, "powersgd: part %d has %zu elements, which are no %zu rows", i, part[i].count, part[i].rows);
    return TDM_OK;
}

/* ---- columns ---- */

/* The same numbers on every machine: no function of a mathematical library. Uniform in (-1, 1). */
static void draw(float *column, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u; /* splitmix64 */
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        column[i] = (float)((double)((z ^ z >> 31) >> 11) * 0x1p-52 - 1);
    }
}

static uint64_t seed_of(const tdm_powersgd *p, int part, int column, int attempt)
{
    return p->seed * 0x2545f4914f6cdd1du + (uint64_t)part * 0x100000001b3u + (uint64_t)column * 1000003u + (uint64_t)attempt * 7919u;
}

/* In double, four sums: one order everywhere. */
static double dot(const float *a, const float *b, size_t n)
{
    double sum[4] = {0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t k = 0; k < 4; k++)
            sum[k] += (double)a[i + k] * (double)b[i + k];
    for (; i < n; i++)
        sum[0] += (double)a[i] * (double)b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void take_away(float *a, double factor, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = (float)((double)a[i] - factor * (double)b[i]);
}

/* Makes column j of [k][n] orthogonal to those in front and of length 1. False: it depends on them, or is zero or not finite. */
static bool straighten(float *columns, size_t n, int j)
{
    float *own = columns + (size_t)j * n;
    const double before = dot(own, own, n);
    if (!(before > 0 && before < INFINITY))
        return false;
    for (int pass = 0; pass < 2; pass++) /* twice: the second takes away what rounding left of the first */
        for (int i = 0; i < j; i++)
            take_away(own, dot(columns + (size_t)i * n, own, n), columns + (size_t)i * n, n);
    const double after = dot(own, own, n);
    if (!(sqrt(after) > DEPENDENT * sqrt(before)))
        return false;
    const double factor = 1 / sqrt(after);
    for (size_t i = 0; i < n; i++)
        own[i] = (float)((double)own[i] * factor);
    return true;
}

/* P: a column that depends on others says nothing that they do not. */
static void straighten_all(float *columns, size_t n, int k)
{
    for (int j = 0; j < k; j++)
        if (!straighten(columns, n, j))
            memset(columns + (size_t)j * n, 0, n * sizeof *columns);
}

/* Q: a direction that the last gradient had nothing in, and the next one may have. */
static void straighten_or_draw(tdm_powersgd *p, int part)
{
    const matrix *m = &p->part[part];
    for (int j = 0; j < m->k; j++) {
        bool good = straighten(m->q, m->columns, j);
        for (int attempt = 0; attempt < DRAWS && !good; attempt++) {
            draw(m->q + (size_t)j * m->columns, m->columns, seed_of(p, part, j, attempt));
            good = straighten(m->q, m->columns, j);
        }
        if (!good)
            memset(m->q + (size_t)j * m->columns, 0, m->columns * sizeof *m->q);
    }
}

/* ---- made and unmade ---- */

static void lay_out(tdm_powersgd *p, const tdm_part *part, const tdm_compression *c)
{
    for (int i = 0; i < p->parts; i++) {
        const int k = tdmi_powersgd_columns(c, &part[i]);
        matrix *m = &p->part[i];
        *m = k == 0 ? (matrix){.first = part[i].first, .rows = 1, .columns = part[i].count}
                    : (matrix){.first = part[i].first, .rows = part[i].rows, .columns = part[i].count / part[i].rows, .k = k};
        p->first += k == 0 ? m->columns : (size_t)k * m->rows;
        p->second += (size_t)k * m->columns;
    }
}

tdm_status tdm_powersgd_create(const tdm_part *part, int parts, const tdm_compression *c, tdm_powersgd **out)
{
    tdm_status st = check(part, parts, c);
    if (st != TDM_OK)
        return st;
    tdm_powersgd *p = tdmi_calloc(1, sizeof *p, "powersgd");
    if (p == NULL)
        return TDM_ERR_NO_MEMORY;
    p->seed = c->seed;
    p->parts = parts;
    p->part = tdmi_calloc((size_t)parts + 1, sizeof *p->part, "powersgd");
    if (p->part != NULL)
        lay_out(p, part, c);
    p->factors = tdmi_calloc(p->second + 1, sizeof *p->factors, "powersgd factors");
    if (p->part == NULL || p->factors == NULL) {
        tdm_powersgd_destroy(p);
        return TDM_ERR_NO_MEMORY;
    }
    float *at = p->factors; /* zeros: the first step draws them */
    for (int i = 0; i < parts; i++) {
        p->part[i].q = at;
        at += (size_t)p->part[i].k * p->part[i].columns;
    }
    *out = p;
    return TDM_OK;
}

void tdm_powersgd_destroy(tdm_powersgd *p)
{
    if (p == NULL)
        return;
    tdmi_free(p->part);
    tdmi_free(p->factors);
    tdmi_free(p);
}

void tdm_powersgd_sizes(const tdm_powersgd *p, size_t *first, size_t *second)
{
    *first = p->first;
    *second = p->second;
}

float *tdm_powersgd_factor(tdm_powersgd *p, int part, size_t *count)
{
    if (part < 0 || part >= p->parts || p->part[part].k == 0)
        return NULL;
    *count = (size_t)p->part[part].k * p->part[part].columns;
    return p->part[part].q;
}

/* ---- a step ---- */

void tdm_powersgd_begin(tdm_powersgd *p, float *gradient, const float *residual, float *first)
{
    const tdmi_codec_kernels *kernels = tdmi_codec_kernels_here();
    float *at = first;
    for (int i = 0; i < p->parts; i++) {
        const matrix *m = &p->part[i];
        if (m->k == 0)
            continue;
        straighten_or_draw(p, i);
        kernels->feed_times(gradient + m->first, residual + m->first, m->rows, m->columns, m->q, m->k, at);
        at += (size_t)m->k * m->rows;
    }
    for (int i = 0; i < p->parts; i++) {
        const matrix *m = &p->part[i];
        if (m->k > 0)
            continue;
        memcpy(at, gradient + m->first, m->columns * sizeof *at);
        at += m->columns;
    }
}

void tdm_powersgd_middle(tdm_powersgd *p, const float *gradient, float *first, float *second)
{
    const tdmi_codec_kernels *kernels = tdmi_codec_kernels_here();
    for (int i = 0; i < p->parts; i++) {
        const matrix *m = &p->part[i];
        if (m->k == 0)
            continue;
        straighten_all(first, m->rows, m->k);
        kernels->transposed_times(gradient + m->first, m->rows, m->columns, first, m->k, second);
        first += (size_t)m->k * m->rows;
        second += (size_t)m->k * m->columns;
    }
}

void tdm_powersgd_end(tdm_powersgd *p, float *gradient, float *residual, const float *first, const float *second)
{
    const tdmi_codec_kernels *kernels = tdmi_codec_kernels_here();
    memcpy(p->factors, second, p->second * sizeof *second);
    for (int i = 0; i < p->parts; i++) {
        const matrix *m = &p->part[i];
        if (m->k == 0)
            continue;
        kernels->restore(gradient + m->first, residual + m->first, m->rows, m->columns, first, m->q, m->k);
        first += (size_t)m->k * m->rows;
    }
    for (int i = 0; i < p->parts; i++) {
        const matrix *m = &p->part[i];
        if (m->k > 0)
            continue;
        memcpy(gradient + m->first, first, m->columns * sizeof *first);
        first += m->columns;
    }
}
