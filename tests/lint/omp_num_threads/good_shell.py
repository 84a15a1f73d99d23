"""What a shell script sets is not known; and torchrun under srun is told."""
# launch: ./run.sh --gpus 8 train.py
import torch

print(torch.get_num_threads())
