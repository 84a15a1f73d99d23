"""Workers where there is something to load; tensors in memory need none."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from images import Folder


def main(args):
    tensors = TensorDataset(torch.randn(1024, 16), torch.randint(0, 10, (1024,)))
    small = DataLoader(tensors, batch_size=32, shuffle=True)
    large = DataLoader(Folder("images"), batch_size=32, num_workers=args.workers, pin_memory=True)
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for loader in (small, large):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
