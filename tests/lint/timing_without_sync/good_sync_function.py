import time

import torch


def measure(model, loader, warm_up, cuda):
    times = []
    sync = torch.cuda.synchronize if cuda else (lambda: None)
    for x in loader:
        sync()
        start = time.time()
        model(x.to("cuda"))
        sync()
        times.append(time.time() - start)
    return times[warm_up:]
