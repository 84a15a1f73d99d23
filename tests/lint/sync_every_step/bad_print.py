import torch
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss:.4f}")  # expect: sync_every_step
