"""The backend: values of its calls, asynchronous work, its life."""
import torch
import torch.distributed as dist

from ranks import on_ranks


def calls(rank):
    size, seen = dist.get_world_size(), {}
    t = torch.full((3,), rank + 1.0)
    seen["all_reduce returns"] = dist.all_reduce(t)
    seen["all_reduce"] = t.tolist()
    t = torch.arange(6.0).reshape(2, 3).t() * (rank + 1)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    seen["transposed"] = t.tolist()
    t = torch.full((2,), rank, dtype=torch.int16)
    dist.broadcast(t, src=1)
    seen["broadcast int16"] = t.tolist()
    out = [torch.empty(2) for _ in range(size)]
    dist.all_gather(out, torch.full((2,), float(rank)))
    seen["all_gather"] = [o.tolist() for o in out]
    whole = torch.empty(2 * size)
    dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
    seen["all_gather_into_tensor"] = whole.tolist()
    part = torch.empty(2)
    dist.reduce_scatter_tensor(part, torch.arange(2.0 * size), op=dist.ReduceOp.AVG)
    seen["reduce_scatter_tensor"] = part.tolist()
    dist.barrier()
    empty = torch.empty(0)
    dist.all_reduce(empty)
    seen["empty"] = empty.numel()
    return seen


def asynchronous(rank):
    size, seen, works = dist.get_world_size(), {}, []
    for i in range(50):
        t = torch.full((i * 100 + 1,), float(rank + i))
        works.append((dist.all_reduce(t, async_op=True), t, size * i + size * (size - 1) / 2))
    for work, t, expected in reversed(works):
        work.wait()
        assert torch.all(t == expected)
    seen["completed"] = all(work.is_completed() for work, _, _ in works)
    t = torch.ones(5)
    future = dist.all_reduce(t, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    seen["then"] = future.wait().tolist()
    dropped = torch.full((7,), float(rank))
    dist.broadcast(dropped, src=1, async_op=True)
    dist.barrier()
    inner = torch.ones(4)

    def again(f):
        dist.all_reduce(inner)
        return f.value()[0]

    dist.all_reduce(torch.ones(3), async_op=True).get_future().then(again).wait()
    seen["in a callback"] = inner.tolist()
    seen["dropped"] = dropped.tolist()
    seen["sequence"] = dist.group.WORLD._get_backend(torch.device("cpu"))._get_sequence_number_for_group()
    return seen


def test_calls_give_what_they_should():
    for rank, seen in enumerate(on_ranks(3, calls)):
        assert seen["all_reduce returns"] is None
        assert seen["all_reduce"] == [6.0] * 3
        assert seen["transposed"] == [[0.0, 9.0], [3.0, 12.0], [6.0, 15.0]]
        assert seen["broadcast int16"] == [1, 1]
        assert seen["all_gather"] == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
        assert seen["all_gather_into_tensor"] == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
        assert seen["reduce_scatter_tensor"] == [2.0 * rank, 2.0 * rank + 1]
        assert seen["empty"] == 0


def test_asynchronous_work_ends_in_any_order_and_by_itself():
    for seen in on_ranks(2, asynchronous):
        assert seen["completed"]
        assert seen["then"] == [4.0] * 5
        assert seen["dropped"] == [1.0] * 7
        assert seen["in a callback"] == [2.0] * 4
        assert seen["sequence"] == 55
