/* torch_names.c - which of torch's names are a wrapper, a loader, an optimizer, a collective. */
#include "lint/script.h"

#include <string.h>

static bool is_one_of(const char *name, const char *const *of, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, of[i]) == 0)
            return true;
    return false;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What stands behind a prefix; NULL: another prefix. */
static const char *after(const char *name, const char *prefix)
{
    const size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

bool tdmi_is_ddp(const char *full_name)
{
    return strcmp(full_name, "torch.nn.parallel.DistributedDataParallel") == 0;
}

bool tdmi_is_fsdp(const char *full_name)
{
    return strcmp(full_name, "torch.distributed.fsdp.FullyShardedDataParallel") == 0;
}

bool tdmi_is_fully_shard(const char *full_name)
{
    return strcmp(full_name, "torch.distributed.fsdp.fully_shard") == 0;
}

bool tdmi_is_data_parallel(const char *full_name)
{
    return strcmp(full_name, "torch.nn.DataParallel") == 0;
}

bool tdmi_is_loader(const char *full_name)
{
    return strcmp(full_name, "torch.utils.data.DataLoader") == 0;
}

bool tdmi_is_distributed_sampler(const char *full_name)
{
    return strcmp(full_name, "torch.utils.data.DistributedSampler") == 0;
}

bool tdmi_is_optimizer(const char *full_name)
{
    const char *rest = after(full_name, "torch.optim.");
    return (rest != NULL && rest[0] >= 'A' && rest[0] <= 'Z' && strchr(rest, '.') == NULL) ||
           strcmp(full_name, "torch.distributed.optim.ZeroRedundancyOptimizer") == 0;
}

bool tdmi_is_scaler(const char *full_name)
{
    static const char *const names[] = {"torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.cpu.amp.GradScaler", "torch.GradScaler",
                                        "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"};
    return is_one_of(full_name, names, COUNT(names));
}

bool tdmi_is_autocast(const char *full_name)
{
    static const char *const names[] = {"torch.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"};
    return is_one_of(full_name, names, COUNT(names));
}

bool tdmi_is_collective(const char *full_name)
{
    static const char *const names[] = {
        "barrier", "monitored_barrier", "all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "all_gather", "all_gather_coalesced",
        "all_gather_into_tensor", "_all_gather_base", "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor", "_reduce_scatter_base",
        "all_to_all", "all_to_all_single", "all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list", "new_group",
        "new_subgroups", "new_subgroups_by_enumeration"};
    const char *rest = after(full_name, "torch.distributed.");
    if (rest == NULL)
        return false;
    const char *of_checkpoint = after(rest, "checkpoint.");
    if (of_checkpoint != NULL)
        return strcmp(of_checkpoint, "save") == 0 || strcmp(of_checkpoint, "load") == 0 || strcmp(of_checkpoint, "async_save") == 0;
    return is_one_of(rest, names, COUNT(names));
}
