import torch
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    running = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        running += loss.item()  # expect: sync_every_step
    return running / len(loader)
