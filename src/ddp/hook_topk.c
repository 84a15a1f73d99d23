/* hook_topk.c - every rank's largest few to all, who add them up in the order of ranks: the same bits everywhere.
 *
 * scratch   | own: k places, k values | of rank 0 | of rank 1 | ... |
 * Cost   (n-1) 8 k bytes a rank: grows with the ranks, worth it for few of them and a small k */
#include "ddp/codec.h"

#include <string.h>

tdm_status reducer_topk_hook(bucket_codec *c, char *scratch, const tdm_bucket *b, int phase, tdm_work **work)
{
    const size_t k = tdmi_topk_kept(&c->compress, b->count), nbytes = k * (sizeof(uint32_t) + sizeof(float));
    const int n = tdm_group_size(b->group);
    if (phase == 0) {
        tdm_topk_compress(b->memory, c->residual, b->count, (uint32_t *)(void *)scratch,
                          (float *)(void *)(scratch + k * sizeof(uint32_t)), k);
        return tdm_all_gather(b->group, scratch, scratch + nbytes, nbytes, TDM_U8, work);
    }
    memset(b->memory, 0, b->count * sizeof(float));
    for (int r = 0; r < n; r++) {
        const char *from = scratch + nbytes * (size_t)(r + 1);
        tdm_topk_add((const uint32_t *)(const void *)from, (const float *)(const void *)(from + k * sizeof(uint32_t)), k,
                     1.0f / (float)n, b->memory);
    }
    return TDM_OK;
}
