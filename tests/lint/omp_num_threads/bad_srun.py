"""Under srun every rank starts as many threads as there are cores."""
# launch: NCCL_DEBUG=WARN srun -n 16 python train.py
# expect-launch: omp_num_threads
import torch


def main():
    print(torch.get_num_threads())


if __name__ == "__main__":
    main()
