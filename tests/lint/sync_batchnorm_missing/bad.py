from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

BATCH = 2


class Segmenter(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
        self.head = nn.Conv2d(64, classes, 1)

    def forward(self, x):
        return self.head(self.body(x))


def make(dataset, local_rank):
    loader = DataLoader(dataset, batch_size=BATCH, sampler=DistributedSampler(dataset), num_workers=4, pin_memory=True)
    model = Segmenter(21).to(local_rank)
    return loader, DDP(model, device_ids=[local_rank])  # expect: sync_batchnorm_missing
