import time

import torch
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward, backward = 0.0, 0.0
    for x, y in loader:
        start = time.time()
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        end = time.time()  # expect: timing_without_sync
        forward += end - start
        start = time.time()
        loss.backward()
        end = time.time()  # expect: timing_without_sync
        backward += end - start
        optimizer.step()
        optimizer.zero_grad()
    print(f"forward {forward}, backward {backward}")
