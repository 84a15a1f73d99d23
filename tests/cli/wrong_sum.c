/* wrong_sum.c - preloaded into `tandem bench`: rank 1 gets one element of each float32 allreduce wrong. */
#include <tandem/tandem.h>

#include <dlfcn.h>

typedef tdm_status (*allreduce)(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op, tdm_work **work);

tdm_status tdm_allreduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op, tdm_work **work)
{
    allreduce next;
    *(void **)(void *)&next = dlsym(RTLD_NEXT, "tdm_allreduce");
    const tdm_status status = next(group, in, out, count, dtype, op, work);
    if (status == TDM_OK && work == NULL && dtype == TDM_F32 && tdm_group_rank(group) == 1)
        ((float *)out)[count / 2] += 1;
    return status;
}
