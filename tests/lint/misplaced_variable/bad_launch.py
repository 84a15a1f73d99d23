"""Ranks set by hand under torchrun."""
# launch: OMP_NUM_THREADS=4 WORLD_SIZE=16 torchrun --nproc-per-node 8 train.py
# expect-launch: misplaced_variable
import torch

print(torch.zeros(1))
