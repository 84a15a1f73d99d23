"""shuffle only where there is no sampler."""
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def loaders(train_set, val_set, distributed):
    sampler = DistributedSampler(train_set) if distributed else None
    train = DataLoader(train_set, batch_size=32, shuffle=(sampler is None), sampler=sampler, num_workers=4, pin_memory=True)
    val = DataLoader(val_set, batch_size=64, shuffle=False, sampler=DistributedSampler(val_set, shuffle=False), num_workers=4)
    plain = DataLoader(val_set, batch_size=64, shuffle=True, sampler=None, num_workers=4)
    return train, val, plain
