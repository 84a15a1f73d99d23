import torch
from torch import nn


def train(model, loader):
    model = nn.DataParallel(model).cuda()  # expect: data_parallel
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
