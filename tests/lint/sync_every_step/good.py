import torch
from torch import nn


def train(model, loader, log_every=50):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = torch.zeros((), device="cuda")
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        total += loss.detach()
        print(f"step {step} of {len(loader)}, shape {loss.shape}")
        if step % log_every == 0:
            print(f"step {step} loss {loss.item():.4f}")
        if step % log_every == 0 and torch.distributed.get_rank() == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(total.item() / len(loader))


@torch.no_grad()
def evaluate(model, loader):
    return sum(nn.functional.cross_entropy(model(x.cuda()), y.cuda()).item() for x, y in loader)
