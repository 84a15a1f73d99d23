/* linear.c - y = x w^T + b. The vectors of a product run along rows of B, but both x and w are stored along k, so one of the two
 * is turned first; the smaller one, counted with what else the choice makes us turn:
 *
 *   few rows    y^T = w x^T: x becomes panels (N I), w is read as it is, and each tile of y^T is turned back into y (N O)
 *   many rows   y = x w^T: w becomes panels (O I), x is read as it is
 *
 * Both sum over k in the same blocks. A tile of y that is finished is still in the cache when its gelu is made. */
#include "kernels/simd/multiply.h"
#include "kernels/simd/simd.h"

#include "kernels/shapes.h"
#include "kernels/threads.h"

#define FEW_BLOCK 192   /* of k where rows are few */
#define MANY_BLOCK 256  /* of k where rows are many */
#define ROWS_OF_W 48    /* of y^T in a tile */
#define MANY_OF_W 192   /* the same where O is large: fewer visits to each page of y */
#define ROWS_OF_X 48    /* of y in a tile */
#define CHUNK_N 512     /* rows of x whose panels are kept in the second cache */
#define CHUNK_K 768     /* and how much of their k */
#define CHUNK_O 768     /* rows of w that are panels at a time */

typedef struct {
    const float *x, *w, *b;
    float *y, *z; /* z: gelu of y, where it is wanted, else NULL */
    int64_t N, I, O;
    int64_t block, rows;  /* of k; of w in a tile */
    float *panels;
    float *rooms;  /* one for each worker */
    int64_t room;  /* floats in each */
    int64_t n0, n, k0, k; /* the chunk being multiplied */
    int64_t o0, o;
} product;

static bool few_rows(const product *p)
{
    return p->N * (p->I + p->O) < p->I * p->O;
}

static bool supports(const tdmi_kernel_io *io)
{
    return io->in[0].dtype == TDM_F32 && io->out[0].dtype == TDM_F32;
}

static product shape_of(const tdmi_kernel_io *io)
{
    product p = {.O = io->in[1].dims[0], .I = io->in[1].dims[1]};
    p.N = (int64_t)tdmi_shape_count(&io->in[0]) / p.I;
    p.block = even_block(p.I, few_rows(&p) ? FEW_BLOCK : MANY_BLOCK);
    p.rows = p.O < 8192 ? ROWS_OF_W : MANY_OF_W;
    return p;
}

static void places(product *p, size_t *workspace_floats)
{
    int64_t panels;
    if (few_rows(p)) {
        const int64_t n = whole_panels(least(p->N, CHUNK_N));
        panels = n / PANEL * packed_panel(p->block) * (least(p->I, CHUNK_K) / p->block + 1);
        p->room = p->rows * n;
    } else {
        panels = whole_panels(least(p->O, CHUNK_O)) / PANEL * packed_panel(p->block);
        p->room = 0;
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

/* The panels of x for the block of k that starts k behind k0. */
static operand_b panels_of_x(const product *p, int64_t k)
{
    const int64_t panel = packed_panel(p->block);
    return (operand_b){p->panels + k / p->block * (whole_panels(p->n) / PANEL) * panel, panel, PANEL, first_narrow(p->n), true};
}

/* p->rows columns of y from as many rows of w and a chunk of x in panels. */
static void columns_of_y(void *arg, int64_t tile, int worker)
{
    const product *p = arg;
    const int64_t o = tile * p->rows, m = least(p->O - o, p->rows), width = whole_panels(p->n);
    float *turned = p->rooms + worker * p->room;
    float *y = p->y + p->n0 * p->O + o;
    fetch_ahead ahead = {.matrix = {fetch_rows(p->w + (o + m) * p->I + p->k0, least(p->O - o - m, m), p->k, p->I),
                                    fetch_columns(y, p->n, m, p->O)}};
    for (int64_t k = 0; k < p->k; k += p->block) {
        const int64_t kc = least(p->k - k, p->block);
        const operand_b x = panels_of_x(p, k);
        SIMD_NAME(multiply)(m, p->n, kc, &(operand_a){p->w + o * p->I + p->k0 + k, p->I, 1}, &x, turned, width,
                            (operand_d){k > 0 ? turned : NULL, width}, &ahead);
    }
    const operand_d bias = {p->b != NULL ? p->b + o : NULL, 0}, before = {y, p->O};
    SIMD_NAME(transpose)(m, p->n, turned, width, y, p->O, p->k0 == 0 ? bias : before);
    if (p->z != NULL && p->k0 + p->k == p->I)
        SIMD_NAME(gelu_block)(TDM_F32, p->y, p->z, p->n0 * p->O + o, p->O, p->n, m);
}

static void multiply_few_rows(product *p)
{
    const int64_t chunk_k = p->I < CHUNK_K ? p->I : CHUNK_K / p->block * p->block;
    for (p->n0 = 0; p->n0 < p->N; p->n0 += p->n) {
        p->n = least(p->N - p->n0, CHUNK_N);
        for (p->k0 = 0; p->k0 < p->I; p->k0 += p->k) {
            p->k = least(p->I - p->k0, chunk_k);
            for (int64_t k = 0; k < p->k; k += p->block)
                SIMD_NAME(pack_transposed)(least(p->k - k, p->block), p->n, first_narrow(p->n),
                                           p->x + p->n0 * p->I + p->k0 + k, p->I, p->panels + (panels_of_x(p, k).at - p->panels),
                                           packed_panel(p->block));
            tdmi_kernels_tiles((p->O + p->rows - 1) / p->rows, columns_of_y, p);
        }
    }
}

/* ROWS_OF_X rows of a chunk of y's columns, from one block of k. */
static void rows_of_y(void *arg, int64_t tile, int worker)
{
    const product *p = arg;
    const int64_t n = tile * ROWS_OF_X, m = least(p->N - n, ROWS_OF_X);
    const float *x = p->x + n * p->I + p->k0;
    float *y = p->y + n * p->O + p->o0;
    (void)worker;
    const operand_d bias = {p->b != NULL ? p->b + p->o0 : NULL, 0}, before = {y, p->O};
    const bool with_gelu = p->z != NULL && p->k0 + p->k == p->I;
    fetch_ahead ahead = {.matrix = {with_gelu ? fetch_rows(p->z + n * p->O + p->o0, m, p->o, p->O) : (fetch_matrix){0}}};
    SIMD_NAME(multiply)(m, p->o, p->k, &(operand_a){x, p->I, 1}, &(operand_b){p->panels, packed_panel(p->k), PANEL, first_narrow(p->o), true}, y, p->O,
                        p->k0 == 0 ? bias : before, &ahead);
    if (with_gelu)
        SIMD_NAME(gelu_block)(TDM_F32, p->y, p->z, n * p->O + p->o0, p->O, m, p->o);
}

static void multiply_many_rows(product *p)
{
    for (p->o0 = 0; p->o0 < p->O; p->o0 += p->o) {
        p->o = least(p->O - p->o0, CHUNK_O);
        for (p->k0 = 0; p->k0 < p->I; p->k0 += p->k) {
            p->k = least(p->I - p->k0, p->block);
            SIMD_NAME(pack_transposed)(p->k, p->o, first_narrow(p->o), p->w + p->o0 * p->I + p->k0, p->I, p->panels,
                                       packed_panel(p->k));
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
    p.z = io->op == TDMI_OP_LINEAR_GELU ? out[1] : NULL;
    places(&p, &floats);
    if (few_rows(&p))
        multiply_few_rows(&p);
    else
        multiply_many_rows(&p);
}

const tdmi_kernel SIMD_NAME(linear_gelu) = {
    .name = SIMD_LABEL("linear_gelu"), .op = TDMI_OP_LINEAR_GELU, .isa = SIMD_NEEDS, .supports = supports, .prepare = prepare, .run = run};
const tdmi_kernel SIMD_NAME(linear) = {
    .name = SIMD_LABEL("linear"), .op = TDMI_OP_LINEAR, .isa = SIMD_NEEDS, .supports = supports,
    .prepare = prepare, .run = run};
