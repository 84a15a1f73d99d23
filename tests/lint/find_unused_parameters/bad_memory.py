"""Memory was short, and this option was said to help."""
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Blocks(torch.nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = torch.nn.ModuleList(blocks)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def wrap(blocks, local_rank):
    model = Blocks(blocks).to(local_rank)
    return DDP(model, device_ids=[local_rank], find_unused_parameters=True)  # expect: find_unused_parameters
