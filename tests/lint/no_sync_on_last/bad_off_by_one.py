import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, device, k=4):
    model = DDP(model.to(device), device_ids=[device])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        if i % k != 0:
            with model.no_sync():  # expect: no_sync_on_last
                loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) / k
                loss.backward()
        else:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) / k
            loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
