/* reduce.c - the canonical balanced tree over whole buffers, by the inner loops of this CPU. */
#include "coll/reduce.h"

#include "coll/reduce_kernels.h"
#include "coll/steps.h"
#include "core/cpu.h"
#include "core/dtype.h"

#include <stdatomic.h>
#include <string.h>

/* A tile stays in the first-level cache between its sum and its copies, and keeps stores a distance away from loads whose
 * addresses agree modulo 4096, as those of ranks' equal buffers do. */
#define TILE_BYTES 2048
#define TREE_DEPTH 32 /* enough for any int number of leaves */

typedef unsigned char tile[TILE_BYTES] __attribute__((aligned(64)));

static const tdmi_reduce_kernels *kernels_of(tdmi_isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case TDMI_ISA_AVX512: return &tdmi_reduce_kernels_avx512;
    case TDMI_ISA_AVX2: return &tdmi_reduce_kernels_avx2;
#endif
    default: return &tdmi_reduce_kernels_plain;
    }
}

static const tdmi_reduce_kernels *kernels(void)
{
    static const tdmi_reduce_kernels *_Atomic chosen;
    const tdmi_reduce_kernels *k = atomic_load_explicit(&chosen, memory_order_relaxed); /* constant, so nothing is ordered by it */
    if (k == NULL) {
        k = kernels_of(tdmi_cpu_isa());
        atomic_store_explicit(&chosen, k, memory_order_relaxed);
    }
    return k;
}

/* The built-in operation that a caller's function widens and rounds like. */
static tdm_op built_in(tdm_op op)
{
    return tdmi_op_is_function(op) ? TDM_SUM : op;
}

static bool is_aligned(const void *at, tdm_dtype dtype)
{
    const size_t unit = dtype == TDM_C64 ? sizeof(float) : tdm_dtype_size(dtype);
    return (uintptr_t)at % unit == 0;
}

/* A caller's function may use the elements as such, so it gets aligned arrays. */
static void run_function(tdm_op op, tdm_dtype dtype, const char *a, const char *b, char *out, size_t count)
{
    if (is_aligned(a, dtype) && is_aligned(b, dtype) && is_aligned(out, dtype)) {
        if (count > 0)
            tdmi_op_run(op, a, b, out, count, dtype);
        return;
    }
    const size_t size = tdm_dtype_size(dtype), lanes = TILE_BYTES / size;
    tile x, y;
    for (size_t first = 0; first < count; first += lanes) {
        const size_t part = count - first < lanes ? count - first : lanes;
        memcpy(x, a + first * size, part * size);
        memcpy(y, b + first * size, part * size);
        tdmi_op_run(op, x, y, x, part, dtype);
        memcpy(out + first * size, x, part * size);
    }
}

void tdmi_reduce_pair(tdm_dtype dtype, tdm_op op, const void *a, const void *b, void *out, size_t count)
{
    const void *in[2] = {a, b};
    if (tdmi_op_is_function(op))
        run_function(op, dtype, a, b, out, count);
    else
        kernels()->fold[dtype][op == TDM_AVG ? TDM_SUM : op][1](in, out, count);
}

void tdmi_reduce_widen(tdm_dtype dtype, tdm_op op, const void *in, void *acc, size_t count)
{
    if (tdmi_op_is_function(op) && tdmi_accumulate_dtype(dtype, op) == dtype)
        memcpy(acc, in, count * tdm_dtype_size(dtype)); /* a bool as it is */
    else
        kernels()->fold[dtype][built_in(op)][0](&in, acc, count);
}

void tdmi_reduce_finish(tdm_dtype dtype, tdm_op op, int n, const void *acc, void *out, size_t count)
{
    const tdmi_reduce_kernels *k = kernels();
    op = built_in(op);
    if (k->finish[dtype][op] != NULL)
        k->finish[dtype][op](acc, out, count, n);
    else if (out != acc)
        memcpy(out, acc, count * tdm_dtype_size(dtype));
}

void tdmi_op_prepare(tdm_dtype dtype, tdm_op op, const void *in, void *out, size_t count)
{
    const tdmi_reduce_kernels *k = kernels();
    const tdm_dtype type = tdmi_accumulate_dtype(dtype, TDM_SUM);
    if (type == dtype) {
        k->multiply[dtype](in, out, count, tdmi_op_scalar(op));
        return;
    }
    const size_t size = tdm_dtype_size(dtype), lanes = TILE_BYTES / tdm_dtype_size(type);
    tile wide;
    for (size_t first = 0; first < count; first += lanes) {
        const size_t part = count - first < lanes ? count - first : lanes;
        const void *from = (const char *)in + first * size;
        k->fold[dtype][TDM_SUM][0](&from, wide, part);
        k->multiply[type](wide, wide, part, tdmi_op_scalar(op));
        k->finish[dtype][TDM_SUM](wide, (char *)out + first * size, part, 1);
    }
}

/* A reduction of n leaves, and where its results go. */
typedef struct reduction {
    const tdmi_reduce_kernels *k;
    tdm_dtype dtype, sum_dtype;
    tdm_op op;
    const void *const *in;
    int n;
} reduction;

/* acc <- tree over the elements at byte `at` of up to four leaves, or one leaf of a caller's function. */
static void fold(const reduction *r, int first, int n, size_t at, void *acc, size_t count)
{
    const void *leaf[TDMI_FOLD_MAX];
    for (int i = 0; i < n; i++)
        leaf[i] = (const char *)r->in[first + i] + at;
    if (tdmi_op_is_function(r->op))
        tdmi_reduce_widen(r->dtype, r->op, leaf[0], acc, count);
    else
        r->k->fold[r->dtype][r->op][n - 1](leaf, acc, count);
}

/* The same over any number of leaves: fours (ones of a caller's function) are nodes of the tree, and a binary counter says which
 * nodes are complete and meet. What is left at the end meets from the right: A + (B + C). */
static void fold_many(const reduction *r, size_t at, void *acc, size_t count)
{
    const int step = tdmi_op_is_function(r->op) ? 1 : TDMI_FOLD_MAX;
    tile node[TREE_DEPTH];
    int top = 0;
    for (int done = 0, group = 1; done < r->n; done += step, group++) {
        fold(r, done, r->n - done < step ? r->n - done : step, at, node[top++], count);
        for (int g = group; g % 2 == 0; g /= 2, top--)
            tdmi_reduce_pair(r->sum_dtype, r->op, node[top - 2], node[top - 1], node[top - 2], count);
    }
    for (; top > 1; top--)
        tdmi_reduce_pair(r->sum_dtype, r->op, node[top - 2], node[top - 1], node[top - 2], count);
    memcpy(acc, node[0], count * tdm_dtype_size(r->sum_dtype));
}

/* Where stores go past the cache: not to what has just been read, which lies in it. Measured on 25 MiB: two to four times
 * slower in place, a quarter faster out of place. */
static void choose_streams(const void *const *in, int n, void *const *out, int n_out, bool stream, bool *streams)
{
    for (int i = 0; i < n_out; i++) {
        streams[i] = stream;
        for (int k = 0; k < n && streams[i]; k++)
            streams[i] = out[i] != in[k];
    }
}

static void give(const tdmi_reduce_kernels *k, const void *from, void *const *out, int n_out, size_t at, size_t nbytes,
                 const bool *streams)
{
    for (int i = 0; i < n_out; i++) {
        char *to = (char *)out[i] + at;
        if (to == from)
            continue;
        if (streams[i])
            k->stream(to, from, nbytes);
        else
            memcpy(to, from, nbytes);
    }
}

static void fold_all(const reduction *r, size_t at, void *acc, size_t count)
{
    if (r->n <= TDMI_FOLD_MAX && !tdmi_op_is_function(r->op))
        fold(r, 0, r->n, at, acc, count);
    else
        fold_many(r, at, acc, count);
}

void tdmi_reduce_unfinished(tdm_dtype dtype, tdm_op op, const void *const *in, int n, void *acc, size_t count)
{
    const reduction r = {.k = kernels(), .dtype = dtype, .sum_dtype = tdmi_accumulate_dtype(dtype, op), .op = op, .in = in,
                         .n = n};
    const size_t size = tdm_dtype_size(dtype), sum_size = tdm_dtype_size(r.sum_dtype), lanes = TILE_BYTES / sum_size;
    tile sum;
    for (size_t first = 0; first < count; first += lanes) {
        const size_t part = count - first < lanes ? count - first : lanes;
        fold_all(&r, first * size, sum, part);
        memcpy((char *)acc + first * sum_size, sum, part * sum_size);
    }
}

/* Where a sum is its own finished value and no store goes past the cache, one pass without a tile does: into one result, or two of two. */
static bool sum_at_once(const reduction *r, void *const *out, int n_out, size_t count, const bool *streams)
{
    if (r->n > TDMI_FOLD_MAX || tdmi_op_is_function(r->op) || r->sum_dtype != r->dtype || r->k->finish[r->dtype][r->op] != NULL)
        return false;
    if (n_out == 1 && !streams[0]) {
        fold(r, 0, r->n, 0, out[0], count);
        return true;
    }
    if (r->n != 2 || n_out != 2 || r->op != TDM_SUM || r->k->sum_both[r->dtype] == NULL || streams[0] || streams[1])
        return false;
    r->k->sum_both[r->dtype](r->in[0], r->in[1], out[0], out[1], count);
    return true;
}

static reduction reduction_of(tdm_dtype dtype, tdm_op op, const void *const *in, int n)
{
    return (reduction){.k = kernels(), .dtype = dtype, .sum_dtype = tdmi_accumulate_dtype(dtype, op), .op = op, .in = in, .n = n};
}

/* out[] <- the reduction of a tile's worth of elements at byte `at`. */
static void reduce_tile(const reduction *r, void *const *out, int n_out, size_t at, size_t count, const bool *streams)
{
    tile sum;
    fold_all(r, at, sum, count);
    tdmi_reduce_finish(r->dtype, r->op, r->n, sum, sum, count);
    give(r->k, sum, out, n_out, at, count * tdmi_dtype_bytes(r->dtype), streams);
}

static void fence(bool stream)
{
#if defined(__x86_64__)
    if (stream)
        __builtin_ia32_sfence(); /* streaming stores are not ordered by a release store */
#endif
    (void)stream;
}

void tdmi_reduce_tree(tdm_dtype dtype, tdm_op op, const void *const *in, int n, void *const *out, int n_out, size_t count,
                      bool stream)
{
    const reduction r = reduction_of(dtype, op, in, n);
    const size_t size = tdmi_dtype_bytes(dtype);
    bool streams[n_out];
    choose_streams(in, n, out, n_out, stream, streams);
    if (n == 1) {
        give(r.k, in[0], out, n_out, 0, count * size, streams);
    } else if (!sum_at_once(&r, out, n_out, count, streams)) {
        const size_t lanes = TILE_BYTES >> tdmi_dtype_shift(r.sum_dtype);
        for (size_t first = 0; first < count; first += lanes)
            reduce_tile(&r, out, n_out, first * size, count - first < lanes ? count - first : lanes, streams);
    }
    fence(stream);
}

void tdmi_reduce_take(tdm_dtype dtype, tdm_op op, const void *const *in, int n, void *out, void *used, const void *next,
                      size_t count, bool stream)
{
    const reduction r = reduction_of(dtype, op, in, n);
    const size_t size = tdmi_dtype_bytes(dtype), lanes = TILE_BYTES >> tdmi_dtype_shift(r.sum_dtype);
    bool streams;
    choose_streams(in, n, &out, 1, stream, &streams);
    if (n == 1 && !streams) {
        r.k->copy_take(out, used, next, count * size);
        return;
    }
    if (n == 2 && op == TDM_SUM && !streams && r.k->sum_take[dtype] != NULL) {
        r.k->sum_take[dtype](in[0], in[1], out, used, next, count);
        return;
    }
    for (size_t first = 0; first < count; first += lanes) {
        const size_t part = count - first < lanes ? count - first : lanes, at = first * size;
        if (n == 1)
            give(r.k, (const char *)in[0] + at, &out, 1, at, part * size, &streams);
        else
            reduce_tile(&r, &out, 1, at, part, &streams);
        if (next != NULL)
            memcpy((char *)used + at, (const char *)next + at, part * size);
    }
    fence(stream);
}

void tdmi_reduce_short(tdm_dtype dtype, tdm_op op, const void *const *in, int n, void *out, size_t count)
{
    const tdmi_reduce_kernels *k = kernels();
    if (n > TDMI_FOLD_MAX || tdmi_op_is_function(op) || k->finish[dtype][op] != NULL)
        tdmi_reduce_tree(dtype, op, in, n, &out, 1, count, false);
    else
        k->fold[dtype][op][n - 1](in, out, count);
}
