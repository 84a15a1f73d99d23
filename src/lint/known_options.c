/* known_options.c - keyword arguments of torch's common constructors: the signatures of PyTorch 2.13, and names that releases from 1.0 on
 * had before. What takes **options of its own is not in the table. Sorted. */
#include "lint/lint.h"

#include <stdlib.h>
#include <string.h>

static const struct entry {
    const char *name, *options;
} entries[] = {
    {"torch.GradScaler", "device init_scale growth_factor backoff_factor growth_interval enabled"},
    {"torch.amp.GradScaler", "device init_scale growth_factor backoff_factor growth_interval enabled"},
    {"torch.autocast", "device_type dtype enabled cache_enabled"},
    {"torch.compile", "model fullgraph dynamic backend mode options name disable recompile_limit isolate_recompiles shapes_spec"},
    {"torch.cpu.amp.autocast", "enabled dtype cache_enabled"},
    {"torch.cuda.amp.GradScaler", "init_scale growth_factor backoff_factor growth_interval enabled"},
    {"torch.cuda.amp.autocast", "enabled dtype cache_enabled"},
    {"torch.distributed.all_gather", "tensor_list tensor group async_op"},
    {"torch.distributed.all_reduce", "tensor op group async_op"},
    {"torch.distributed.barrier", "group async_op device_ids timeout"},
    {"torch.distributed.broadcast", "tensor src group async_op group_src"},
    {"torch.distributed.device_mesh.init_device_mesh", "device_type mesh_shape mesh_dim_names backend_override"},
    {"torch.distributed.fsdp.CPUOffload", "offload_params"},
    {"torch.distributed.fsdp.FullyShardedDataParallel",
     "module process_group sharding_strategy cpu_offload auto_wrap_policy backward_prefetch mixed_precision "
     "ignored_modules param_init_fn device_id sync_module_states forward_prefetch limit_all_gathers "
     "use_orig_params ignored_states device_mesh fsdp_auto_wrap_policy ignored_parameters"},
    {"torch.distributed.fsdp.MixedPrecision",
     "param_dtype reduce_dtype buffer_dtype keep_low_precision_grads cast_forward_inputs cast_root_forward_inputs "
     "_module_classes_to_ignore"},
    {"torch.distributed.fsdp.MixedPrecisionPolicy", "param_dtype reduce_dtype output_dtype cast_forward_inputs"},
    {"torch.distributed.fsdp.fully_shard",
     "module mesh reshard_after_forward shard_placement_fn mp_policy offload_policy ignored_params dp_mesh_dims "
     "process_group policy strategy mixed_precision cpu_offload ignored_modules device_id param_init_fn "
     "sync_module_states forward_prefetch ignored_states"},
    {"torch.distributed.init_device_mesh", "device_type mesh_shape mesh_dim_names backend_override"},
    {"torch.distributed.init_process_group",
     "backend init_method timeout world_size rank store group_name pg_options device_id _ranks group_desc"},
    {"torch.distributed.new_group", "ranks timeout backend pg_options use_local_synchronization group_desc device_id sort_ranks"},
    {"torch.distributed.reduce", "tensor dst op group async_op group_dst"},
    {"torch.nn.DataParallel", "module device_ids output_device dim"},
    {"torch.nn.SyncBatchNorm.convert_sync_batchnorm", "module process_group"},
    {"torch.nn.parallel.DistributedDataParallel",
     "module device_ids output_device dim broadcast_buffers init_sync process_group bucket_cap_mb "
     "find_unused_parameters check_reduction gradient_as_bucket_view static_graph delay_all_reduce_named_params "
     "param_to_hook_all_reduce mixed_precision device_mesh skip_all_reduce_unused_params bucket_cap_mb_list "
     "batched_grad_copy forward_sync_buffers"},
    {"torch.nn.utils.clip_grad_norm_", "parameters max_norm norm_type error_if_nonfinite foreach"},
    {"torch.nn.utils.clip_grad_value_", "parameters clip_value foreach"},
    {"torch.optim.ASGD", "params lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"},
    {"torch.optim.Adadelta", "params lr rho eps weight_decay foreach capturable maximize differentiable"},
    {"torch.optim.Adafactor", "params lr beta2_decay eps d weight_decay foreach maximize"},
    {"torch.optim.Adagrad",
     "params lr lr_decay weight_decay initial_accumulator_value eps foreach maximize differentiable fused"},
    {"torch.optim.Adam",
     "params lr betas eps weight_decay amsgrad foreach maximize capturable differentiable fused "
     "decoupled_weight_decay"},
    {"torch.optim.AdamW",
     "params lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused "
     "decoupled_weight_decay"},
    {"torch.optim.Adamax", "params lr betas eps weight_decay foreach maximize differentiable capturable"},
    {"torch.optim.LBFGS", "params lr max_iter max_eval tolerance_grad tolerance_change history_size line_search_fn"},
    {"torch.optim.Muon", "params lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"},
    {"torch.optim.NAdam",
     "params lr betas eps weight_decay momentum_decay decoupled_weight_decay foreach maximize capturable "
     "differentiable"},
    {"torch.optim.RAdam", "params lr betas eps weight_decay decoupled_weight_decay foreach maximize capturable differentiable"},
    {"torch.optim.RMSprop", "params lr alpha eps weight_decay momentum centered capturable foreach maximize differentiable"},
    {"torch.optim.Rprop", "params lr etas step_sizes capturable foreach maximize differentiable"},
    {"torch.optim.SGD", "params lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"},
    {"torch.optim.SparseAdam", "params lr betas eps maximize"},
    {"torch.optim.lr_scheduler.ChainedScheduler", "schedulers optimizer verbose"},
    {"torch.optim.lr_scheduler.ConstantLR", "optimizer factor total_iters last_epoch verbose"},
    {"torch.optim.lr_scheduler.CosineAnnealingLR", "optimizer T_max eta_min last_epoch verbose"},
    {"torch.optim.lr_scheduler.CosineAnnealingWarmRestarts", "optimizer T_0 T_mult eta_min last_epoch verbose"},
    {"torch.optim.lr_scheduler.CyclicLR",
     "optimizer base_lr max_lr step_size_up step_size_down mode gamma scale_fn scale_mode cycle_momentum "
     "base_momentum max_momentum last_epoch verbose"},
    {"torch.optim.lr_scheduler.ExponentialLR", "optimizer gamma last_epoch verbose"},
    {"torch.optim.lr_scheduler.LambdaLR", "optimizer lr_lambda last_epoch verbose"},
    {"torch.optim.lr_scheduler.LinearLR", "optimizer start_factor end_factor total_iters last_epoch verbose"},
    {"torch.optim.lr_scheduler.MultiStepLR", "optimizer milestones gamma last_epoch verbose"},
    {"torch.optim.lr_scheduler.MultiplicativeLR", "optimizer lr_lambda last_epoch verbose"},
    {"torch.optim.lr_scheduler.OneCycleLR",
     "optimizer max_lr total_steps epochs steps_per_epoch pct_start anneal_strategy cycle_momentum base_momentum "
     "max_momentum div_factor final_div_factor three_phase last_epoch verbose"},
    {"torch.optim.lr_scheduler.PolynomialLR", "optimizer total_iters power last_epoch verbose"},
    {"torch.optim.lr_scheduler.ReduceLROnPlateau",
     "optimizer mode factor patience threshold threshold_mode cooldown min_lr eps verbose"},
    {"torch.optim.lr_scheduler.SequentialLR", "optimizer schedulers milestones last_epoch verbose"},
    {"torch.optim.lr_scheduler.StepLR", "optimizer step_size gamma last_epoch verbose"},
    {"torch.utils.data.BatchSampler", "sampler batch_size drop_last"},
    {"torch.utils.data.DataLoader",
     "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last timeout "
     "worker_init_fn multiprocessing_context generator prefetch_factor persistent_workers pin_memory_device "
     "in_order"},
    {"torch.utils.data.DistributedSampler", "dataset num_replicas rank shuffle seed drop_last"},
    {"torch.utils.data.RandomSampler", "data_source replacement num_samples generator"},
};

static int by_name(const void *name, const void *entry)
{
    return strcmp(name, ((const struct entry *)entry)->name);
}

const char *tdmi_known_options(const char *full_name)
{
    const struct entry *found = bsearch(full_name, entries, sizeof entries / sizeof *entries, sizeof *entries, by_name);
    return found != NULL ? found->options : NULL;
}
