import time

import torch


def measure(model, x, warm_up=5, repeats=50):
    for _ in range(warm_up):
        model(x.cuda())
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        model(x.cuda())
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def once_warm(model, x):
    model(x.cuda())
    torch.cuda.synchronize()
    start = time.perf_counter()
    model(x.cuda())
    torch.cuda.synchronize()
    return time.perf_counter() - start
