import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, device, accumulation_steps=8):
    model = DDP(model.to(device), device_ids=[device])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    criterion = nn.CrossEntropyLoss()
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x.to(device)), y.to(device)) / accumulation_steps
        loss.backward()  # expect: accumulation_without_no_sync
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
