"""The process group of a program that torchrun starts, over a backend that is named: "tandem", "gloo", or "nothing", which gives torch's
calls back at once: what a program takes then is torch's own time."""
import statistics
import time

import torch
import torch.distributed as dist


def open_group(name):
    torch.set_num_threads(1)
    load(name)
    dist.init_process_group(name)
    return dist.get_rank(), dist.get_world_size()


def load(name):
    if name == "tandem":
        import tandem_torch  # noqa: F401
    if name == "nothing":
        fake = torch._C._distributed_c10d.FakeProcessGroup
        dist.Backend.register_backend("nothing", lambda store, rank, size, timeout: fake._create_internal(rank, size), devices=["cpu"])


def window(call, calls):
    """Seconds of so many calls; ranks begin together."""
    dist.barrier()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - began


def timed(step, count):
    """The median of `count` steps, in seconds."""
    return statistics.median(window(step, 1) for _ in range(count))
