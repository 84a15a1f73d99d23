/* hook_onebit.c - averages of one bit an element, both ways, with error feedback on both sides.
 *
 *     every rank    signs of all blocks  -- alltoall: blocks of chunk r to rank r -->   rank r serves chunk r
 *     rank r        averages what all ranks sent of its chunk, adds its own error, takes signs again
 *     every rank    <-- allgather: signs of all chunks --                               and makes numbers of them, now or,
 *                                                                                       with a source, when they are read
 *
 * A block is at most TDMI_ONEBIT_BLOCK elements of one parameter and has a scale of its own. A chunk is some blocks in a row:
 * their scales, then their bits, each block from a whole byte on.
 * Cost   2 (n-1)/n of 1/32 of the bucket (and 1/64 of that for scales)
 * Source  Tang et al., 1-bit Adam, ICML 2021, figure 3 */
#include "ddp/codec.h"

#include "core/memory.h"

#include <string.h>

typedef struct block {
    size_t first, count;    /* elements of the bucket */
    size_t scale_at, bits_at; /* bytes from the start of its chunk */
} block;

struct onebit_plan {
    block *block;
    int *begin;      /* [ranks + 1]: chunk r is blocks begin[r] to begin[r+1] - 1 */
    size_t *nbytes;  /* [ranks], of each chunk: what ranks send to rank r */
    size_t *same;    /* [ranks], all nbytes[rank]: what this rank gets of each */
    size_t *at;      /* [ranks], of chunk r among all */
    size_t total;
    int ranks, rank;
    float *error;    /* of the elements from first on that this rank serves */
    size_t first, count;
    tdmi_onebit_source source; /* NULL: what travels is in the bucket's memory, averages go there */
    void *source_arg;
    char *kept;                /* [total]: signs of the last averages, with a source */
};

static int count_blocks(const tdm_part *part, int parts)
{
    size_t sum = 0;
    for (int i = 0; i < parts; i++)
        sum += (part[i].count + TDMI_ONEBIT_BLOCK - 1) / TDMI_ONEBIT_BLOCK;
    return (int)sum;
}

static void list_blocks(onebit_plan *p, const tdm_part *part, int parts)
{
    int b = 0;
    for (int i = 0; i < parts; i++)
        for (size_t at = 0; at < part[i].count; at += TDMI_ONEBIT_BLOCK)
            p->block[b++] = (block){.first = part[i].first + at,
                                    .count = part[i].count - at < TDMI_ONEBIT_BLOCK ? part[i].count - at : TDMI_ONEBIT_BLOCK};
}

/* Chunks of about as many elements. */
static void share_out(onebit_plan *p, int blocks)
{
    size_t elements = 0, before = 0;
    for (int b = 0; b < blocks; b++)
        elements += p->block[b].count;
    int b = 0;
    for (int r = 0; r < p->ranks; r++) {
        p->begin[r] = b;
        while (b < blocks && before < elements * (size_t)(r + 1) / (size_t)p->ranks)
            before += p->block[b++].count;
    }
    p->begin[p->ranks] = blocks;
    for (int r = 0; r < p->ranks; r++) {
        const int many = p->begin[r + 1] - p->begin[r];
        size_t at = (size_t)many * sizeof(float);
        for (int i = 0; i < many; i++) {
            block *own = &p->block[p->begin[r] + i];
            own->scale_at = (size_t)i * sizeof(float);
            own->bits_at = at;
            at += (own->count + 7) / 8;
        }
        p->nbytes[r] = (at + sizeof(float) - 1) / sizeof(float) * sizeof(float);
        p->at[r] = p->total;
        p->total += p->nbytes[r];
    }
    for (int r = 0; r < p->ranks; r++)
        p->same[r] = p->nbytes[p->rank];
}

tdm_status reducer_onebit_plan(const tdm_part *part, int parts, int ranks, int rank, onebit_plan **out)
{
    const int blocks = count_blocks(part, parts);
    onebit_plan *p = *out = tdmi_calloc(1, sizeof *p, "onebit");
    if (p == NULL)
        return TDM_ERR_NO_MEMORY;
    p->ranks = ranks;
    p->rank = rank;
    p->block = tdmi_calloc((size_t)blocks + 1, sizeof *p->block, "onebit");
    p->begin = tdmi_calloc((size_t)ranks + 1, sizeof *p->begin, "onebit");
    p->nbytes = tdmi_calloc(3 * (size_t)ranks, sizeof *p->nbytes, "onebit");
    if (p->block == NULL || p->begin == NULL || p->nbytes == NULL)
        return TDM_ERR_NO_MEMORY; /* the codec frees it */
    p->same = p->nbytes + ranks;
    p->at = p->same + ranks;
    list_blocks(p, part, parts);
    share_out(p, blocks);
    if (p->begin[rank + 1] > p->begin[rank]) {
        const block *last = &p->block[p->begin[rank + 1] - 1];
        p->first = p->block[p->begin[rank]].first;
        p->count = last->first + last->count - p->first;
    }
    return TDM_OK;
}

tdm_status reducer_onebit_begin(onebit_plan *p)
{
    p->error = tdmi_calloc(p->count + 1, sizeof *p->error, "error feedback");
    return p->error == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
}

void reducer_onebit_free(onebit_plan *p)
{
    if (p == NULL)
        return;
    tdmi_free(p->block);
    tdmi_free(p->begin);
    tdmi_free(p->nbytes);
    tdmi_free(p->error);
    tdmi_free(p->kept);
    tdmi_free(p);
}

size_t reducer_onebit_kept(const onebit_plan *p)
{
    return p->count * sizeof *p->error + p->total;
}

size_t reducer_onebit_scratch(const onebit_plan *p)
{
    return p->total + (size_t)p->ranks * p->nbytes[p->rank];
}

float *reducer_onebit_served(onebit_plan *p, size_t *first, size_t *count)
{
    *first = p->first;
    *count = p->count;
    return p->count == 0 ? NULL : p->error;
}

static float *scale_of(char *chunk, const block *b)
{
    return (float *)(void *)(chunk + b->scale_at);
}

static uint8_t *bits_of(char *chunk, const block *b)
{
    return (uint8_t *)chunk + b->bits_at;
}

/* Signs of all ranks of this rank's blocks become signs of their average. */
static void serve(onebit_plan *p, char *from, char *chunk)
{
    const size_t nbytes = p->nbytes[p->rank];
    const float share = 1.0f / (float)p->ranks;
    float sum[TDMI_ONEBIT_BLOCK];
    for (int i = p->begin[p->rank]; i < p->begin[p->rank + 1]; i++) {
        const block *b = &p->block[i];
        memset(sum, 0, b->count * sizeof *sum);
        for (int r = 0; r < p->ranks; r++) {
            char *theirs = from + (size_t)r * nbytes;
            tdm_onebit_add(bits_of(theirs, b), *scale_of(theirs, b) * share, sum, b->count);
        }
        tdm_onebit_compress(sum, p->error + (b->first - p->first), bits_of(chunk, b), scale_of(chunk, b), b->count);
    }
}

static void pack(const onebit_plan *p, const tdm_bucket *bucket, float *residual, char *all)
{
    float made[TDMI_ONEBIT_BLOCK];
    for (int r = 0; r < p->ranks; r++)
        for (int i = p->begin[r]; i < p->begin[r + 1]; i++) {
            const block *b = &p->block[i];
            const float *from = (const float *)bucket->memory + b->first;
            if (p->source != NULL)
                p->source(p->source_arg, bucket->number, b->first, b->count, from, made);
            tdm_onebit_compress(p->source != NULL ? made : from, residual + b->first, bits_of(all + p->at[r], b),
                                scale_of(all + p->at[r], b), b->count);
        }
}

static void unpack_block(char *chunk, const block *b, float *out)
{
    memset(out, 0, b->count * sizeof *out);
    tdm_onebit_add(bits_of(chunk, b), *scale_of(chunk, b), out, b->count);
}

static void unpack(const onebit_plan *p, char *all, float *memory)
{
    for (int r = 0; r < p->ranks; r++)
        for (int i = p->begin[r]; i < p->begin[r + 1]; i++)
            unpack_block(all + p->at[r], &p->block[i], memory + p->block[i].first);
}

tdm_status reducer_onebit_lend(onebit_plan *p, tdmi_onebit_source source, void *arg)
{
    if (p->kept == NULL)
        p->kept = tdmi_calloc(p->total + 1, 1, "onebit averages");
    if (p->kept == NULL)
        return TDM_ERR_NO_MEMORY;
    p->source = source;
    p->source_arg = arg;
    return TDM_OK;
}

void reducer_onebit_read(onebit_plan *p, int bucket, tdmi_onebit_sink sink, void *arg)
{
    float average[TDMI_ONEBIT_BLOCK];
    for (int r = 0; r < p->ranks; r++)
        for (int i = p->begin[r]; i < p->begin[r + 1]; i++) {
            unpack_block(p->kept + p->at[r], &p->block[i], average);
            sink(arg, bucket, p->block[i].first, p->block[i].count, average);
        }
}

double reducer_onebit_squares(const onebit_plan *p, size_t first, size_t count)
{
    double sum = 0;
    for (int r = 0; r < p->ranks; r++)
        for (int i = p->begin[r]; i < p->begin[r + 1]; i++) {
            const block *b = &p->block[i];
            const size_t begin = b->first > first ? b->first : first;
            const size_t end = b->first + b->count < first + count ? b->first + b->count : first + count;
            const double scale = (double)*scale_of(p->kept + p->at[r], b);
            sum += begin < end ? scale * scale * (double)(end - begin) : 0;
        }
    return sum;
}

tdm_status reducer_onebit_hook(bucket_codec *c, char *scratch, const tdm_bucket *b, int phase, tdm_work **work)
{
    onebit_plan *p = c->onebit;
    char *all = scratch, *got = scratch + p->total, *own = all + p->at[p->rank];
    switch (phase) {
    case 0:
        pack(p, b, c->residual, all);
        return tdm_alltoallv(b->group, all, p->nbytes, got, p->same, TDM_U8, work);
    case 1:
        serve(p, got, own);
        return tdm_all_gatherv(b->group, own, all, p->nbytes, TDM_U8, work);
    default:
        if (p->source != NULL)
            memcpy(p->kept, all, p->total);
        else
            unpack(p, all, b->memory);
        return TDM_OK;
    }
}
