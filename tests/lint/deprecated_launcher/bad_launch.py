"""Started by the old launcher."""
# launch: OMP_NUM_THREADS=4 python -m torch.distributed.launch --nproc_per_node=8 train.py
# expect-launch: deprecated_launcher
import os

import torch


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


if __name__ == "__main__":
    main()
