import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class DataParallel(nn.Module):
    """Not torch's: runs a module as it is."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


def wrap(model, gpu, single):
    torch.cuda.set_device(gpu)
    model = model.to(gpu)
    return DataParallel(model) if single else DistributedDataParallel(model, device_ids=[gpu])
