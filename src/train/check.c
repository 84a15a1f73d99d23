/* check.c - what the launching process asks before and after its ranks: can it work, and where can it go on. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "train/settings.h"

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parameters, gradients and optimizer state of a node's ranks; activations come on top. */
static double node_bytes(const tdmi_settings *s, size_t parameters, int world_size, int local_size)
{
    bool one_copy = s->shard > 0 && world_size == local_size;
    double values = one_copy ? 1 : s->shard == 3 ? (double)local_size / world_size : local_size;
    double gradients = s->shard < 2 ? local_size : 0; /* from stage 2 on a few buckets, which may be small */
    double moments = (double)tdmi_optimizer_moments(&s->optimizer) * local_size / (s->shard > 0 ? world_size : 1);
    if (s->options.offload != NULL)
        moments = 0;
    double feedback = 0;
    if (s->compress.codec != TDM_CODEC_NONE && world_size > 1) {
        const bool whole = s->shard == 0 || s->compress.codec == TDM_CODEC_ONEBIT;
        feedback = local_size;
        moments = tdmi_optimizer_moments(&s->optimizer) * (whole ? local_size : 1.0); /* slices are of a node */
    }
    return (values + gradients + feedback + moments) * (double)parameters * sizeof(float);
}

tdm_status tdm_train_check(const tdm_train_options *options, int world_size, int local_size)
{
    tdmi_settings s;
    tdm_status st = tdmi_settings_resolve(options, &s);
    if (st != TDM_OK)
        return st;
    double needed = node_bytes(&s, s.parameters, world_size, local_size), gib = (double)(1 << 30);
    double present = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (needed > present)
        return tdmi_fail(TDM_ERR_NO_MEMORY,
                         "%zu parameters with gradients and optimizer state of %d rank%s need %.1f GiB on this node, which has "
                         "%.1f GiB of memory; choose a smaller model%s",
                         s.parameters, local_size, local_size == 1 ? "" : "s", needed / gib, present / gib,
                         local_size > 1 ? " or fewer ranks" : "");
    return TDM_OK;
}

tdm_status tdm_train_newest(const tdm_train_options *options, char **folder_out)
{
    tdmi_settings s;
    uint64_t *steps;
    size_t count;
    *folder_out = NULL;
    tdm_status st = tdmi_settings_resolve(options, &s);
    if (st != TDM_OK || access(s.run_dir, F_OK) != 0)
        return st;
    st = tdmi_folder_steps(s.run_dir, &steps, &count);
    if (st != TDM_OK)
        return st;
    for (size_t i = 0; i < count && *folder_out == NULL; i++) {
        char folder[TDMI_PATH_MAX];
        tdmi_checkpoint *c = NULL;
        if (tdmi_checkpoint_folder(s.run_dir, steps[i], folder) == TDM_OK && tdmi_checkpoint_open(folder, false, &c) == TDM_OK &&
            (*folder_out = strdup(folder)) == NULL)
            st = tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for a path");
        tdmi_checkpoint_close(c);
    }
    tdmi_free(steps);
    return st;
}
