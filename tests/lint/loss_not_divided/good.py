"""Divided in one way or another, or a sum from the beginning."""
import torch
from torch import nn


def divided(model, loader, device, accumulation_steps=16):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for step, (x, y) in enumerate(loader, 1):
        loss = criterion(model(x.to(device)), y.to(device))
        loss /= accumulation_steps
        loss.backward()
        if step % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def in_place(model, loader, device, accumulation_steps=16):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(loader, 1):
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        (loss * (1.0 / accumulation_steps)).backward()
        if step % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def summed(model, loader, device, accumulation_steps=16):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for step, (x, y) in enumerate(loader, 1):
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device), reduction="sum")
        loss.backward()
        if step % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
