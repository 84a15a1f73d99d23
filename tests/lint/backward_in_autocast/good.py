import torch
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ctx = torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.set_grad_enabled(True), ctx:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()


def full_precision(model, x, y):
    with torch.autocast("cuda", enabled=False):
        nn.functional.mse_loss(model(x), y).backward()
