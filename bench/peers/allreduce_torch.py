"""allreduce through torch.distributed over gloo: float32, sum, in place.

torchrun --nproc-per-node N allreduce_torch.py BYTES...    prints a line `bytes median_us` for each size.
"""
import statistics
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
for size in map(int, sys.argv[1:]):
    x = torch.zeros(size // 4)
    calls = 1000 if size <= 16384 else 100 if size <= 1 << 20 else 20 if size <= 4 << 20 else 6
    times = []
    for _ in range(7):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(x)
        times.append((time.perf_counter() - start) / calls)
    if dist.get_rank() == 0:
        print(f"{size:10d} {statistics.median(times) * 1e6:12.2f}", flush=True)
dist.destroy_process_group()
