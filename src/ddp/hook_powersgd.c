/* hook_powersgd.c - two small allreduces in place of one large: factors P with all that travels whole, then factors Q. */
#include "ddp/codec.h"

tdm_status reducer_powersgd_hook(bucket_codec *c, char *scratch, const tdm_bucket *b, int phase, tdm_work **work)
{
    size_t first_count, second_count;
    tdm_powersgd_sizes(c->powersgd, &first_count, &second_count);
    float *first = (float *)(void *)scratch, *second = first + first_count;
    if (phase == 0) {
        tdm_powersgd_begin(c->powersgd, b->memory, c->residual, first);
        return tdm_allreduce(b->group, first, first, first_count, TDM_F32, TDM_AVG, work);
    }
    if (phase == 1 && second_count > 0) {
        tdm_powersgd_middle(c->powersgd, b->memory, first, second);
        return tdm_allreduce(b->group, second, second, second_count, TDM_F32, TDM_AVG, work);
    }
    tdm_powersgd_end(c->powersgd, b->memory, c->residual, first, second);
    return TDM_OK;
}
