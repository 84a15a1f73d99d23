import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def main(model, device_id):
    model = FSDP(model, device_id=device_id)
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "model.pt")  # expect: collective_on_some_ranks
