import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from zoo import build


def made_here(local_rank):
    model = nn.Linear(16, 4)
    model.to(local_rank)
    model = DDP(model, device_ids=[local_rank])
    return model.to(torch.bfloat16)


def made_elsewhere(model, local_rank):
    ddp = DDP(model, device_ids=[local_rank])
    return ddp.to(local_rank)


def on_device(local_rank):
    with torch.device("cuda", local_rank):
        model = build("vit")
    ddp = DDP(model, device_ids=[local_rank])
    inputs = torch.randn(2, 3, 224, 224).to(local_rank)
    return ddp(inputs)
