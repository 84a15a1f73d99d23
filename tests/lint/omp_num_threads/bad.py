"""Eight ranks, and nobody says how many threads each may have."""
# launch: torchrun --standalone --nproc-per-node 8 train.py --lr 0.1
# expect-launch: omp_num_threads
import torch


def main():
    print(torch.get_num_threads())


if __name__ == "__main__":
    main()
