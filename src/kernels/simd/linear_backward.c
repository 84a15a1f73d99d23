/* linear_backward.c - dx = dy w and dw = dy^T x, db = sum of dy over rows. B (w, x) is stored along its rows already.
 *
 *   dx   blocks of k (rows of w) outside: as many blocks of w as stay in the second cache while all rows of dy pass over them, and
 *        the next ones are fetched meanwhile
 *   dw   x becomes panels once a block of k; dy is copied 48 columns at a time, and db is summed from the copy */
#include "kernels/simd/multiply.h"
#include "kernels/simd/simd.h"

#include "kernels/shapes.h"
#include "kernels/threads.h"

#define INPUT_BLOCK(rows) ((rows) < 512 ? 192 : 256) /* of k for dx: a block of w serves all rows */
#define KEPT 327680 /* floats of panels of w that are kept at a time, where all of it is no more; else one block */
#define WEIGHT_BLOCK 256  /* of k for dw */
#define CHUNK_I 768       /* columns of dx, dw at a time */
#define ROWS_OF_DY 48     /* that one call multiplies */
#define COLUMNS_OF_DY 48  /* rows of dw in a tile: a multiple of TALL and LANES on every instruction set */

typedef struct {
    const float *dy, *b; /* b: w or x */
    const float *y;      /* dx is to be multiplied with the derivative of gelu at y; NULL: it is not */
    float *out, *db;
    int64_t N, I, O, block;
    float *panels, *rooms; /* rooms: one for each worker */
    int64_t room;          /* floats in each */
    int64_t rows;          /* of dx in a tile */
    int64_t group;         /* of k whose panels are kept, whole blocks */
    int64_t i0, i, k0, k;  /* the chunk being multiplied */
    bool add, add_bias;
} product;

static bool supports(const tdmi_kernel_io *io)
{
    return io->in[0].dtype == TDM_F32 && io->out[0].dtype == TDM_F32;
}

/* Floats of a block of k in panels. */
static int64_t panels_of(int64_t kc, int64_t n)
{
    return whole_panels(n) / PANEL * packed_panel(kc);
}

static product input_shape(const tdmi_kernel_io *io)
{
    product p = {.O = io->in[1].dims[0], .I = io->in[1].dims[1], .add = tdmi_accumulates(io, 0)};
    p.N = (int64_t)tdmi_shape_count(&io->in[0]) / p.O;
    p.block = even_block(p.O, INPUT_BLOCK(p.N));
    const int64_t share = (p.N + tdmi_kernels_threads() - 1) / tdmi_kernels_threads();
    p.rows = (share + TALL - 1) / TALL * TALL;
    const int64_t block = panels_of(p.block, least(p.I, CHUNK_I)), blocks = (p.O + p.block - 1) / p.block;
    const int64_t kept = blocks * block <= KEPT ? blocks : 1;
    p.group = kept * p.block;
    p.room = kept * block;
    return p;
}

static tdm_status prepare_input(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const product p = input_shape(io);
    *workspace_nbytes = (size_t)(p.room * tdmi_kernels_threads()) * sizeof(float);
    *state = NULL;
    return TDM_OK;
}

/* What the rows of dx behind row n, `rows` of them from column i0 on, need of the group of k that begins at k0. */
static fetch_ahead next_rows(const product *p, int64_t n, int64_t rows, int64_t k0, int64_t k, int64_t i0, int64_t i)
{
    const float *dx = p->out + n * p->I + i0;
    return (fetch_ahead){.matrix = {fetch_rows(p->dy + n * p->O + k0, rows, k, p->O),
                                    fetch_rows(p->y != NULL ? p->y + n * p->I + i0 : dx, p->y != NULL || p->add ? rows : 0, i, p->I)}};
}

static void rows_of_dx(void *arg, int64_t tile, int worker)
{
    const product *p = arg;
    const int64_t n = tile * p->rows, end = n + least(p->rows, p->N - n);
    float *panels = p->rooms + worker * p->room;
    for (int64_t i0 = 0; i0 < p->I; i0 += CHUNK_I) {
        const int64_t i = least(CHUNK_I, p->I - i0), block = panels_of(p->block, i);
        for (int64_t k0 = 0; k0 < p->O; k0 += p->group) {
            const int64_t last = least(k0 + p->group, p->O), next_k = least(p->group, p->O - last);
            fetch_ahead ahead = {.matrix = {fetch_rows(p->b + last * p->I + i0, next_k, i, p->I),
                                            fetch_columns(p->dy + n * p->O + last, end - n, next_k, p->O)}};
            for (int64_t k = k0; k < last; k += p->block) {
                const int64_t kc = least(p->block, last - k);
                SIMD_NAME(pack)(kc, i, p->b + k * p->I + i0, p->I, panels + (k - k0) / p->block * block, packed_panel(kc));
            }
            for (int64_t r = n; r < end; r += ROWS_OF_DY) {
                const int64_t rows = least(ROWS_OF_DY, end - r);
                float *dx = p->out + r * p->I + i0;
                if (next_k == 0)
                    ahead = next_rows(p, r + rows, least(ROWS_OF_DY, end - r - rows), k0, last - k0, i0, i);
                for (int64_t k = k0; k < last; k += p->block) {
                    const int64_t kc = least(p->block, last - k);
                    const operand_b w = {panels + (k - k0) / p->block * block, packed_panel(kc), PANEL, first_narrow(i), true};
                    SIMD_NAME(multiply)(rows, i, kc, &(operand_a){p->dy + r * p->O + k, p->O, 1}, &w, dx, p->I,
                                        (operand_d){k > 0 || p->add ? dx : NULL, p->I}, &ahead);
                }
                if (p->y != NULL && next_k == 0) /* while these rows are in the cache */
                    SIMD_NAME(gelu_backward_block)(TDM_F32, p->y, p->out, r * p->I + i0, p->I, rows, i);
            }
        }
    }
}

static void run_input(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state;
    product p = input_shape(io);
    p.dy = in[0], p.b = in[1], p.out = out[0], p.rooms = workspace;
    p.y = io->op == TDMI_OP_LINEAR_BACKWARD_INPUT_GELU ? in[2] : NULL;
    tdmi_kernels_tiles((p.N + p.rows - 1) / p.rows, rows_of_dx, &p);
}

static product weight_shape(const tdmi_kernel_io *io)
{
    product p = {.O = io->out[0].dims[0], .I = io->out[0].dims[1]};
    p.N = (int64_t)tdmi_shape_count(&io->in[0]) / p.O;
    p.block = even_block(p.N, WEIGHT_BLOCK);
    p.room = COLUMNS_OF_DY * p.block;
    return p;
}

static tdm_status prepare_weight(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    const product p = weight_shape(io);
    const int64_t panels = panels_of(p.block, least(p.I, CHUNK_I));
    *workspace_nbytes = (size_t)(panels + p.room * tdmi_kernels_threads()) * sizeof(float);
    *state = NULL;
    return TDM_OK;
}

/* columns[k][0..47] = dy[k][0..m-1], the rest 0; sums[0..47] = their sums over k. */
static void copy_columns(int64_t m, int64_t kc, const float *dy, int64_t row, float *columns, float *sums)
{
    vf sum[COLUMNS_OF_DY / LANES];
    UNROLL
    for (int v = 0; v < COLUMNS_OF_DY / LANES; v++)
        sum[v] = (vf){0};
    for (int64_t k = 0; k < kc; k++, dy += row, columns += COLUMNS_OF_DY)
        UNROLL
        for (int v = 0; v < COLUMNS_OF_DY / LANES; v++) {
            const int64_t left = m - v * LANES;
            const vf part = left >= LANES ? load(dy + v * LANES)
                            : left > 0    ? load_part(dy + v * LANES, left, 0.0f)
                                          : (vf){0};
            store(columns + v * LANES, part);
            sum[v] += part;
        }
    UNROLL
    for (int v = 0; v < COLUMNS_OF_DY / LANES; v++)
        store(sums + v * LANES, sum[v]);
}

static void rows_of_dw(void *arg, int64_t tile, int worker)
{
    const product *p = arg;
    const int64_t o = tile * COLUMNS_OF_DY, m = least(COLUMNS_OF_DY, p->O - o);
    float *columns = p->rooms + worker * p->room, *dw = p->out + o * p->I + p->i0, sums[COLUMNS_OF_DY];
    copy_columns(m, p->k, p->dy + p->k0 * p->O + o, p->O, columns, sums);
    if (p->db != NULL && p->i0 == 0)
        for (int64_t j = 0; j < m; j++)
            p->db[o + j] = sums[j] + (p->k0 > 0 || p->add_bias ? p->db[o + j] : 0.0f);
    const int64_t next = least(m, p->O - o - m), tiles = (p->O + COLUMNS_OF_DY - 1) / COLUMNS_OF_DY, k0 = p->k0 + p->k;
    const int64_t next_k = least(p->block, p->N - k0), x_from = next_k * tile / tiles, x_to = next_k * (tile + 1) / tiles;
    fetch_ahead ahead = {.matrix = {next > 0 ? fetch_columns(p->dy + p->k0 * p->O + o + m, p->k, next, p->O)
                                             : fetch_columns(p->dy + k0 * p->O, next_k, least(COLUMNS_OF_DY, p->O), p->O),
                                    fetch_rows(p->b + (k0 + x_from) * p->I + p->i0, x_to - x_from, p->i, p->I),
                                    fetch_rows(dw + m * p->I, next, p->i, p->I)}};
    SIMD_NAME(multiply)(m, p->i, p->k, &(operand_a){columns, 1, COLUMNS_OF_DY},
                        &(operand_b){p->panels, packed_panel(p->k), PANEL, first_narrow(p->i), true}, dw, p->I,
                        (operand_d){p->k0 > 0 || p->add ? dw : NULL, p->I}, &ahead);
}

static void run_weight(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state;
    product p = weight_shape(io);
    p.dy = in[0], p.b = in[1], p.out = out[0], p.db = out[1], p.panels = workspace;
    p.rooms = p.panels + panels_of(p.block, least(p.I, CHUNK_I));
    p.add = tdmi_accumulates(io, 0), p.add_bias = tdmi_accumulates(io, 1);
    for (p.i0 = 0; p.i0 < p.I; p.i0 += p.i) {
        p.i = least(CHUNK_I, p.I - p.i0);
        for (p.k0 = 0; p.k0 < p.N; p.k0 += p.k) {
            p.k = least(p.block, p.N - p.k0);
            SIMD_NAME(pack)(p.k, p.i, p.b + p.k0 * p.I + p.i0, p.I, p.panels, packed_panel(p.k));
            tdmi_kernels_tiles((p.O + COLUMNS_OF_DY - 1) / COLUMNS_OF_DY, rows_of_dw, &p);
        }
    }
}

const tdmi_kernel SIMD_NAME(linear_backward_input) = {.name = SIMD_LABEL("linear_backward_input"),
                                                      .op = TDMI_OP_LINEAR_BACKWARD_INPUT,
                                                      .isa = SIMD_NEEDS,
                                                      .supports = supports,
                                                      .prepare = prepare_input,
                                                      .run = run_input};
const tdmi_kernel SIMD_NAME(linear_backward_input_gelu) = {.name = SIMD_LABEL("linear_backward_input_gelu"),
                                                           .op = TDMI_OP_LINEAR_BACKWARD_INPUT_GELU,
                                                           .isa = SIMD_NEEDS,
                                                           .supports = supports,
                                                           .prepare = prepare_input,
                                                           .run = run_input};
const tdmi_kernel SIMD_NAME(linear_backward_weight) = {.name = SIMD_LABEL("linear_backward_weight"),
                                                       .op = TDMI_OP_LINEAR_BACKWARD_WEIGHT,
                                                       .isa = SIMD_NEEDS,
                                                      .supports = supports,
                                                       .prepare = prepare_weight,
                                                       .run = run_weight};
