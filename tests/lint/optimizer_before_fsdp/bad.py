import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def make(width, local_rank):
    model = nn.Sequential(*[nn.Linear(width, width) for _ in range(8)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)  # expect: optimizer_before_fsdp
    model = FSDP(model, device_id=local_rank)
    return model, optimizer
