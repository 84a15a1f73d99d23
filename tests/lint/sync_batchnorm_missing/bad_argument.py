import argparse

import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def make(dataset, local_rank):
    parser = argparse.ArgumentParser()
    parser.add_argument("-b", "--batch-size", type=int, default=4)
    args = parser.parse_args()
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=DistributedSampler(dataset), num_workers=4)
    model = torchvision.models.resnet50().to(local_rank)
    model = DDP(model, device_ids=[local_rank])  # expect: sync_batchnorm_missing
    return loader, model
