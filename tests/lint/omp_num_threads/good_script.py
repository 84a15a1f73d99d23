"""Set by the script itself; one rank needs nothing."""
# launch: torchrun --nproc-per-node=8 train.py
import os

import torch


def main():
    torch.set_num_threads(max(1, os.cpu_count() // 8))
    print(torch.get_num_threads())


if __name__ == "__main__":
    main()
