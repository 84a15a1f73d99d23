"""all_reduce of ordinary float32 tensors through torch.distributed: torchrun --nproc-per-node N torch_allreduce.py BACKEND BYTES...

Rank 0 prints `bytes microseconds` for each size: the median of 7 windows.
"""
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch_backend import open_group

WINDOWS = 7
WINDOW_S = 0.05


def window(x, calls):
    dist.barrier()
    began = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(x)
    return (time.perf_counter() - began) / calls


rank, _ = open_group(sys.argv[1])
for nbytes in map(int, sys.argv[2:]):
    x = torch.zeros(nbytes // 4)
    window(x, 2)
    seconds = torch.tensor([window(x, 4)])
    dist.broadcast(seconds, 0)
    calls = max(4, min(2000, int(WINDOW_S / seconds.item())))
    times = [window(x, calls) for _ in range(WINDOWS)]
    if rank == 0:
        print(f"{nbytes} {statistics.median(times) * 1e6:.3f}", flush=True)
dist.destroy_process_group()
