from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def make(local_rank):
    model = nn.Linear(1024, 1024).to(local_rank)
    model.compile(mode="max-autotune")  # expect: compile_before_ddp
    return DDP(model, device_ids=[local_rank])
