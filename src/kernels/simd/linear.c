/* linear.c - y = x w^T + b. The vectors of a product run along rows of B, but both x and w are stored along k, so one of the two
 * is turned first; the smaller one, counted with what else the choice makes us turn:
 *
 *   few rows    y^T = w x^T: x becomes panels (N I), w is read as it is, and each tile of y^T is turned back into y (N O)
 *   many rows   y = x w^T: w becomes panels (O I), x is read as it is
 *
 * Both sum over k in the same blocks. */
#include "kernels/simd/multiply.h"
#include "kernels/simd/simd.h"

#include "kernels/shapes.h"
#include "kernels/threads.h"

#define BLOCK_K 192     /* of k: rows of w and panels of x share the first cache */
#define ROWS_OF_W 48    /* of y^T in a tile: a multiple of TALL on every instruction set */
#define ROWS_OF_X 48    /* of y in a tile */
#define CHUNK_N 512     /* rows of x whose panels are kept in the second cache */
#define CHUNK_K 768     /* and how much of their k */
#define CHUNK_O 768     /* rows of w that are panels at a time */

typedef struct {
    const float *x, *w, *b;
    float *y;
    int64_t N, I, O, block; /* block: of k */
    float *panels;
    float *rooms;  /* one for each worker */
    int64_t room;  /* floats in each */
    int64_t n0, n, k0, k; /* the chunk being multiplied */
    int64_t o0, o;
} product;

static product shape_of(const tdmi_kernel_io *io)
{
    product p = {.O = io->in[1].dims[0], .I = io->in[1].dims[1]};
    p.N = (int64_t)tdmi_shape_count(&io->in[0]) / p.I;
    p.block = even_block(p.I, BLOCK_K);
    return p;
}

static bool few_rows(const product *p)
{
    return p->N * (p->I + p->O) < p->I * p->O;
}

static void places(product *p, size_t *workspace_floats)
{
    int64_t panels;
    if (few_rows(p)) {
        const int64_t n = whole_panels(least(p->N, CHUNK_N));
        panels = n * least(p->I, CHUNK_K);
        p->room = ROWS_OF_W * (n + p->block + LANES);
    } else {
        panels = p->block * whole_panels(least(p->O, CHUNK_O));
        p->room = ROWS_OF_X * (p->block + LANES);
    }
    if (p->panels != NULL)
        p->rooms = p->panels + panels;
    *workspace_floats = (size_t)(panels + p->room * tdmi_kernels_threads());
}

static tdm_status prepare(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    product p = shape_of(io);
    places(&p, workspace_nbytes);
    *workspace_nbytes *= sizeof(float);
    *state = NULL;
    return TDM_OK;
}

/* ROWS_OF_W columns of y from as many rows of w and a chunk of x in panels. */
static void columns_of_y(void *arg, int64_t tile, int worker)
{
    const product *p = arg;
    const int64_t o = tile * ROWS_OF_W, m = least(p->O - o, ROWS_OF_W), width = whole_panels(p->n);
    float *turned = p->rooms + worker * p->room, *spread = turned + ROWS_OF_W * width;
    float *y = p->y + p->n0 * p->O + o;
    fetch_ahead ahead = {.matrix = {fetch_rows(p->w + (o + m) * p->I + p->k0, least(p->O - o - m, m), p->k, p->I),
                                    fetch_columns(y, p->n, m, p->O)}};
    for (int64_t k = 0; k < p->k; k += p->block) {
        const int64_t kc = least(p->k - k, p->block);
        const operand_a w = SIMD_NAME(spread_rows)(m, kc, p->w + o * p->I + p->k0 + k, p->I, spread);
        SIMD_NAME(multiply)(m, p->n, kc, w, (operand_b){p->panels + k * width, kc * PANEL, PANEL, true}, turned, width,
                            (operand_d){k > 0 ? turned : NULL, width}, &ahead);
    }
    const operand_d bias = {p->b != NULL ? p->b + o : NULL, 0}, before = {y, p->O};
    SIMD_NAME(transpose)(m, p->n, turned, width, y, p->O, p->k0 == 0 ? bias : before);
}

static void multiply_few_rows(product *p)
{
    const int64_t chunk_k = p->I < CHUNK_K ? p->I : CHUNK_K / p->block * p->block;
    for (p->n0 = 0; p->n0 < p->N; p->n0 += p->n) {
        p->n = least(p->N - p->n0, CHUNK_N);
        for (p->k0 = 0; p->k0 < p->I; p->k0 += p->k) {
            p->k = least(p->I - p->k0, chunk_k);
            for (int64_t k = 0; k < p->k; k += p->block)
                SIMD_NAME(pack_transposed)(least(p->k - k, p->block), p->n,
                                           p->x + p->n0 * p->I + p->k0 + k, p->I, p->panels + k * whole_panels(p->n));
            tdmi_kernels_tiles((p->O + ROWS_OF_W - 1) / ROWS_OF_W, columns_of_y, p);
        }
    }
}

/* ROWS_OF_X rows of a chunk of y's columns, from one block of k. */
static void rows_of_y(void *arg, int64_t tile, int worker)
{
    const product *p = arg;
    const int64_t n = tile * ROWS_OF_X, m = least(p->N - n, ROWS_OF_X);
    const operand_a x = SIMD_NAME(spread_rows)(m, p->k, p->x + n * p->I + p->k0, p->I, p->rooms + worker * p->room);
    float *y = p->y + n * p->O + p->o0;
    const operand_d bias = {p->b != NULL ? p->b + p->o0 : NULL, 0}, before = {y, p->O};
    SIMD_NAME(multiply)(m, p->o, p->k, x, (operand_b){p->panels, p->k * PANEL, PANEL, true}, y, p->O,
                        p->k0 == 0 ? bias : before, NULL);
}

static void multiply_many_rows(product *p)
{
    for (p->o0 = 0; p->o0 < p->O; p->o0 += p->o) {
        p->o = least(p->O - p->o0, CHUNK_O);
        for (p->k0 = 0; p->k0 < p->I; p->k0 += p->k) {
            p->k = least(p->I - p->k0, p->block);
            SIMD_NAME(pack_transposed)(p->k, p->o, p->w + p->o0 * p->I + p->k0, p->I, p->panels);
            tdmi_kernels_tiles((p->N + ROWS_OF_X - 1) / ROWS_OF_X, rows_of_y, p);
        }
    }
}

static void run(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state;
    product p = shape_of(io);
    size_t floats;
    p.x = in[0], p.w = in[1], p.b = in[2], p.y = out[0], p.panels = workspace;
    places(&p, &floats);
    if (few_rows(&p))
        multiply_few_rows(&p);
    else
        multiply_many_rows(&p);
}

const tdmi_kernel SIMD_NAME(linear) = {
    .name = SIMD_LABEL("linear"), .op = TDMI_OP_LINEAR, .isa = SIMD_NEEDS, .prepare = prepare, .run = run};
