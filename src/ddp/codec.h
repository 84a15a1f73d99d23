/* codec.h - what the built-in hooks share: their state of each bucket, and the scratch of the one that travels. */
#ifndef TDMI_DDP_CODEC_H
#define TDMI_DDP_CODEC_H

#include "ddp/internal.h"

#include "compress/codec.h"

typedef struct onebit_plan onebit_plan;

typedef struct bucket_codec {
    tdm_compression compress;
    size_t count;
    float *residual;      /* [count]: what this rank has not sent yet. NULL: travels plainly */
    tdm_powersgd *powersgd;
    onebit_plan *onebit;
} bucket_codec;

typedef struct reducer_codec {
    bucket_codec *bucket;
    int buckets;
    char *scratch; /* tdm_alloc memory of the largest need */
} reducer_codec;

/* Each: the phases of one bucket, and the bytes of scratch it needs. */
tdm_status reducer_cast_hook(bucket_codec *codec, char *scratch, const tdm_bucket *bucket, int phase, tdm_work **work);
tdm_status reducer_powersgd_hook(bucket_codec *codec, char *scratch, const tdm_bucket *bucket, int phase, tdm_work **work);
tdm_status reducer_topk_hook(bucket_codec *codec, char *scratch, const tdm_bucket *bucket, int phase, tdm_work **work);
tdm_status reducer_onebit_hook(bucket_codec *codec, char *scratch, const tdm_bucket *bucket, int phase, tdm_work **work);

/* hook_onebit.c: who serves which blocks of a bucket; begin: their errors, zeros. */
tdm_status reducer_onebit_plan(const tdm_part *part, int parts, int ranks, int rank, onebit_plan **out);
tdm_status reducer_onebit_begin(onebit_plan *plan);
void reducer_onebit_free(onebit_plan *plan);
/* Bytes: the errors and, with a source, the last averages' signs; and scratch. */
size_t reducer_onebit_kept(const onebit_plan *plan);
size_t reducer_onebit_scratch(const onebit_plan *plan);
/* The error of the blocks that this rank serves: elements [*first, *first + *count) of the bucket; NULL where it serves none. */
float *reducer_onebit_served(onebit_plan *plan, size_t *first, size_t *count);
/* What tdmi_reducer_onebit_lend, _read and _squares do with one bucket. */
tdm_status reducer_onebit_lend(onebit_plan *plan, tdmi_onebit_source source, void *arg);
double reducer_onebit_squares(const onebit_plan *plan, size_t first, size_t count);
void reducer_onebit_read(onebit_plan *plan, int bucket, tdmi_onebit_sink sink, void *arg);

#endif
