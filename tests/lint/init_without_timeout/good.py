import os
from datetime import timedelta

import torch
import torch.distributed as dist


def setup_nccl():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", timeout=timedelta(minutes=2), device_id=device)


def setup_gloo():
    dist.init_process_group("gloo", timeout=timedelta(minutes=2))


def setup(**options):
    dist.init_process_group("nccl", **options)
