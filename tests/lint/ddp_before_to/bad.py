import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def make(local_rank):
    torch.cuda.set_device(local_rank)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    model = DDP(model, device_ids=[local_rank])
    model.to(local_rank)  # expect: ddp_before_to
    return model
