"""Steps of a multilayer perceptron (4 x 4096, batch 16, SGD): torchrun --nproc-per-node N torch_mlp.py BACKEND

Rank 0 prints one JSON line: median_step_ms, local_step_ms (the same step without communication).
"""
import argparse
import json

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch_backend import open_group, timed

WARM_UP = 4


def main():
    p = argparse.ArgumentParser()
    p.add_argument("backend")
    p.add_argument("--width", type=int, default=4096)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--steps", type=int, default=20)
    a = p.parse_args()
    rank, _ = open_group(a.backend)
    torch.manual_seed(rank)
    layers = [layer for _ in range(a.layers) for layer in (torch.nn.Linear(a.width, a.width), torch.nn.ReLU())]
    model = DDP(torch.nn.Sequential(*layers[:-1]), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(a.batch, a.width), torch.randn(a.batch, a.width)

    def step():
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    timed(step, WARM_UP)
    median = timed(step, a.steps)
    with model.no_sync():
        local = timed(step, 5)
    if rank == 0:
        print(json.dumps({"median_step_ms": median * 1e3, "local_step_ms": local * 1e3}), flush=True)
    dist.destroy_process_group()


main()
