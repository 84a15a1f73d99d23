import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, device):
    model = DDP(model.to(device), device_ids=[device])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        with model.no_sync():  # expect: no_sync_on_last
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
