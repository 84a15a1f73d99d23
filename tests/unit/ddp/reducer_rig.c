/* reducer_rig.c - parameters of many sizes, and gradients in whole numbers. */
#include "reducer_rig.h"

static const size_t counts[RIG_PARAMETERS] = {3, 1, 70, 300, 0, 16, 129, 5, 1};

static const char *name_of(int i)
{
    static const char *const names[RIG_PARAMETERS] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"};
    return names[i];
}

tdm_reducer_options rig_small_buckets(void)
{
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.bucket_cap_mb = 512.0 / (1 << 20);
    options.first_bucket_mb = 64.0 / (1 << 20);
    return options;
}

tdm_status rig_create(tdm_group *group, const tdm_reducer_options *options, tdm_reducer **out)
{
    tdm_status st = tdm_reducer_create(group, options, out);
    for (int i = 0; i < RIG_PARAMETERS && st == TDM_OK; i++) {
        int id = -1;
        st = tdm_reducer_add(*out, name_of(i), counts[i], &id);
        if (st == TDM_OK && id != i)
            return TDM_ERR_INTERNAL;
    }
    return st == TDM_OK ? tdm_reducer_commit(*out) : st;
}

/* Whole numbers whose sums over the ranks are exact. */
static float value(int rank, int parameter, size_t k, int step)
{
    return (float)((rank + 1) * (int)(k % 7) + parameter - 3 * step);
}

static float mean(int size, int parameter, size_t k, int step)
{
    float sum = 0;
    for (int rank = 0; rank < size; rank++)
        sum += value(rank, parameter, k, step);
    return sum * (1.0f / (float)size);
}

const char *rig_check_mean(tdm_reducer *r, int size, int step)
{
    for (int i = 0; i < RIG_PARAMETERS; i++) {
        const float *g = tdm_reducer_gradient(r, i);
        for (size_t k = 0; k < counts[i]; k++)
            CHECK_THAT(g[k] == mean(size, i, k, step));
    }
    return NULL;
}

void rig_write_gradient(tdm_reducer *r, int rank, int i, int step)
{
    float *g = tdm_reducer_gradient(r, i);
    for (size_t k = 0; k < counts[i]; k++)
        g[k] = value(rank, i, k, step);
}

tdm_status rig_create_scalars(tdm_group *group, const tdm_reducer_options *options, int n, tdm_reducer **out)
{
    tdm_status st = tdm_reducer_create(group, options, out);
    for (int i = 0; i < n && st == TDM_OK; i++) {
        int id;
        st = tdm_reducer_add(*out, name_of(i), 1, &id);
    }
    return st == TDM_OK ? tdm_reducer_commit(*out) : st;
}

float *rig_gradient(tdm_reducer *r, int id)
{
    return tdm_reducer_gradient(r, id);
}
