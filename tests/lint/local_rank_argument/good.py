"""Takes the local rank from wherever it comes."""
# launch: OMP_NUM_THREADS=4 torchrun --nproc-per-node 8 train.py
import argparse
import os

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int, default=int(os.environ.get("LOCAL_RANK", 0)))
    args = parser.parse_args()
    torch.cuda.set_device(args.local_rank)


if __name__ == "__main__":
    main()
