import os

import torch
import torch.distributed as dist


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend="nccl")  # expect: init_without_timeout


if __name__ == "__main__":
    setup()
    dist.destroy_process_group()
