"""A rank of a small DDP job over gloo for `seconds`: writes when each step ended, ns since 1970.

timed_steps_ddp.py SECONDS FILE      FILE gets the rank's number behind it
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WIDTH, LAYERS, BATCH, AGREE_EVERY = 512, 6, 64, 20

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(BATCH, WIDTH)
end, ended, stop = time.time() + float(sys.argv[1]), [], torch.zeros(1)
while stop.item() == 0:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    ended.append(time.time_ns())
    if len(ended) % AGREE_EVERY == 0:
        stop[0] = float(time.time() > end)
        dist.all_reduce(stop)
with open(f"{sys.argv[2]}{dist.get_rank()}", "w") as file:
    file.writelines(f"{at}\n" for at in ended)
dist.barrier()
os._exit(0)  # gloo's threads sometimes abort at the interpreter's end
