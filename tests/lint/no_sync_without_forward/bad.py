import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, device, k=4):
    model = DDP(model.to(device), device_ids=[device])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        output = model(x.to(device))
        loss = nn.functional.cross_entropy(output, y.to(device)) / k
        if (i + 1) % k != 0:
            with model.no_sync():  # expect: no_sync_without_forward
                loss.backward()
        else:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
