"""DistributedDataParallel with all it offers: 20 steps of training, compared with the same steps over gloo.

Two ranks: every sum has two terms, so losses and weights agree bit for bit. Four: to 1e-6. All checks of a backend share one set
of ranks.
"""
import contextlib
import functools

import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 20
WIDTH = 64


class Net(torch.nn.Module):
    """Two branches, so that a step may leave parameters out."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(WIDTH, WIDTH)
        self.left = torch.nn.Linear(WIDTH, WIDTH)
        self.right = torch.nn.Linear(WIDTH, WIDTH)
        self.last = torch.nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x, way="both"):
        x = torch.tanh(self.first(x))
        if way != "right":
            x = torch.tanh(self.left(x))
        if way != "left":
            x = torch.tanh(self.right(x))
        return self.last(x)


def train(rank, way=lambda step: "both", hook=None, compiled=False, accumulate=1, steps=STEPS, context=contextlib.nullcontext,
          group=None, **options):
    """Losses of the steps, and the weights' bytes at the end."""
    torch.manual_seed(5)
    options.setdefault("bucket_cap_mb", 0.03)  # several buckets
    model = DDP(Net(), process_group=group, **options)
    if hook:
        model.register_comm_hook(*hook())
    call = torch.compile(model, backend="aot_eager") if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    draw = torch.Generator().manual_seed(100 + rank)
    losses = []
    with context(model):
        for step in range(steps):
            for part in range(accumulate):
                with contextlib.nullcontext() if part == accumulate - 1 else model.no_sync():
                    x = torch.randn(8, WIDTH, generator=draw)
                    loss = (call(x, way(step)) - x.sum(1, keepdim=True).sign()).square().mean() / accumulate
                    loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses, torch.cat([p.detach().flatten() for p in model.parameters()]).numpy().tobytes()


def torch_powersgd():
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=3, min_compression_rate=1)
    return state, powerSGD_hook.powerSGD_hook


def with_debug(rank, store):
    """What TORCH_DISTRIBUTED_DEBUG=DETAIL does: PyTorch compares the ranks' calls before each one, over a group of its own."""
    import tandem_torch  # noqa: F401
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.init_process_group("tandem", init_method=f"file://{store}", rank=rank, world_size=2)
    return train(rank)


CHECKS = {
    "plain": train,
    "one bucket": functools.partial(train, bucket_cap_mb=25),
    "bucket view": functools.partial(train, gradient_as_bucket_view=True),
    "static graph": functools.partial(train, static_graph=True),
    "no sync": functools.partial(train, accumulate=3),
    "unused everywhere": functools.partial(train, way=lambda step: ("left", "both")[step % 2], find_unused_parameters=True),
    "unused here": lambda rank: train(rank, lambda step: ("left", "right")[(step + rank) % 2], find_unused_parameters=True),
    "join": lambda rank: train(rank, steps=STEPS - 3 * rank, context=lambda model: model.join()),
    "join, initial divisor": lambda rank: train(rank, steps=5 + rank, context=lambda model: model.join(divide_by_initial_world_size=True)),
    "compiled": functools.partial(train, compiled=True, bucket_cap_mb=25),
    "hook allreduce": functools.partial(train, hook=lambda: (None, default_hooks.allreduce_hook)),
    "hook fp16": functools.partial(train, hook=lambda: (None, default_hooks.fp16_compress_hook)),
    # PyTorch's PowerSGD makes collectives in callbacks, in no order among buckets: one bucket.
    "hook powersgd": functools.partial(train, hook=torch_powersgd, bucket_cap_mb=25),
}
# On four ranks: gloo rounds halves after every addition, and orthogonalising magnifies the last bits.
TOLERANCES = {"hook fp16": 2e-2, "hook powersgd": 1e-4}
UNEQUAL_STEPS = {"join", "join, initial divisor"}


def body(rank):
    return {name: check(rank) for name, check in CHECKS.items()}


@pytest.fixture(scope="module", params=[2, 4])
def trained(request):
    """What each backend's ranks found: {backend: [rank's results]}."""
    return {backend: on_ranks(request.param, body, backend=backend, limit_s=100) for backend in ("gloo", "tandem")}


@pytest.mark.parametrize("name", CHECKS)
def test_training_equals_gloos(trained, name):
    own, other = trained["tandem"], trained["gloo"]
    ranks = len(own)
    for rank in range(ranks):
        losses, weights = own[rank][name]
        expected, expected_weights = other[rank][name]
        assert len(losses) == len(expected)
        assert weights == own[0][name][1], "ranks differ"
        if ranks == 2:
            assert losses == expected
            assert weights == expected_weights
        else:
            tolerance = TOLERANCES.get(name, 1e-6)
            assert losses == pytest.approx(expected, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("name", CHECKS)
def test_training_trains(trained, name):
    found = [rank[name] for rank in trained["tandem"]]
    if name not in UNEQUAL_STEPS:
        assert sum(found[0][0][-5:]) < sum(found[0][0][:5])


def test_training_under_debug_detail(tmp_path):
    """Beside plain steps: PyTorch 2.13's reducer does not survive this level over gloo."""
    own, plain = on_ranks(2, with_debug, tmp_path / "store", init=False), on_ranks(2, train)
    assert own == plain
