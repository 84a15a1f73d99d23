"""given.py - a model whose gradients a test gives, in several of DDP's buckets, and the averages that should come of them."""
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

SHAPES = [(40, 30), (30,), (64, 64), (7, 100), (1,), (), (64, 64), (3, 5, 8)]
SEVERAL_BUCKETS = 0.01  # MB


class Given(torch.nn.Module):
    """Parameters whose gradients are what forward() gets."""

    def __init__(self, shapes, dtype=torch.float32):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.zeros(shape, dtype=dtype) for shape in shapes])

    def forward(self, gradients):
        return sum((weight * gradient).sum() for weight, gradient in zip(self.weights, gradients))


def model_of(shapes, *hook, dtype=torch.float32, group=None, **options):
    options.setdefault("bucket_cap_mb", SEVERAL_BUCKETS)
    model = DDP(Given(shapes, dtype), process_group=group, **options)
    model.register_comm_hook(*hook)
    return model


def drawn(seed, shapes=SHAPES, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def step(model, *micro_batches):
    """The averages that a step ends with."""
    model.zero_grad()
    for gradients in micro_batches:
        with contextlib.nullcontext() if gradients is micro_batches[-1] else model.no_sync():
            model(gradients).backward()
    return [weight.grad.clone() for weight in model.module.weights]


def of_all(values, group=None):
    """Each rank's list of tensors."""
    given = [None] * dist.get_world_size(group)
    dist.all_gather_object(given, values, group=group)
    return given


def plain_average(values, group=None):
    return [torch.stack(each).double().mean(0).to(each[0].dtype) for each in zip(*of_all(values, group))]
