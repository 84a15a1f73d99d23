"""The launch line and the file of settings have one each."""
# launch: OMP_NUM_THREADS=4 NCCL_IB_HCAS=mlx5 torchrun --nproc-per-node 8 train.py
# expect-launch: unknown_variable
# env: NCCL_DEBUG=INFO
# env: TORCHINDUCTOR_MAX_AUTOTUNES=1
# expect-env: unknown_variable 2
import torch


def main():
    print(torch.ones(3).sum())


if __name__ == "__main__":
    main()
