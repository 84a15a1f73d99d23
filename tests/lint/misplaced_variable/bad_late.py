import os
from datetime import timedelta

import torch
import torch.distributed as dist

os.environ["OMP_NUM_THREADS"] = "8"  # expect: misplaced_variable


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", timeout=timedelta(minutes=5), device_id=device)
    os.environ["NCCL_SOCKET_IFNAME"] = "eth0"  # expect: misplaced_variable
    total = torch.ones(1, device=device)
    dist.all_reduce(total)
    print(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
