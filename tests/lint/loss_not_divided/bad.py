import torch
from torch import nn


def train(model, loader, device, accumulation_steps=16):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    optimizer.zero_grad()
    for step, (x, y) in enumerate(loader, 1):
        output = model(x.to(device))
        loss = criterion(output, y.to(device))
        loss.backward()  # expect: loss_not_divided
        if step % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
