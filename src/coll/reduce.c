/* reduce.c - the canonical balanced tree over whole buffers, by the inner loops of this CPU. */
#include "coll/reduce.h"

#include "coll/reduce_kernels.h"
#include "coll/steps.h"
#include "core/cpu.h"

#include <string.h>

/* A tile stays in the first-level cache between its sum and its copies, and keeps stores a distance away from loads whose
 * addresses agree modulo 4096, as those of ranks' equal buffers do. */
#define TILE_BYTES 2048
#define TREE_DEPTH 30 /* of fours: enough for any int number of leaves */

typedef unsigned char tile[TILE_BYTES] __attribute__((aligned(64)));

static const tdmi_reduce_kernels *kernels(void)
{
    switch (tdmi_cpu_isa()) {
#if defined(__x86_64__)
    case TDMI_ISA_AVX512: return &tdmi_reduce_kernels_avx512;
    case TDMI_ISA_AVX2: return &tdmi_reduce_kernels_avx2;
#endif
    default: return &tdmi_reduce_kernels_plain;
    }
}

void tdmi_reduce_pair(tdm_dtype dtype, tdm_op op, const void *a, const void *b, void *out, size_t count)
{
    const void *in[2] = {a, b};
    kernels()->fold[dtype][op == TDM_AVG ? TDM_SUM : op][1](in, out, count);
}

void tdmi_reduce_widen(tdm_dtype dtype, tdm_op op, const void *in, void *acc, size_t count)
{
    kernels()->fold[dtype][op][0](&in, acc, count);
}

void tdmi_reduce_finish(tdm_dtype dtype, tdm_op op, int n, const void *acc, void *out, size_t count)
{
    const tdmi_reduce_kernels *k = kernels();
    if (k->finish[dtype][op] != NULL)
        k->finish[dtype][op](acc, out, count, n);
    else if (out != acc)
        memcpy(out, acc, count * tdm_dtype_size(dtype));
}

/* acc <- tree over the elements at byte `at` of up to four leaves. */
static void fold(const tdmi_reduce_kernels *k, tdm_dtype dtype, tdm_op op, const void *const *in, int n, size_t at,
                 void *acc, size_t count)
{
    const void *leaf[TDMI_FOLD_MAX];
    for (int i = 0; i < n; i++)
        leaf[i] = (const char *)in[i] + at;
    k->fold[dtype][op][n - 1](leaf, acc, count);
}

/* The same over any number of leaves: fours are nodes of the tree, and a binary counter says which nodes are complete and
 * meet. What is left at the end meets from the right: A + (B + C). */
static void fold_many(const tdmi_reduce_kernels *k, tdm_dtype dtype, tdm_op op, const void *const *in, int n, size_t at,
                      void *acc, size_t count)
{
    const tdm_dtype sum_dtype = tdmi_accumulate_dtype(dtype, op);
    tile node[TREE_DEPTH];
    int top = 0;
    for (int done = 0, group = 1; done < n; done += TDMI_FOLD_MAX, group++) {
        int leaves = n - done < TDMI_FOLD_MAX ? n - done : TDMI_FOLD_MAX;
        fold(k, dtype, op, in + done, leaves, at, node[top++], count);
        for (int g = group; g % 2 == 0; g /= 2, top--)
            tdmi_reduce_pair(sum_dtype, op, node[top - 2], node[top - 1], node[top - 2], count);
    }
    for (; top > 1; top--)
        tdmi_reduce_pair(sum_dtype, op, node[top - 2], node[top - 1], node[top - 2], count);
    memcpy(acc, node[0], count * tdm_dtype_size(sum_dtype));
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

void tdmi_reduce_tree(tdm_dtype dtype, tdm_op op, const void *const *in, int n, void *const *out, int n_out, size_t count,
                      bool stream)
{
    const tdmi_reduce_kernels *k = kernels();
    const size_t size = tdm_dtype_size(dtype);
    bool streams[n_out];
    choose_streams(in, n, out, n_out, stream, streams);
    if (n == 1) {
        give(k, in[0], out, n_out, 0, count * size, streams);
    } else {
        const size_t lanes = TILE_BYTES / tdm_dtype_size(tdmi_accumulate_dtype(dtype, op));
        tile sum;
        for (size_t first = 0; first < count; first += lanes) {
            size_t part = count - first < lanes ? count - first : lanes;
            if (n <= TDMI_FOLD_MAX)
                fold(k, dtype, op, in, n, first * size, sum, part);
            else
                fold_many(k, dtype, op, in, n, first * size, sum, part);
            if (k->finish[dtype][op] != NULL)
                k->finish[dtype][op](sum, sum, part, n);
            give(k, sum, out, n_out, first * size, part * size, streams);
        }
    }
#if defined(__x86_64__)
    if (stream)
        __builtin_ia32_sfence(); /* streaming stores are not ordered by a release store */
#endif
}
