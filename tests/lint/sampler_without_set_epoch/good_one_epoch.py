"""A validation sampler needs no set_epoch, and a training sampler that does not shuffle neither."""
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def train(train_set, val_set, device, epochs):
    model = DDP(nn.Linear(16, 1).to(device), device_ids=[device])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = DistributedSampler(train_set, shuffle=False)
    val_sampler = DistributedSampler(val_set)
    train_loader = DataLoader(train_set, batch_size=32, sampler=sampler, num_workers=4)
    val_loader = DataLoader(val_set, batch_size=32, sampler=val_sampler, num_workers=4)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        with torch.no_grad():
            total = sum(nn.functional.mse_loss(model(x.to(device)), y.to(device)) for x, y in val_loader)
        print(epoch, total.item())
