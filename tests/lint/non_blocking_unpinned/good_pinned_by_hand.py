import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader


def batches(data, device):
    for i in range(0, len(data), 64):
        x = torch.from_numpy(np.asarray(data[i : i + 64]))
        yield x.pin_memory().to(device, non_blocking=True)


def train(data, validation, device="cuda"):
    model = nn.Linear(64, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(data, device):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [model(x.to(device)).mean() for x in DataLoader(validation, batch_size=64, num_workers=2)]
