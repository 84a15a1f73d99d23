import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms


def loader(folder, batch):
    crop = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    dataset = datasets.ImageFolder(folder, crop)
    return DataLoader(dataset, batch_size=batch, sampler=DistributedSampler(dataset), num_workers=8, pin_memory=True)


def main(args):
    torch.manual_seed(args.seed)  # expect: same_seed_in_workers
    world_size = dist.get_world_size()
    return loader(args.data, args.batch // world_size)
