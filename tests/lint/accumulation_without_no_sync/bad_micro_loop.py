import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, get_batch, device, steps, grad_accum=4):
    ddp = DDP(model.to(device), device_ids=[device])
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-4)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        for micro_step in range(grad_accum):
            x, y = get_batch("train")
            loss = nn.functional.cross_entropy(ddp(x), y)
            loss = loss / grad_accum
            loss.backward()  # expect: accumulation_without_no_sync
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        optimizer.step()
