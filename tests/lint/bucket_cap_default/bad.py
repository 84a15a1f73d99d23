from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(model, local_rank):
    return DDP(model.to(local_rank), device_ids=[local_rank], bucket_cap_mb=25)  # expect: bucket_cap_default
