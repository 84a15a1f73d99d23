import time

import torch
from torch import nn


def measure(model, loader):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for x, y in loader:
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        break
    torch.cuda.synchronize()
    return time.perf_counter() - start  # expect: timing_first_batch
