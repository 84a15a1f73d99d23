import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, device, log_every=100):
    """The step is in every turn; only the log is not."""
    model = DDP(model.to(device), device_ids=[device])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        if i % log_every == 0:
            print(i, loss.item())
