import torch


def train_one_epoch(model, criterion, optimizer, loader, device, update_freq):
    model.train()
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        loss.backward()  # expect: loss_not_divided
        if (i + 1) % update_freq == 0:
            optimizer.step()
            optimizer.zero_grad()
