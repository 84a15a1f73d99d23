"""GPT-2 trained with plain PyTorch DDP, or FSDP2, written the way PyTorch's own tutorials do.

torchrun --nproc-per-node 2 gpt2_ddp.py --tokens FILE.bin [--batch 4 --seq 64 --steps 6 --width 768 --layers 12 --heads 12
                                        --vocab 50257] [--bucket-mb 25] [--compile] [--backend gloo] [--amp bf16] [--fsdp]
FILE.bin: uint16 tokens. Rank 0 prints one JSON line: median_step_ms, tokens_per_s of all ranks, comm_share, which is
1 - (time of a step without synchronisation / time of a step); --fsdp has no such step.
"""
import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
from torch_backend import open_group, timed

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/torch"))
from reference import Config, new_model  # noqa: E402

WARM_UP = 3


def main():
    p = argparse.ArgumentParser()
    for name, default in dict(batch=4, seq=64, steps=6, vocab=50257, width=768, layers=12, heads=12).items():
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--bucket-mb", type=float, default=25)
    p.add_argument("--compile", action="store_true")
    p.add_argument("--backend", default="gloo")
    p.add_argument("--amp", choices=["bf16"])
    p.add_argument("--fsdp", action="store_true")
    p.add_argument("--tokens", required=True)
    a = p.parse_args()

    rank, world = open_group(a.backend)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // world))
    net = new_model(Config(layers=a.layers, width=a.width, heads=a.heads, seq=a.seq, vocab=a.vocab))
    if a.fsdp:
        mesh = dist.init_device_mesh("cpu", (world,))
        for block in net.blocks:
            fully_shard(block, mesh=mesh)
        model = fully_shard(net, mesh=mesh)
    else:
        model = DDP(net, bucket_cap_mb=a.bucket_mb, gradient_as_bucket_view=True)
    forward = torch.compile(model) if a.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    tokens = np.memmap(a.tokens, dtype=np.uint16, mode="r")
    draw = torch.Generator().manual_seed(1234 + rank)

    def batch():
        starts = torch.randint(len(tokens) - a.seq - 1, (a.batch,), generator=draw).tolist()
        rows = torch.stack([torch.from_numpy(tokens[s:s + a.seq + 1].astype(np.int64)) for s in starts])
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.amp == "bf16"):
            loss = forward(*batch())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    timed(step, WARM_UP)
    median = timed(step, a.steps)
    found = {"median_step_ms": median * 1e3, "tokens_per_s": world * a.batch * a.seq / median}
    if not a.fsdp:
        with model.no_sync():
            found["comm_share"] = max(0.0, 1 - timed(step, 3) / median)
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


main()
