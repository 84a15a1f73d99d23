"""Old and new options that exist, in some release or other; and names that only look like torch's."""
# launch: OMP_NUM_THREADS=4 torchrun --standalone --nproc_per_node=8 --rdzv-backend c10d train.py --fast --procs 3
import torch
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader


class Adam:
    """Not torch's."""

    def __init__(self, params, compression=None):
        self.params, self.compression = list(params), compression


def make(dataset, device, options):
    model = nn.Linear(16, 16).to(device)
    ddp = DDP(model, device_ids=[device], gradient_as_bucket_view=True, check_reduction=False, static_graph=True)
    first = optim.AdamW(ddp.parameters(), lr=1e-3, fused=True, amsgrad=False)
    second = Adam(ddp.parameters(), compression="fp16")
    schedule = optim.lr_scheduler.StepLR(first, step_size=10, verbose=False)
    loader = DataLoader(dataset, batch_size=64, num_workers=4, prefetch_factor=4, persistent_workers=True, **options)
    compiled = torch.compile(ddp, mode="max-autotune", dynamic=False)
    return compiled, first, second, schedule, loader
