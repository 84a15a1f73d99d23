"""Set in the file of settings."""
# launch: torchrun --standalone --nproc-per-node 8 train.py
# env: OMP_NUM_THREADS=12
import torch


def main():
    print(torch.get_num_threads())


if __name__ == "__main__":
    main()
