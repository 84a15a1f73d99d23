"""src/compress/powersgd.c beside PyTorch's powerSGD_hook: the same gradients, the same first factors, two ranks over gloo."""
import ctypes
import os
from pathlib import Path

import torch
import torch.distributed as dist
from reference import start_ranks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel as DDP

LIBRARY = Path(os.environ.get("TDM_BUILD", Path(__file__).parents[2] / "build")) / "libtandem.so"
RANKS, STEPS, LIMIT = 2, 8, 3
POWERSGD = 3


class Part(ctypes.Structure):
    _fields_ = [("first", ctypes.c_size_t), ("count", ctypes.c_size_t), ("rows", ctypes.c_size_t)]


class Compression(ctypes.Structure):
    _fields_ = [("codec", ctypes.c_int), ("rank", ctypes.c_int), ("min_saving", ctypes.c_double), ("fraction", ctypes.c_double),
                ("warmup", ctypes.c_int), ("seed", ctypes.c_uint64)]


def address(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class Codec:
    """The C codec of one bucket; the averages between its phases go over gloo."""

    def __init__(self, shapes):
        self.c = ctypes.CDLL(LIBRARY)
        self.c.tdm_powersgd_factor.restype = ctypes.c_void_p
        parts, at = (Part * len(shapes))(), 0
        for part, shape in zip(parts, shapes):
            part.first, part.count, part.rows = at, shape.numel(), shape[0] if len(shape) == 2 else 0
            at += shape.numel()
        self.handle = ctypes.c_void_p()
        compression = Compression(codec=POWERSGD, rank=LIMIT, min_saving=2)
        assert self.c.tdm_powersgd_create(parts, len(parts), ctypes.byref(compression), ctypes.byref(self.handle)) == 0
        first, second = ctypes.c_size_t(), ctypes.c_size_t()
        self.c.tdm_powersgd_sizes(self.handle, ctypes.byref(first), ctypes.byref(second))
        self.first, self.second, self.residual = (torch.zeros(n) for n in (first.value, second.value, at))

    def factor(self, part):
        """Q of a part, transposed, as a view; None where it travels whole."""
        count = ctypes.c_size_t()
        at = self.c.tdm_powersgd_factor(self.handle, part, ctypes.byref(count))
        return torch.frombuffer((ctypes.c_float * count.value).from_address(at), dtype=torch.float32) if at else None

    def step(self, gradient):
        self.c.tdm_powersgd_begin(self.handle, address(gradient), address(self.residual), address(self.first))
        self.average(self.first)
        self.c.tdm_powersgd_middle(self.handle, address(gradient), address(self.first), address(self.second))
        self.average(self.second)
        self.c.tdm_powersgd_end(self.handle, address(gradient), address(self.residual), address(self.first), address(self.second))

    @staticmethod
    def average(x):
        dist.all_reduce(x)
        x /= RANKS


def steps_of_torch(rank):
    """[(shapes, own gradient, factors and error before, averaged gradient)] of the steps that PyTorch's hook compresses warm."""
    torch.manual_seed(1)
    ddp = DDP(torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.ReLU(), torch.nn.Linear(60, 50)))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=LIMIT, start_powerSGD_iter=2, min_compression_rate=2)
    seen = []

    def hook(state, bucket):
        before = [x[bucket.index()].clone() for x in (state.q_memory_dict, state.error_dict) if bucket.index() in x]
        shapes, own = [g.shape for g in bucket.gradients()], bucket.buffer().clone()

        def note(future):
            average = future.value()
            if before:
                seen.append((shapes, own, *before, average.clone()))
            return average

        return powerSGD_hook.powerSGD_hook(state, bucket).then(note)

    ddp.register_comm_hook(state, hook)
    generator = torch.Generator().manual_seed(10 + rank)
    for _ in range(STEPS + 3):  # two plain ones, and the one that draws the first factors
        ddp.zero_grad()
        (ddp(torch.randn(16, 40, generator=generator)) ** 2).mean().backward()
    return seen


def begin_as(codec, shapes, factors, error):
    codec.residual.copy_(error)
    at = 0
    for i, shape in enumerate(shapes):
        own = codec.factor(i)
        if own is not None:  # PyTorch's lie one behind the other, [columns, k]
            own.copy_(factors[at:at + own.numel()].view(shape[1], -1).t().reshape(-1))
            at += own.numel()
    assert at == factors.numel() > 0


def compare(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    seen = steps_of_torch(rank)
    assert len(seen) == STEPS
    shapes = seen[0][0]
    codec = Codec(shapes)
    begin_as(codec, shapes, *seen[0][2:4])
    for _, own, _, error, average in seen:
        # Of what travels whole PyTorch keeps how far this rank is from the average: that adds up to 0 over the ranks.
        compressed = torch.cat([torch.full((shape.numel(),), len(shape) == 2) for shape in shapes])
        torch.testing.assert_close(codec.residual[compressed], error[compressed], rtol=1e-3, atol=1e-6)
        codec.step(own)
        torch.testing.assert_close(own, average, rtol=1e-3, atol=1e-6)
    dist.destroy_process_group()


def test_each_step_is_that_of_torchs_hook(tmp_path):
    start_ranks(compare, (tmp_path / "store",), RANKS)
