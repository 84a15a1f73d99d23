import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, get_batch, device, steps, grad_accum=4, ddp=True):
    if ddp:
        model = DDP(model.to(device), device_ids=[device])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        for micro_step in range(grad_accum):
            if ddp:
                model.require_backward_grad_sync = micro_step == grad_accum - 1
            x, y = get_batch("train")
            logits, loss = model(x, y)
            loss = loss / grad_accum
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
