import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def save(model, path):
    torch.save(model.module.state_dict(), path)  # expect: save_on_all_ranks


def train(model, gpu, epochs, run_epoch):
    model = DDP(model.to(gpu), device_ids=[gpu])
    for epoch in range(epochs):
        run_epoch(model)
        save(model, "last.pt")
