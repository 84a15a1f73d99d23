import torch
from torch import nn


def train(model, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.cuda.empty_cache()
    for _ in range(epochs):
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
            if step % 1000 == 0:
                torch.cuda.empty_cache()
        torch.cuda.empty_cache()
