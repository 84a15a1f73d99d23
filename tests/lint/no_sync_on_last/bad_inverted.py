from contextlib import nullcontext

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, device, accumulation_steps=8):
    model = DDP(model.to(device), device_ids=[device])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for i, (x, y) in enumerate(loader):
        with model.no_sync() if (i + 1) % accumulation_steps == 0 else nullcontext():  # expect: no_sync_on_last
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            (loss / accumulation_steps).backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
