"""all_reduce of ordinary float32 tensors through torch.distributed: torchrun --nproc-per-node N torch_allreduce.py BACKEND BYTES...

Rank 0 prints `bytes microseconds` for each size: the median of 7 windows.
"""
import functools
import statistics
import sys

import torch
import torch.distributed as dist
from torch_backend import open_group, window

WINDOWS = 7
WINDOW_S = 0.05

rank, _ = open_group(sys.argv[1])
for nbytes in map(int, sys.argv[2:]):
    call = functools.partial(dist.all_reduce, torch.zeros(nbytes // 4))
    window(call, 2)
    seconds = torch.tensor([window(call, 4) / 4])
    dist.broadcast(seconds, 0)
    calls = max(4, min(2000, int(WINDOW_S / seconds.item())))
    times = [window(call, calls) / calls for _ in range(WINDOWS)]
    if rank == 0:
        print(f"{nbytes} {statistics.median(times) * 1e6:.3f}", flush=True)
dist.destroy_process_group()
