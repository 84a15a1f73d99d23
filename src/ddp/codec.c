/* codec.c - makes a reducer's codec: state of every bucket that it compresses, and the hook that finds the right one. */
#include "ddp/codec.h"

#include "core/memory.h"

static tdm_status plain_hook(const tdm_bucket *b, int phase, tdm_work **work)
{
    return phase > 0 ? TDM_OK : tdm_allreduce(b->group, b->memory, b->memory, b->count, b->dtype, b->op, work);
}

static tdm_status codec_hook(void *arg, const tdm_bucket *b, int phase, tdm_work **work)
{
    const reducer_codec *codec = arg;
    bucket_codec *own = &codec->bucket[b->number];
    switch (own->compress.codec) {
    case TDM_CODEC_F16:
    case TDM_CODEC_BF16: return reducer_cast_hook(own, codec->scratch, b, phase, work);
    case TDM_CODEC_POWERSGD: return reducer_powersgd_hook(own, codec->scratch, b, phase, work);
    case TDM_CODEC_TOPK: return reducer_topk_hook(own, codec->scratch, b, phase, work);
    case TDM_CODEC_ONEBIT: return reducer_onebit_hook(own, codec->scratch, b, phase, work);
    default: return plain_hook(b, phase, work);
    }
}

static size_t scratch_of(const bucket_codec *c, int ranks)
{
    size_t first = 0, second = 0;
    switch (c->compress.codec) {
    case TDM_CODEC_F16:
    case TDM_CODEC_BF16:
        return c->count * sizeof(uint16_t);
    case TDM_CODEC_POWERSGD:
        tdm_powersgd_sizes(c->powersgd, &first, &second);
        return (first + second) * sizeof(float);
    case TDM_CODEC_TOPK:
        return tdmi_topk_kept(&c->compress, c->count) * (sizeof(uint32_t) + sizeof(float)) * ((size_t)ranks + 1);
    case TDM_CODEC_ONEBIT:
        return reducer_onebit_scratch(c->onebit);
    default:
        return 0;
    }
}

static void free_bucket(bucket_codec *c)
{
    tdmi_free(c->residual);
    tdm_powersgd_destroy(c->powersgd);
    reducer_onebit_free(c->onebit);
}

/* Without the errors it will keep. After an error it is still to be freed. */
static tdm_status plan_bucket(const tdm_compression *compress, const tdm_part *part, int parts, size_t used, int ranks, int rank,
                              bucket_codec *c)
{
    *c = (bucket_codec){.compress = *compress, .count = used};
    if (c->compress.codec == TDM_CODEC_NONE)
        return TDM_OK;
    if (c->compress.codec == TDM_CODEC_TOPK && (used > UINT32_MAX || !(c->compress.fraction >= 0 && c->compress.fraction <= 1)))
        return tdmi_fail(TDM_ERR_INVALID, "topk of %zu elements, fraction %g: below 2^32 elements, a fraction up to 1", used,
                         c->compress.fraction);
    if (c->compress.codec == TDM_CODEC_POWERSGD)
        return tdm_powersgd_create(part, parts, &c->compress, &c->powersgd);
    if (c->compress.codec == TDM_CODEC_ONEBIT)
        return reducer_onebit_plan(part, parts, ranks, rank, &c->onebit);
    return TDM_OK;
}

tdm_status tdmi_codec_memory(const tdm_compression *compress, const tdm_part *part, int parts, size_t used, int ranks, size_t *kept_out,
                             size_t *scratch_out)
{
    bucket_codec c;
    size_t first = 0, factors = 0;
    tdm_status st = plan_bucket(compress, part, parts, used, ranks, 0, &c);
    if (st == TDM_OK && c.powersgd != NULL)
        tdm_powersgd_sizes(c.powersgd, &first, &factors);
    if (st == TDM_OK) {
        *kept_out = compress->codec == TDM_CODEC_NONE ? 0 : (used + factors) * sizeof(float) + (c.onebit == NULL ? 0 : reducer_onebit_kept(c.onebit));
        *scratch_out = scratch_of(&c, ranks);
    }
    free_bucket(&c);
    return st;
}

static tdm_status make_bucket(const tdm_reducer *r, const reducer_bucket *b, bucket_codec *c)
{
    tdm_compression own = b->compress;
    own.seed += (uint64_t)b->number * 0x9e3779b97f4a7c15u;
    tdm_status st = plan_bucket(&own, b->part, b->parameters, b->used, r->size, r->rank, c);
    if (st != TDM_OK || own.codec == TDM_CODEC_NONE)
        return st;
    c->residual = tdmi_calloc(c->count + 1, sizeof *c->residual, "error feedback");
    if (c->residual == NULL)
        return TDM_ERR_NO_MEMORY;
    return c->onebit == NULL ? TDM_OK : reducer_onebit_begin(c->onebit);
}

tdm_status reducer_codec_create(tdm_reducer *r)
{
    bool any = false;
    for (int b = 0; b < r->bucket_count; b++)
        any = any || r->bucket[b].compress.codec != TDM_CODEC_NONE;
    if (!any || r->size == 1) /* alone there is nobody to send to */
        return TDM_OK;
    reducer_codec *codec = r->codec = tdmi_calloc(1, sizeof *codec, "reducer codec");
    if (codec == NULL)
        return TDM_ERR_NO_MEMORY;
    codec->bucket = tdmi_calloc((size_t)r->bucket_count, sizeof *codec->bucket, "reducer codec");
    if (codec->bucket == NULL)
        return TDM_ERR_NO_MEMORY;
    codec->buckets = r->bucket_count;
    size_t scratch = 0;
    for (int b = 0; b < r->bucket_count; b++) {
        const tdm_status st = make_bucket(r, &r->bucket[b], &codec->bucket[b]);
        if (st != TDM_OK)
            return tdmi_fail_while(st, "preparing the compression of bucket %d", b);
        const size_t need = scratch_of(&codec->bucket[b], r->size);
        scratch = need > scratch ? need : scratch;
    }
    void *memory = NULL;
    const tdm_status st = tdm_alloc(r->group, scratch + sizeof(float), &memory);
    if (st != TDM_OK)
        return tdmi_fail_while(st, "allocating %zu bytes for what travels", scratch);
    codec->scratch = memory;
    r->hook = codec_hook;
    r->hook_arg = codec;
    return TDM_OK;
}

void reducer_codec_destroy(tdm_reducer *r)
{
    reducer_codec *codec = r->codec;
    if (codec == NULL)
        return;
    for (int b = 0; b < codec->buckets; b++)
        free_bucket(&codec->bucket[b]);
    tdm_free(r->group, codec->scratch);
    tdmi_free(codec->bucket);
    tdmi_free(codec);
}

tdm_status tdm_reducer_set_compress(tdm_reducer *r, bool on)
{
    if (r->committed && r->size > 1 && r->codec == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "this reducer was made without a compression");
    return tdm_reducer_set_hook(r, on && r->codec != NULL ? codec_hook : NULL, r->codec);
}

/* ---- for the executor ---- */

void tdmi_reducer_compress_bucket(tdm_reducer *r, int bucket, const tdm_compression *compress)
{
    r->bucket[bucket].compress = *compress;
}

float *tdmi_reducer_residual(tdm_reducer *r, int bucket)
{
    return r->codec == NULL ? NULL : r->codec->bucket[bucket].residual;
}

float *tdmi_reducer_served(tdm_reducer *r, int bucket, size_t *first, size_t *count)
{
    return r->codec == NULL || r->codec->bucket[bucket].onebit == NULL
               ? NULL
               : reducer_onebit_served(r->codec->bucket[bucket].onebit, first, count);
}

tdm_status tdmi_reducer_onebit_lend(tdm_reducer *r, tdmi_onebit_source source, void *arg)
{
    tdm_status st = TDM_OK;
    for (int b = 0; r->codec != NULL && b < r->codec->buckets && st == TDM_OK; b++)
        if (r->codec->bucket[b].onebit != NULL)
            st = reducer_onebit_lend(r->codec->bucket[b].onebit, source, arg);
    return st;
}

void tdmi_reducer_onebit_read(tdm_reducer *r, int bucket, tdmi_onebit_sink sink, void *arg)
{
    reducer_onebit_read(r->codec->bucket[bucket].onebit, bucket, sink, arg);
}

double tdmi_reducer_onebit_squares(const tdm_reducer *r, int bucket, size_t first, size_t count)
{
    return reducer_onebit_squares(r->codec->bucket[bucket].onebit, first, count);
}

float *tdmi_reducer_factor(tdm_reducer *r, int bucket, int part, size_t *count)
{
    return r->codec == NULL || r->codec->bucket[bucket].powersgd == NULL
               ? NULL
               : tdm_powersgd_factor(r->codec->bucket[bucket].powersgd, part, count);
}
