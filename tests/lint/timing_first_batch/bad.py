import time

import torch

from zoo import build


def main(loader):
    model = build("resnet50").cuda()
    x, _ = next(iter(loader))
    x = x.cuda()
    torch.cuda.synchronize()
    start = time.time()
    output = model(x)
    torch.cuda.synchronize()
    print("a batch takes", time.time() - start, output.shape)  # expect: timing_first_batch
