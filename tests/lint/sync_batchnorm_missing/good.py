from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def make(dataset, local_rank):
    loader = DataLoader(dataset, batch_size=2, sampler=DistributedSampler(dataset), num_workers=4, pin_memory=True)
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU())
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model).to(local_rank)
    return loader, DDP(model, device_ids=[local_rank])
