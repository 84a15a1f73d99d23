"""Functional collectives and torch.compile on the backend."""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from ranks import on_ranks


def eager(rank):
    group = dist.group.WORLD
    t = torch.arange(4.0) + rank
    seen = {
        "all_reduce": functional.all_reduce(t, "sum", group),
        "all_gather_tensor": functional.all_gather_tensor(t, 0, group),
        "reduce_scatter_tensor": functional.reduce_scatter_tensor(t, "avg", 0, group),
        "broadcast": functional.broadcast(t, 1, group),
        "all_reduce_coalesced": functional.all_reduce_coalesced([t, t + 1], "max", group),
        "all_gather_into_tensor_coalesced": functional.all_gather_into_tensor_coalesced([t, t[:1]], group),
        "reduce_scatter_tensor_coalesced": functional.reduce_scatter_tensor_coalesced([t, t + 1], "sum", [0, 0], group),
        "all_to_all_single": functional.all_to_all_single(t, None, None, group),
    }
    return {name: [v.tolist() for v in value] if isinstance(value, list) else (value + 0).tolist() for name, value in seen.items()}


def compiled(rank):
    @torch.compile(backend="aot_eager", fullgraph=True)
    def step(x):
        y = x * 2
        dist.all_reduce(y)
        z = functional.all_gather_tensor(y + 1, 0, dist.group.WORLD)
        return z.sum()

    return [step(torch.full((3,), rank + 1.0 + i)).item() for i in range(3)]


def test_functional_collectives():
    for rank, seen in enumerate(on_ranks(2, eager)):
        assert seen["all_reduce"] == [1.0, 3.0, 5.0, 7.0]
        assert seen["all_gather_tensor"] == [0.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0]
        assert seen["reduce_scatter_tensor"] == ([0.5, 1.5] if rank == 0 else [2.5, 3.5])
        assert seen["broadcast"] == [1.0, 2.0, 3.0, 4.0]
        assert seen["all_reduce_coalesced"] == [[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]]
        assert seen["all_gather_into_tensor_coalesced"] == [[0.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0]]
        assert seen["reduce_scatter_tensor_coalesced"] == ([[1.0, 3.0], [3.0, 5.0]] if rank == 0 else [[5.0, 7.0], [7.0, 9.0]])
        assert seen["all_to_all_single"] == ([0.0, 1.0, 1.0, 2.0] if rank == 0 else [2.0, 3.0, 3.0, 4.0])


def test_compiled_functions_with_collectives():
    for seen in on_ranks(2, compiled):
        assert seen == [2 * 3 * (2 * (3.0 + 2 * i) + 1) for i in range(3)]
