"""A SHARP threshold that NCCL itself does not know."""
import os

import torch

os.environ["NCCL_COLLNET_ENABLE"] = "1"
os.environ["NCCL_SHARP_GROUP_SIZE_THRESH"] = "4"  # expect: misplaced_variable


def main():
    torch.manual_seed(1)
    print(torch.randn(2))


if __name__ == "__main__":
    main()
