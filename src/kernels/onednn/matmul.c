/* matmul.c - one primitive for the tiles of full size and one for the last.
 *
 * Tiles are cut by the shape alone and each is computed by one thread, so bits do not depend on the number of threads; a tile
 * of B or C is small enough to stay in the second cache.
 * Threads: prepare and run belong to the executor's thread; tiles run on the threads of tdmi_kernels_tiles, each tile with
 * memory objects of its own. oneDNN allocates a small table in every execution and frees it again. */
#include "kernels/onednn/matmul.h"

#include "core/cpu.h"
#include "core/memory.h"
#include "kernels/onednn/onednn.h"
#include "kernels/threads.h"

#include <dnnl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum { ARG_A, ARG_B, ARG_C, ARG_SCRATCH, ARG_BIAS, ARG_COUNT };

typedef struct tile {
    dnnl_primitive_t primitive; /* borrowed from the matmul */
    dnnl_memory_t memory[ARG_COUNT];
    dnnl_stream_t stream;
    int64_t first, size; /* rows or columns of C */
} tile;

struct tdmi_matmul {
    tdmi_matmul_shape shape;
    dnnl_primitive_t full, last;
    tile *tiles;
    int64_t tile_count;
    size_t scratch_nbytes; /* of one thread */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine; /* written once under `once`; NULL: oneDNN has no CPU engine */

static void make_engine(void)
{
    if (tdmi_cpu_isa() < TDMI_ISA_AVX512)
        (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2); /* TANDEM_ISA holds for the library too */
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        engine = NULL;
}

const char *tdmi_onednn_version(void)
{
    static _Thread_local char text[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

static dnnl_status_t describe(dnnl_memory_desc_t *out, int64_t rows, int64_t columns, tdmi_matrix at, tdm_dtype type)
{
    const dnnl_dims_t dims = {rows, columns}, strides = {at.row, at.column};
    return dnnl_memory_desc_init_by_strides(out, 2, dims, type == TDM_BF16 ? dnnl_bf16 : dnnl_f32, strides);
}

typedef struct piece {
    int64_t m, n;
    dnnl_memory_desc_t desc[ARG_COUNT];
    dnnl_primitive_t *primitive;
    size_t scratch_nbytes;
} piece;

/* Runs where OpenMP reports one thread, so the primitive is planned for one. */
static void make_primitive(void *arg, const tdmi_matmul_shape *s, dnnl_status_t *st)
{
    piece *p = arg;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t post = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_matmul_desc_t op;
    *st = describe(&p->desc[ARG_A], p->m, s->k, s->makes_a ? (tdmi_matrix){s->k, 1} : s->a, s->type);
    if (*st == dnnl_success)
        *st = describe(&p->desc[ARG_B], s->k, p->n, s->b, s->type);
    if (*st == dnnl_success)
        *st = describe(&p->desc[ARG_C], p->m, p->n, s->c, s->c_type);
    if (*st == dnnl_success)
        *st = describe(&p->desc[ARG_BIAS], 1, p->n, (tdmi_matrix){p->n, 1}, TDM_F32);
    if (*st == dnnl_success)
        *st = dnnl_matmul_desc_init(&op, &p->desc[ARG_A], &p->desc[ARG_B], s->bias ? &p->desc[ARG_BIAS] : NULL, &p->desc[ARG_C]);
    if (*st == dnnl_success)
        *st = dnnl_primitive_attr_create(&attr);
    if (*st == dnnl_success)
        *st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (*st == dnnl_success && s->add) {
        *st = dnnl_post_ops_create(&post);
        if (*st == dnnl_success)
            *st = dnnl_post_ops_append_sum(post, 1.0f);
        if (*st == dnnl_success)
            *st = dnnl_primitive_attr_set_post_ops(attr, post);
    }
    if (*st == dnnl_success)
        *st = dnnl_primitive_desc_create(&desc, &op, attr, engine, NULL);
    if (*st == dnnl_success) {
        p->desc[ARG_SCRATCH] = *dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
        p->scratch_nbytes = (dnnl_memory_desc_get_size(&p->desc[ARG_SCRATCH]) + 4095) & ~(size_t)4095;
        *st = dnnl_primitive_create(p->primitive, desc);
    }
    if (desc != NULL)
        dnnl_primitive_desc_destroy(desc);
    if (post != NULL)
        dnnl_post_ops_destroy(post);
    if (attr != NULL)
        dnnl_primitive_attr_destroy(attr);
}

typedef struct making {
    const tdmi_matmul_shape *shape;
    piece *piece;
    dnnl_status_t status;
} making;

static void make_on_one_thread(void *arg)
{
    making *m = arg;
    make_primitive(m->piece, m->shape, &m->status);
}

static dnnl_status_t make_tile(tdmi_matmul *matmul, tile *t, const piece *p)
{
    const int args = matmul->shape.bias ? ARG_COUNT : ARG_BIAS;
    dnnl_status_t st = dnnl_stream_create(&t->stream, engine, dnnl_stream_default_flags);
    t->primitive = *p->primitive;
    for (int i = 0; i < args && st == dnnl_success; i++)
        st = dnnl_memory_create(&t->memory[i], &p->desc[i], engine, DNNL_MEMORY_NONE);
    return st;
}

static dnnl_status_t make_all(tdmi_matmul *matmul)
{
    const tdmi_matmul_shape *s = &matmul->shape;
    const int64_t whole = s->cut_rows ? s->m : s->n;
    piece pieces[2] = {{.primitive = &matmul->full}, {.primitive = &matmul->last}};
    const int64_t sizes[2] = {s->tile < whole ? s->tile : whole, whole - (matmul->tile_count - 1) * s->tile};
    for (int i = 0; i < 2; i++) {
        making job = {s, &pieces[i], dnnl_success};
        pieces[i].m = s->cut_rows ? sizes[i] : s->m;
        pieces[i].n = s->cut_rows ? s->n : sizes[i];
        tdmi_kernels_on_one_thread(make_on_one_thread, &job);
        if (job.status != dnnl_success)
            return job.status;
        if (pieces[i].scratch_nbytes > matmul->scratch_nbytes)
            matmul->scratch_nbytes = pieces[i].scratch_nbytes;
    }
    for (int64_t i = 0; i < matmul->tile_count; i++) {
        const bool last = i + 1 == matmul->tile_count;
        matmul->tiles[i].first = i * s->tile;
        matmul->tiles[i].size = sizes[last];
        dnnl_status_t st = make_tile(matmul, &matmul->tiles[i], &pieces[last]);
        if (st != dnnl_success)
            return st;
    }
    return dnnl_success;
}

/* What a thread needs: scratch memory, and behind it the rows of A that it makes. */
static size_t room_nbytes(const tdmi_matmul *matmul)
{
    const tdmi_matmul_shape *s = &matmul->shape;
    const int64_t rows = s->tile < s->m ? s->tile : s->m;
    const size_t made = s->makes_a ? (size_t)(rows * s->k) * tdm_dtype_size(s->type) : 0;
    return matmul->scratch_nbytes + ((made + 4095) & ~(size_t)4095);
}

tdm_status tdmi_matmul_create(const tdmi_matmul_shape *shape, tdmi_matmul **out, size_t *workspace_nbytes)
{
    pthread_once(&once, make_engine);
    tdmi_matmul *matmul = tdmi_calloc(1, sizeof *matmul, "kernels");
    if (matmul == NULL)
        return TDM_ERR_NO_MEMORY;
    matmul->shape = *shape;
    matmul->tile_count = ((shape->cut_rows ? shape->m : shape->n) + shape->tile - 1) / shape->tile;
    matmul->tiles = tdmi_calloc((size_t)matmul->tile_count, sizeof *matmul->tiles, "kernels");
    if (matmul->tiles == NULL) {
        tdmi_matmul_destroy(matmul);
        return TDM_ERR_NO_MEMORY;
    }
    dnnl_status_t st = engine == NULL ? dnnl_runtime_error : make_all(matmul);
    if (st != dnnl_success) {
        tdmi_matmul_destroy(matmul);
        return tdmi_fail(st == dnnl_out_of_memory ? TDM_ERR_NO_MEMORY : TDM_ERR_INTERNAL,
                         "oneDNN %s makes no product of [%lld,%lld] and [%lld,%lld] (its status %d)", tdmi_onednn_version(),
                         (long long)shape->m, (long long)shape->k, (long long)shape->k, (long long)shape->n, (int)st);
    }
    *workspace_nbytes = room_nbytes(matmul) * (size_t)tdmi_kernels_threads();
    *out = matmul;
    return TDM_OK;
}

void tdmi_matmul_destroy(tdmi_matmul *matmul)
{
    if (matmul == NULL)
        return;
    for (int64_t i = 0; matmul->tiles != NULL && i < matmul->tile_count; i++) {
        for (int a = 0; a < ARG_COUNT; a++)
            if (matmul->tiles[i].memory[a] != NULL)
                dnnl_memory_destroy(matmul->tiles[i].memory[a]);
        if (matmul->tiles[i].stream != NULL)
            dnnl_stream_destroy(matmul->tiles[i].stream);
    }
    if (matmul->full != NULL)
        dnnl_primitive_destroy(matmul->full);
    if (matmul->last != NULL)
        dnnl_primitive_destroy(matmul->last);
    tdmi_free(matmul->tiles);
    tdmi_free(matmul);
}

typedef struct operands {
    const tdmi_matmul *matmul;
    const char *a, *b;
    const float *bias;
    char *c;
    char *workspace;
    tdmi_matmul_hooks hooks;
} operands;

static void fill_nan(const tdmi_matmul_shape *s, const tile *t, void *c)
{
    const int64_t rows = s->cut_rows ? t->size : s->m, columns = s->cut_rows ? s->n : t->size;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            if (s->c_type == TDM_BF16)
                ((uint16_t *)c)[i * s->c.row + j * s->c.column] = 0x7fc0; /* NaN */
            else
                ((float *)c)[i * s->c.row + j * s->c.column] = NAN;
}

static void run_tile(void *arg, int64_t index, int worker)
{
    const operands *o = arg;
    const tdmi_matmul_shape *s = &o->matmul->shape;
    const tile *t = &o->matmul->tiles[index];
    const int64_t size = (int64_t)tdm_dtype_size(s->type), c_size = (int64_t)tdm_dtype_size(s->c_type);
    char *c = o->c + t->first * (s->cut_rows ? s->c.row : s->c.column) * c_size;
    char *scratch = o->workspace + (size_t)worker * room_nbytes(o->matmul);
    char *made = scratch + o->matmul->scratch_nbytes;
    const char *a = s->makes_a ? made : o->a + (s->cut_rows ? t->first * s->a.row : 0) * size;
    const char *b = o->b + (s->cut_rows ? 0 : t->first * s->b.column) * size;
    if (s->makes_a)
        o->hooks.before(o->hooks.arg, t->first, t->size, made);
    /* the C interface takes one kind of pointer for what is read and what is written */
    dnnl_status_t st = dnnl_memory_set_data_handle(t->memory[ARG_A], (void *)(uintptr_t)a);
    st = st != dnnl_success ? st : dnnl_memory_set_data_handle(t->memory[ARG_B], (void *)(uintptr_t)b);
    st = st != dnnl_success ? st : dnnl_memory_set_data_handle(t->memory[ARG_C], c);
    st = st != dnnl_success ? st : dnnl_memory_set_data_handle(t->memory[ARG_SCRATCH], scratch);
    if (st == dnnl_success && s->bias)
        st = dnnl_memory_set_data_handle(t->memory[ARG_BIAS], (void *)(uintptr_t)(o->bias + (s->cut_rows ? 0 : t->first)));
    const dnnl_exec_arg_t args[ARG_COUNT] = {{DNNL_ARG_SRC, t->memory[ARG_A]},
                                             {DNNL_ARG_WEIGHTS, t->memory[ARG_B]},
                                             {DNNL_ARG_DST, t->memory[ARG_C]},
                                             {DNNL_ARG_SCRATCHPAD, t->memory[ARG_SCRATCH]},
                                             {DNNL_ARG_BIAS, t->memory[ARG_BIAS]}};
    if (st == dnnl_success)
        st = dnnl_primitive_execute(t->primitive, t->stream, s->bias ? ARG_COUNT : ARG_BIAS, args);
    if (st == dnnl_success)
        st = dnnl_stream_wait(t->stream);
    if (st != dnnl_success)
        fill_nan(s, t, c);
    if (o->hooks.after != NULL && s->cut_rows)
        o->hooks.after(o->hooks.arg, t->first, t->size, 0, s->n);
    else if (o->hooks.after != NULL)
        o->hooks.after(o->hooks.arg, 0, s->m, t->first, t->size);
}

/* The tiles are shared out here; inside one, oneDNN must not use threads of its own. */
static void run_tiles(void *arg)
{
    const operands *o = arg;
    tdmi_kernels_tiles(o->matmul->tile_count, run_tile, arg);
}

void tdmi_matmul_run(const tdmi_matmul *matmul, const void *a, const void *b, const float *bias, void *c, void *workspace,
                     const tdmi_matmul_hooks *hooks)
{
    operands o = {matmul, a, b, bias, c, workspace, *hooks};
    tdmi_kernels_on_one_thread(run_tiles, &o);
}
