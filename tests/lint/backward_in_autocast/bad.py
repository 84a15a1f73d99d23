import torch
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()  # expect: backward_in_autocast
        optimizer.step()
