import torch
from torch.distributed.fsdp import fully_shard

from model import Transformer


def main(args):
    model = Transformer(args)
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1}]
    optimizer = torch.optim.AdamW([{"params": model.parameters()}], lr=args.lr)  # expect: optimizer_before_fsdp
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model, optimizer, groups
