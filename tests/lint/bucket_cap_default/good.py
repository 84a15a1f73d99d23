from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(model, local_rank, cap):
    model = model.to(local_rank)
    measured = DDP(model, device_ids=[local_rank], bucket_cap_mb=100)
    chosen = DDP(model, device_ids=[local_rank], bucket_cap_mb=cap)
    return measured, chosen, DDP(model, device_ids=[local_rank], gradient_as_bucket_view=True)
