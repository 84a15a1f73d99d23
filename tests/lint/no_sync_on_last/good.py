import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, device, k=4):
    model = DDP(model.to(device), device_ids=[device])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        if (i + 1) % k != 0:
            with model.no_sync():
                loss = nn.functional.cross_entropy(model(x), y) / k
                loss.backward()
        else:
            loss = nn.functional.cross_entropy(model(x), y) / k
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


def train_in_groups(model, groups, device):
    model = DDP(model.to(device), device_ids=[device])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for group in groups:
        optimizer.zero_grad()
        with model.no_sync():
            for x, y in group[:-1]:
                (nn.functional.cross_entropy(model(x), y) / len(group)).backward()
        x, y = group[-1]
        (nn.functional.cross_entropy(model(x), y) / len(group)).backward()
        optimizer.step()
