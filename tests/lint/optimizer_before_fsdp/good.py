import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import fully_shard

from model import Transformer


def second(args):
    model = Transformer(args)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=args.lr)


def first(args, use_fsdp):
    model = Transformer(args)
    if use_fsdp:
        model = FSDP(model, device_id=args.local_rank)
        optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    return model, optimizer
