/* plan.c - which gradients travel together: buckets in the order gradients become ready. */
#include "ddp/plan.h"

#define DEFAULT_CAP_MB 25.0
#define DEFAULT_FIRST_MB 1.0
#define MIB 1048576.0
#define SLICE_ALIGN 64 /* a cache line, and whole vectors of every instruction set */

static size_t bytes_of_mib(double mib)
{
    return mib * MIB >= (double)(SIZE_MAX / 2) ? SIZE_MAX / 2 : (size_t)(mib * MIB);
}

void tdmi_plan_caps(double cap_mb, double first_mb, size_t *cap, size_t *first_cap)
{
    if (!(first_mb > 0))
        first_mb = cap_mb > 0 ? cap_mb : DEFAULT_FIRST_MB;
    if (!(cap_mb > 0))
        cap_mb = DEFAULT_CAP_MB;
    *cap = bytes_of_mib(cap_mb);
    *first_cap = bytes_of_mib(first_mb);
}

int tdmi_plan_buckets(const size_t *nbytes, int count, const size_t *cap, int cap_count, int *bucket_of)
{
    int bucket = -1;
    bool open = false;
    size_t held = 0;
    for (int i = 0; i < count; i++) {
        if (!open && (nbytes[i] > 0 || bucket < 0)) {
            bucket++;
            open = true;
            held = 0;
        }
        bucket_of[i] = bucket;
        held += nbytes[i];
        if (held >= cap[bucket < cap_count ? bucket : cap_count - 1] && held > 0)
            open = false;
    }
    return bucket + 1;
}

size_t tdmi_plan_padded(size_t used, size_t elem_size, int world_size)
{
    size_t n = (size_t)world_size, line = SLICE_ALIGN / elem_size;
    size_t slice = (used + n - 1) / n;
    return (slice + line - 1) / line * line * n;
}
