import torch
from torch import nn
from torch.utils.data import DataLoader

from images import Folder


def main():
    loader = DataLoader(Folder("images"), batch_size=32, shuffle=True, pin_memory=True)  # expect: no_loader_workers
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
        print(epoch)


if __name__ == "__main__":
    main()
