import torch
from torch import nn


class Trainer:
    def __init__(self, model, optimizers):
        self.model, self.optimizers = model, optimizers
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.finish()

    def finish(self):
        self.scaler.update()
        for optimizer in self.optimizers:
            optimizer.zero_grad()
