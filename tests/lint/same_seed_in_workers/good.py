"""Seeds that differ: from torch's own, which differs in each worker, and from the rank."""
import random

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms


def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


class Repeatable(Dataset):
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        random.seed(index)
        return random.random()


def loader(folder, batch, seed):
    torch.manual_seed(seed + dist.get_rank())
    dataset = datasets.ImageFolder(folder, transforms.Compose([transforms.RandomCrop(32), transforms.ToTensor()]))
    return DataLoader(dataset, batch_size=batch, sampler=DistributedSampler(dataset), num_workers=8, worker_init_fn=seed_worker)
