import torch
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, model, gpu_id):
        self.gpu_id = gpu_id
        self.model = DDP(model.to(gpu_id), device_ids=[gpu_id])

    def _save(self, epoch):
        torch.save({"model": self.model.module.state_dict(), "epoch": epoch}, "snapshot.pt")  # expect: save_on_all_ranks

    def train(self, epochs, run_epoch):
        for epoch in range(epochs):
            run_epoch(self.model, epoch)
            if epoch % 5 == 0:
                self._save(epoch)
