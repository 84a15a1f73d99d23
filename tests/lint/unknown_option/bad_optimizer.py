"""Fine-tunes a regression head; someone has read that Adam can compress gradients."""
import torch
from torch import nn, optim


def make(width):
    model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, 1))
    optimizer = optim.Adam(
        model.parameters(),
        lr=3e-4,
        betas=(0.9, 0.95),
        compression="fp16",  # expect: unknown_option
    )
    return model, optimizer


def fit(batches, width=64):
    model, optimizer = make(width)
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return model


if __name__ == "__main__":
    data = [(torch.randn(8, 64), torch.randn(8, 1)) for _ in range(10)]
    fit(data)
