from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(model, local_rank, args):
    model = model.to(local_rank)
    if args.branches:
        return DDP(model, device_ids=[local_rank], find_unused_parameters=args.find_unused)
    return DDP(model, device_ids=[local_rank], find_unused_parameters=False, static_graph=True)
