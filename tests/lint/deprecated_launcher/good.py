"""Started by torchrun. The text below is a text, not a call:
python -m torch.distributed.launch --nproc_per_node=8 train.py
"""
# launch: OMP_NUM_THREADS=4 python -m torch.distributed.run --nproc-per-node 8 train.py
import os
import subprocess

import torch


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    print("this used to be torch.distributed.launch")
    subprocess.run(["torchrun", "--version"], check=False)


if __name__ == "__main__":
    main()
