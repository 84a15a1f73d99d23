"""From init_process_group to the first all_reduce done, imports not counted: torchrun --nproc-per-node N torch_start.py BACKEND

The ranks wait for each other before; rank 0 prints the milliseconds from the first that begins to the last that is done.
"""
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch_backend import load

LIMIT = timedelta(seconds=60)

load(sys.argv[1])
torch.set_num_threads(1)
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=LIMIT)
x = torch.ones(2)


def all_here(name):
    if store.add(f"bench/{name}", 1) == ranks:
        store.set(f"bench/{name}/all", "1")
    store.wait([f"bench/{name}/all"], LIMIT)


all_here("ready")
began = time.monotonic()
dist.init_process_group(sys.argv[1])
dist.all_reduce(x)
store.set(f"bench/times/{rank}", f"{began} {time.monotonic()}")
times = [tuple(map(float, store.get(f"bench/times/{r}").split())) for r in range(ranks)] if rank == 0 else []
if rank == 0:
    print(f"{(max(end for _, end in times) - min(start for start, _ in times)) * 1e3:.3f}", flush=True)
all_here("read")
dist.destroy_process_group()
