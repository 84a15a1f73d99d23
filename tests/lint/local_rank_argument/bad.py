"""Written for the old launcher, which passed the local rank as an argument."""
import argparse

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--local_rank", type=int, default=0)  # expect: local_rank_argument
    args = parser.parse_args()
    torch.cuda.set_device(args.local_rank)
    print(args.epochs)


if __name__ == "__main__":
    main()
