import time

import torch
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    times = []
    for x, y in loader:
        torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def rolling(model, loader, log_every=10):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    end = time.time()
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        if step % log_every == 0:
            print(time.time() - end)
        end = time.time()


def epoch(model, loader):
    start = time.time()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
    print(f"an epoch took {time.time() - start:.1f} s")
