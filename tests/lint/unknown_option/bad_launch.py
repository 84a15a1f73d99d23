"""The launch line has an option that torchrun does not know."""
# launch: OMP_NUM_THREADS=4 torchrun --nnodes 1 --procs-per-node 8 train.py
# expect-launch: unknown_option
import torch


def main():
    weights = torch.zeros(10)
    print(weights.sum())


if __name__ == "__main__":
    main()
