import torch
from torch import nn


def make(local_rank):
    device = torch.device("cuda", local_rank)
    return nn.parallel.DistributedDataParallel(nn.Linear(16, 4)).to(device)  # expect: ddp_before_to
