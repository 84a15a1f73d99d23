/* rules.c - the table of rules: what each says for itself. docs/lint.md is this table for readers. */
#include "lint/lint.h"

#define E TDMI_LINT_ERROR
#define W TDMI_LINT_WARNING
#define N TDMI_LINT_NOTE
#define DOCS "https://docs.pytorch.org/docs/stable/"

const tdmi_rule tdmi_rules[TDMI_RULES] = {
    [TDMI_RULE_UNKNOWN_OPTION] = {
        "unknown_option", E, "an option that does not exist",
        "no release of PyTorch from 1.0 to 2.13 has it: the call raises TypeError, or the launcher ends",
        "leave it out, or take the option that the text names", "signatures of PyTorch 1.0 to 2.13"},
    [TDMI_RULE_UNKNOWN_VARIABLE] = {
        "unknown_variable", W, "an environment variable that nothing reads",
        "neither PyTorch nor NCCL has a variable of that name; setting it changes nothing, without a word",
        "leave it out, or take the name that the text gives", "sources of PyTorch 2.13 and NCCL 2.4 to 2.30"},
    [TDMI_RULE_MISPLACED_VARIABLE] = {
        "misplaced_variable", W, "an environment variable that belongs elsewhere",
        "the variable is read by another program, under another name by now, or before the place where it is set",
        "set it where the text says, or leave it out", "sources of PyTorch 2.13, NCCL 2.4 to 2.30 and its plugins"},
    [TDMI_RULE_DEPRECATED_LAUNCHER] = {
        "deprecated_launcher", W, "torch.distributed.launch",
        "it is deprecated since PyTorch 1.9 in favour of torchrun, which restarts workers and passes ranks in the environment",
        "torchrun --nproc-per-node N train.py, and int(os.environ[\"LOCAL_RANK\"]) in the script", DOCS "distributed.html#launch-utility"},
    [TDMI_RULE_LOCAL_RANK_ARGUMENT] = {
        "local_rank_argument", N, "the local rank is taken from the command line",
        "torchrun passes no --local-rank: the argument keeps its default, and all ranks of a machine take the same GPU",
        "local_rank = int(os.environ[\"LOCAL_RANK\"])", DOCS "elastic/run.html#transitioning-from-torch-distributed-launch-to-torchrun"},
    [TDMI_RULE_OMP_NUM_THREADS] = {
        "omp_num_threads", W, "OMP_NUM_THREADS is not set",
        "torchrun then sets it to 1 for several ranks a machine: what runs on the CPU (collate, augmentation, optimizers on the CPU) uses one "
        "core; other launchers leave it unset, and every rank starts as many threads as the machine has cores",
        "OMP_NUM_THREADS=(cores of the machine / ranks on it) in front of the launch line", DOCS "elastic/run.html"},
    [TDMI_RULE_SAMPLER_WITHOUT_SET_EPOCH] = {
        "sampler_without_set_epoch", W, "DistributedSampler without set_epoch",
        "the sampler shuffles with seed + epoch; without set_epoch every epoch has the same order",
        "sampler.set_epoch(epoch) at the beginning of each epoch", DOCS "data.html#torch.utils.data.distributed.DistributedSampler"},
    [TDMI_RULE_SAMPLER_AND_SHUFFLE] = {
        "sampler_and_shuffle", E, "shuffle given to the DataLoader and to its sampler",
        "DataLoader raises ValueError: a sampler decides the order, shuffle=True would be a second one",
        "DataLoader(dataset, sampler=DistributedSampler(dataset, shuffle=True)), without shuffle", DOCS "data.html#torch.utils.data.DataLoader"},
    [TDMI_RULE_NO_LOADER_WORKERS] = {
        "no_loader_workers", N, "num_workers is 0",
        "batches are then made in the training process, between the steps: the GPU waits for each",
        "num_workers=4 or more a rank (cores of the machine / ranks), persistent_workers=True",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"},
    [TDMI_RULE_NON_BLOCKING_UNPINNED] = {
        "non_blocking_unpinned", W, "non_blocking=True from memory that is not pinned",
        "a copy from pageable memory is staged by the driver and holds up the host: non_blocking has no effect",
        "DataLoader(..., pin_memory=True)", "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html"},
    [TDMI_RULE_SAME_SEED_IN_WORKERS] = {
        "same_seed_in_workers", W, "the same seed in all workers",
        "workers, or ranks, with equal seeds draw equal augmentations: each sample of a batch is cropped and flipped alike",
        "seed from torch.initial_seed(), which differs in each worker, and start the ranks from seed + rank",
        DOCS "notes/randomness.html#dataloader"},
    [TDMI_RULE_ACCUMULATION_WITHOUT_NO_SYNC] = {
        "accumulation_without_no_sync", W, "accumulation without no_sync",
        "DDP averages the gradients in every backward(); of K micro-batches only the last needs that: K - 1 all-reduces are for nothing",
        "with model.no_sync(): forward and backward, in all micro-batches but the last",
        DOCS "generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync"},
    [TDMI_RULE_NO_SYNC_ON_LAST] = {
        "no_sync_on_last", E, "no_sync around the wrong micro-batch",
        "the micro-batch before optimizer.step() has to average the gradients; inside no_sync it does not, and the ranks' weights drift apart",
        "no_sync around all micro-batches but the last: contextlib.nullcontext() for that one",
        DOCS "generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync"},
    [TDMI_RULE_NO_SYNC_WITHOUT_FORWARD] = {
        "no_sync_without_forward", W, "no_sync around backward() alone",
        "DDP decides in forward whether it will average: no_sync has to be around forward too, else it has no effect",
        "with model.no_sync(): both the call of the model and backward()",
        DOCS "generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync"},
    [TDMI_RULE_LOSS_NOT_DIVIDED] = {
        "loss_not_divided", W, "accumulated losses are not divided",
        "K backward() calls add their gradients: the step is K times as long as one of the mean over all samples",
        "loss = loss / accumulation_steps before backward()", DOCS "notes/amp_examples.html#gradient-accumulation"},
    [TDMI_RULE_CLIP_BEFORE_UNSCALE] = {
        "clip_before_unscale", E, "gradients are clipped while they are scaled",
        "behind scaler.scale(loss).backward() gradients are some 65536 times too large: clipped to 1 they are 1/65536 after unscaling",
        "scaler.unscale_(optimizer) before clip_grad_norm_", DOCS "notes/amp_examples.html#gradient-clipping"},
    [TDMI_RULE_SCALER_WITHOUT_UPDATE] = {
        "scaler_without_update", E, "scaler.step without scaler.update",
        "the scale never adapts, and a step whose gradients overflow repeats for ever; a second step() before update() raises RuntimeError",
        "scaler.update() after the last scaler.step() of an iteration", DOCS "amp.html#gradient-scaling"},
    [TDMI_RULE_SCALED_WITHOUT_SCALER_STEP] = {
        "scaled_without_scaler_step", E, "a scaled loss, and optimizer.step() without the scaler",
        "the optimizer sees gradients that are multiplied by the scale (65536 at first), and steps with infinities are not skipped",
        "scaler.step(optimizer); scaler.update()", DOCS "amp.html#gradient-scaling"},
    [TDMI_RULE_BACKWARD_IN_AUTOCAST] = {
        "backward_in_autocast", W, "backward() inside autocast",
        "backward runs in the types that forward chose anyway; under autocast the ops of hooks and of custom functions are cast once more",
        "end the autocast block after the loss", DOCS "amp.html#torch.autocast"},
    [TDMI_RULE_DATA_PARALLEL] = {
        "data_parallel", W, "DataParallel",
        "one process feeds all GPUs under one interpreter lock, and copies the model to them and the outputs back in every step",
        "DistributedDataParallel, one process a GPU", DOCS "notes/cuda.html#cuda-nn-ddp-instead"},
    [TDMI_RULE_DDP_BEFORE_TO] = {
        "ddp_before_to", E, "the model is moved after DDP has wrapped it",
        "DDP lays out buckets and broadcasts where the parameters are when it wraps; with device_ids it raises ValueError for a model on the CPU",
        "model = model.to(device), then DDP(model, device_ids=[local_rank])",
        DOCS "generated/torch.nn.parallel.DistributedDataParallel.html"},
    [TDMI_RULE_OPTIMIZER_BEFORE_FSDP] = {
        "optimizer_before_fsdp", E, "the optimizer is made before FSDP shards the model",
        "sharding replaces the parameters: the optimizer goes on with those of the whole model, which no longer train",
        "shard first, then Optimizer(model.parameters())", DOCS "fsdp.html"},
    [TDMI_RULE_COMPILE_BEFORE_DDP] = {
        "compile_before_ddp", N, "torch.compile before DDP",
        "only where DDP is inside what is compiled does the compiler split the graph at the buckets; else one graph holds the whole backward, "
        "and the all-reduces begin when it ends",
        "model = DDP(model); model = torch.compile(model)", DOCS "notes/ddp.html#torchdynamo-ddpoptimizer"},
    [TDMI_RULE_FIND_UNUSED_PARAMETERS] = {
        "find_unused_parameters", N, "find_unused_parameters=True",
        "DDP then walks the graph of every forward, and has the ranks agree in every backward which parameters were used; it saves no memory, and "
        "is needed only where some parameters get no gradient",
        "leave it out; static_graph=True where the unused ones are always the same", DOCS "generated/torch.nn.parallel.DistributedDataParallel.html"},
    [TDMI_RULE_BUCKET_CAP_DEFAULT] = {
        "bucket_cap_default", W, "bucket_cap_mb=25 said explicitly",
        "25 is the default, but a default has a first bucket of 1 MiB, which lets the first all-reduce begin early; said explicitly, the first "
        "bucket is 25 MiB too",
        "leave it out, or choose a size that was measured (tandem tune)", "torch/nn/parallel/distributed.py of PyTorch 2.13"},
    [TDMI_RULE_SYNC_BATCHNORM_MISSING] = {
        "sync_batchnorm_missing", W, "BatchNorm over a tiny batch on each rank",
        "under DDP each rank normalises by the statistics of its own batch; of 8 samples and fewer they are too noisy",
        "model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) before DDP, or GroupNorm",
        "Wu and He, Group Normalization, 2018, arXiv:1803.08494, figure 1; " DOCS "generated/torch.nn.SyncBatchNorm.html"},
    [TDMI_RULE_COLLECTIVE_ON_SOME_RANKS] = {
        "collective_on_some_ranks", E, "a collective that some ranks never call",
        "every rank of the group has to call it; those that do wait for the others until the time-out ends the job",
        "call it on all ranks, outside the condition; what only rank 0 does stays inside", DOCS "distributed.html#collective-functions"},
    [TDMI_RULE_SAVE_ON_ALL_RANKS] = {
        "save_on_all_ranks", W, "all ranks save to the same file",
        "under DDP all have the same weights; ranks that write one path at once leave a damaged file",
        "if rank == 0: torch.save(...); then dist.barrier() on all ranks", "https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html"},
    [TDMI_RULE_INIT_WITHOUT_TIMEOUT] = {
        "init_without_timeout", N, "init_process_group without timeout or device_id",
        "the default time-out is 10 minutes with NCCL and 30 with Gloo: so long a hung job holds its machines; without device_id NCCL guesses the "
        "GPU of a barrier from the rank, and connects only in the first collective",
        "init_process_group(\"nccl\", timeout=timedelta(minutes=2), device_id=torch.device(\"cuda\", local_rank))",
        DOCS "distributed.html#torch.distributed.init_process_group"},
    [TDMI_RULE_EMPTY_CACHE_IN_LOOP] = {
        "empty_cache_in_loop", W, "empty_cache() in every step",
        "it waits for the GPU and gives its memory back; the next step asks for it again with cudaMalloc, which waits too. It frees nothing that "
        "is in use",
        "leave it out; against fragmentation PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", DOCS "notes/cuda.html#memory-management"},
    [TDMI_RULE_SYNC_EVERY_STEP] = {
        "sync_every_step", N, "a value is fetched from the GPU in every step",
        "item(), float(), print() of a tensor wait until the GPU has done all that was queued: it then idles while the host queues the next step",
        "add up tensors (total += loss.detach()) and fetch them every 50 steps",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization"},
    [TDMI_RULE_TIMING_WITHOUT_SYNC] = {
        "timing_without_sync", W, "time is taken without waiting for the GPU",
        "kernels are queued and run later: the clock shows how long queueing took",
        "torch.cuda.synchronize() before both readings, or torch.cuda.Event(enable_timing=True)", DOCS "notes/cuda.html#asynchronous-execution"},
    [TDMI_RULE_TIMING_FIRST_BATCH] = {
        "timing_first_batch", W, "only the first batch is timed",
        "the first step pays for CUDA's start, cuDNN's search, compilation, NCCL's connections and the workers' start",
        "a few steps of warm-up, then the median of many", "https://docs.pytorch.org/tutorials/recipes/recipes/benchmark.html"},
};
