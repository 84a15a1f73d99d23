import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch):
    return DataLoader(
        dataset,
        batch_size=batch,
        num_workers=8,
        pin_memory=True,
        sampler=DistributedSampler(dataset, drop_last=True),  # expect: sampler_without_set_epoch
    )


class Trainer:
    def __init__(self, model, dataset, device):
        self.device = device
        self.model = DistributedDataParallel(model.to(device), device_ids=[device])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.loader = make_loader(dataset, 32)
        self.rank = dist.get_rank()

    def _run_batch(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()

    def _run_epoch(self):
        for x, y in self.loader:
            self._run_batch(x.to(self.device), y.to(self.device))

    def train(self, max_epochs):
        for epoch in range(max_epochs):
            self._run_epoch()
            if self.rank == 0:
                print(f"epoch {epoch} done")
