import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def make(train_set, val_set, local_rank):
    train = DataLoader(train_set, batch_size=64, sampler=DistributedSampler(train_set), num_workers=4, pin_memory=True)
    val = DataLoader(val_set, batch_size=1, num_workers=4, pin_memory=True)
    return train, val, DDP(torchvision.models.resnet18().to(local_rank), device_ids=[local_rank])
