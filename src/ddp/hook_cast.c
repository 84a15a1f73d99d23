/* hook_cast.c - halves with error feedback: cast, allreduce of halves (summed in float32, rounded once), cast back. */
#include "ddp/codec.h"

tdm_status reducer_cast_hook(bucket_codec *c, char *scratch, const tdm_bucket *b, int phase, tdm_work **work)
{
    const tdm_dtype dtype = c->compress.codec == TDM_CODEC_F16 ? TDM_F16 : TDM_BF16;
    if (phase > 0)
        return tdm_cast_decompress(dtype, scratch, b->memory, b->count);
    const tdm_status st = tdm_cast_compress(dtype, b->memory, c->residual, scratch, b->count);
    return st != TDM_OK ? st : tdm_allreduce(b->group, scratch, scratch, b->count, dtype, TDM_AVG, work);
}
