import os
from datetime import timedelta

import torch
import torch.distributed as dist


def save(model, path):
    rank = dist.get_rank()
    if rank == 0:
        torch.save(model.state_dict(), path)
        dist.barrier()  # expect: collective_on_some_ranks


def main(model):
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", timeout=timedelta(minutes=5), device_id=device)
    save(model.to(device), "model.pt")
    dist.destroy_process_group()
