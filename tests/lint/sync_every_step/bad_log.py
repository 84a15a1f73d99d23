import logging

import torch
import torch.distributed as dist
from torch import nn

log = logging.getLogger(__name__)


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            log.info("step %d loss %f", step, loss.item())  # expect: sync_every_step
