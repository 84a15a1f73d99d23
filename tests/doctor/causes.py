"""The causes of slowness: for each finding a job that has it, and the same job without it.

SCENARIOS[name](draw) makes a job; without(job, finding) takes the cause away. What the doctor should say of a scenario is
FINDING[name], None for a healthy job.
"""
import random

from job import MB, MS, US, Job, Slow


class Draw(random.Random):
    """Where a scenario's numbers come from. most_ranks keeps the traces small."""

    def __init__(self, seed, most_ranks=8):
        super().__init__(seed)
        self.most_ranks = most_ranks

    def ranks(self, *choices):
        return min(self.choice(choices), max(self.most_ranks, min(choices)))


# finding -> how its cause is taken away. The last three are limits that every job has; the others exist or do not.
CURES = {
    "straggler": lambda job: job.but(slow=None),
    "implicit_sync": lambda job: job.but(sync_waits=False, read_loss=False),
    "small_buckets": lambda job: job.but(bucket_mb=25) if job.bucket_mb < 25 else job,
    "large_buckets": lambda job: job.but(bucket_mb=25) if job.bucket_mb > 25 else job,
    "bucket_order": lambda job: job.but(in_ready_order=True),
    "unpinned_copies": lambda job: job.but(pinned=True),
    "no_mixed_precision": lambda job: job.but(precision="bf16"),
    "tiny_kernels": lambda job: job.but(fused=True),
    "optimizer_not_fused": lambda job: job.but(optimizer="fused"),
    "recompute": lambda job: job.but(recompute=False),
    "fsdp_prefetch": lambda job: job.but(prefetch=True),
    "slow_link": lambda job: job.but(slow_pair=None),
    "data_loading": lambda job: job.but(loader_ns=0, slow=None if job.slow and job.slow.kind == "data" else job.slow),
    "communication_exposed": lambda job: job.but(free_collectives=True),
    "launch_bound": lambda job: job.but(host=0.02),
}


def without(job, finding):
    return CURES[finding](job)


def _model(draw, **fields):
    """A job in which computation is the limit."""
    kind = draw.choice(("transformer", "convnet"))
    chosen = dict(gpu=draw.choice(("A100", "H100")), model=kind, ranks=draw.ranks(2, 4, 4, 8), depth=draw.randint(6, 10) if kind == "transformer" else draw.randint(12, 18),
                  width=768 if kind == "transformer" else 1024, scale=draw.uniform(0.9, 1.5) * (1 if kind == "transformer" else 1.6), input_bytes=draw.randint(1, 4) * MB,
                  busbw_gbps=draw.uniform(90, 160))
    chosen.update(fields)
    return Job(**chosen)


def _cpu(draw, **fields):
    chosen = dict(gpu="", model="mlp", ranks=draw.ranks(2, 4), depth=draw.randint(5, 9), width=1024, scale=draw.uniform(3, 5), busbw_gbps=draw.uniform(8, 12), latency_ns=120 * US,
                  workers=0, loader_ns=0.4 * MS)
    chosen.update(fields)
    return Job(**chosen)


def _link(job, gbps):
    """Bandwidth such that an all-reduce takes as long with any number of ranks as with four."""
    return job.but(busbw_gbps=gbps * (2 * (job.ranks - 1) / job.ranks) / 1.5)


def _slow(draw, job, kind, factor):
    return job.but(slow=Slow(draw.randrange(job.ranks), kind, factor))


def _data_loading(draw):
    if draw.choice((True, False)):
        return _model(draw, workers=0, loader_ns=draw.uniform(10, 25) * MS)
    return _model(draw, model="transformer", depth=draw.randint(6, 8), scale=draw.uniform(0.6, 0.8), workers=2, loader_ns=draw.uniform(22, 35) * MS)


def _straggler_data(draw):
    job = _model(draw, workers=0, loader_ns=1.0 * MS)
    return _slow(draw, job, "data", draw.uniform(8, 20))


def _straggler_host(draw):
    job = _model(draw, model="transformer", width=512, depth=draw.randint(8, 12), scale=draw.uniform(0.24, 0.3))
    return _slow(draw, job, "host", draw.uniform(2.2, 3.2))


def _tiny_network(draw, **fields):
    return _model(draw, model="transformer", depth=draw.randint(8, 12), width=256, scale=draw.uniform(0.03, 0.06), host=draw.uniform(1.2, 2.0), busbw_gbps=150, latency_ns=20 * US, **fields)


SCENARIOS = {
    "data_loading": _data_loading,
    "communication_exposed": lambda draw: _link(_model(draw, model="transformer", width=768, depth=draw.randint(6, 10), scale=draw.uniform(0.8, 1.1)), draw.uniform(14, 22)),
    "straggler_compute": lambda draw: _slow(draw, _model(draw), "compute", draw.uniform(1.2, 1.5)),
    "straggler_data": _straggler_data,
    "straggler_host": _straggler_host,
    "launch_bound": _tiny_network,
    "implicit_sync": lambda draw: _model(draw, model="transformer", width=512, depth=(depth := draw.randint(8, 12)), scale=draw.uniform(0.5, 0.7), syncs=depth,
                                        sync_host_ns=draw.uniform(250, 450) * US),
    "small_buckets": lambda draw: _model(draw, model="convnet", width=512, depth=draw.randint(14, 20), scale=draw.uniform(0.5, 0.8), bucket_mb=0.5, latency_ns=draw.uniform(250, 400) * US,
                                        busbw_gbps=100),
    "large_buckets": lambda draw: _link(_model(draw, model="transformer", width=768, depth=draw.randint(7, 10), scale=draw.uniform(0.8, 1.1), bucket_mb=1000), draw.uniform(35, 50)),
    "bucket_order": lambda draw: _link(_model(draw, model="transformer", width=768, depth=draw.randint(7, 10), scale=draw.uniform(0.8, 1.1), in_ready_order=False), draw.uniform(35, 50)),
    "unpinned_copies": lambda draw: _model(draw, input_bytes=draw.randint(40, 90) * MB, pinned=False, pageable_gbps=draw.uniform(4, 6)),
    "no_mixed_precision": lambda draw: _model(draw, precision="float", scale=draw.uniform(0.4, 0.7)),
    "tiny_kernels": lambda draw: _model(draw, model="transformer", depth=draw.randint(6, 9), scale=draw.uniform(0.5, 0.7), chain=draw.randint(16, 24), chain_ns=draw.uniform(14, 22) * US, fused=False),
    "optimizer_not_fused": lambda draw: _model(draw, model="transformer", width=768, depth=draw.randint(8, 10), scale=draw.uniform(0.4, 0.6), optimizer="loop"),
    "recompute": lambda draw: _model(draw, recompute=True),
    "fsdp_prefetch": lambda draw: _link(_model(draw, model="transformer", width=1024, depth=draw.randint(6, 10), scale=draw.uniform(0.7, 1.0), parallel="fsdp", prefetch=False), draw.uniform(80, 120)),
    "slow_link": lambda draw: _model(draw, model="transformer", width=768, depth=draw.randint(6, 10), ranks=draw.ranks(4, 8), pairs=True, slow_pair=draw.randrange(2),
                                    slow_pair_factor=draw.uniform(10, 20), busbw_gbps=140),
    "data_loading_cpu": lambda draw: _cpu(draw, loader_ns=draw.uniform(20, 40) * MS),
    "straggler_cpu": lambda draw: _slow(draw, _cpu(draw), "compute", draw.uniform(1.25, 1.5)),
    "communication_cpu": lambda draw: _link(_cpu(draw, scale=1.5), draw.uniform(0.9, 1.4)),
    "healthy_ddp": _model,
    "healthy_ahead": lambda draw: _model(draw, read_loss=False),
    "healthy_fsdp": lambda draw: _model(draw, model="transformer", width=1024, depth=draw.randint(6, 10), parallel="fsdp"),
    "healthy_single": lambda draw: _model(draw, ranks=1, parallel="none"),
    "healthy_pairs": lambda draw: _model(draw, model="transformer", width=768, ranks=4, pairs=True, busbw_gbps=140, pair_gbps=250, latency_ns=15 * US),
    "healthy_compiled": lambda draw: _model(draw, model="transformer", chain=12, chain_ns=15 * US),
    "healthy_cpu": _cpu,
}
FINDING = {name: name.removesuffix("_cpu") for name in SCENARIOS}
FINDING.update({name: "straggler" for name in SCENARIOS if name.startswith("straggler")})
FINDING.update({name: None for name in SCENARIOS if name.startswith("healthy")})
FINDING["communication_cpu"] = "communication_exposed"
