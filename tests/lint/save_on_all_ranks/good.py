import io
import os

import torch
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, model):
        self.gpu_id = int(os.environ["LOCAL_RANK"])
        self.rank = int(os.environ["RANK"])
        self.model = DDP(model.to(self.gpu_id), device_ids=[self.gpu_id])

    def _upload(self, state):
        buffer = io.BytesIO()
        torch.save(state, buffer)
        return buffer

    def _save(self, epoch):
        torch.save({"model": self.model.module.state_dict(), "epoch": epoch}, "snapshot.pt")

    def _save_own(self, state):
        torch.save(state, f"random-state-{self.rank}.pt")

    def train(self, epochs, run_epoch):
        for epoch in range(epochs):
            run_epoch(self.model, epoch)
            self._save_own(torch.get_rng_state())
            if self.gpu_id == 0 and epoch % 5 == 0:
                self._save(epoch)
        if self.rank == 0:
            self._upload(self.model.module.state_dict())
