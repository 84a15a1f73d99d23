"""Every operation: element types, reduce operations, layouts, sizes, synchronous or not, against values worked out here."""
import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.uint32, torch.uint64]
REDUCED = [*FLOATS, *INTEGERS, torch.bool, torch.complex64]
MOVED = [*REDUCED, torch.int16, torch.uint16, torch.complex128, torch.float8_e4m3fn]
OPS = {
    "SUM": lambda a, b: a + b, "PRODUCT": lambda a, b: a * b, "MIN": min, "MAX": max,
    "BAND": lambda a, b: a & b, "BOR": lambda a, b: a | b, "BXOR": lambda a, b: a ^ b,
}


def value(rank, i):
    return (3 * rank + 5 * i) % 7


def tensor(rank, dtype, shape=(3, 4), plain=True):
    """Small numbers, or a view with other strides of such."""
    count = torch.Size(shape).numel()
    numbers = torch.tensor([value(rank, i) for i in range(count)], dtype=torch.float64)
    made = numbers.to(dtype).reshape(shape)
    if plain or made.dim() < 2:
        return made
    around = torch.empty(made.shape[1], made.shape[0] * 2, dtype=dtype)[:, ::2].t()
    around.copy_(made)
    return around


def same(found, expected):
    """Bit for bit; types that torch cannot compare are compared as bytes."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    bytes_of = [torch.empty(t.numel(), dtype=t.dtype).copy_(t.reshape(-1)).view(torch.uint8) for t in (found, expected)]
    assert bytes_of[0].equal(bytes_of[1]), (found, expected)


def done(work):
    if work is not None:
        work.wait()


def reduced(op, dtype, size, shape):
    values = []
    for i in range(torch.Size(shape).numel()):
        terms = [value(r, i) for r in range(size)]
        if dtype == torch.bool:
            terms = [bool(t) for t in terms]
        total = terms[0]
        for term in terms[1:]:
            total = OPS[op](total, term)
        values.append(float(total))
    return torch.tensor(values, dtype=torch.float64).to(dtype).reshape(shape)


def exists(op, dtype):
    if op.startswith("B"):
        return dtype in INTEGERS or dtype == torch.bool
    return not (op in ("MIN", "MAX") and dtype.is_complex)


def reductions(rank, size):
    pg = dist.group.WORLD
    for dtype in REDUCED:
        for op in OPS:
            if not exists(op, dtype):
                continue
            kind, sum_ = getattr(dist.ReduceOp, op), reduced(op, dtype, size, (3, 4))
            for plain in (True, False):
                for is_async in (True, False):
                    t = tensor(rank, dtype, plain=plain)
                    options = dist.AllreduceOptions()
                    options.reduceOp, options.asyncOp = kind, is_async
                    done(pg.allreduce([t], options))
                    same(t, sum_)
            root = size - 1
            t = tensor(rank, dtype, plain=False)
            options = dist.ReduceOptions()
            options.reduceOp, options.rootRank = kind, root
            done(pg.reduce([t], options))
            if rank == root:
                same(t, sum_)
            parts = [tensor(rank, dtype, (size, 12), plain=False)[r] for r in range(size)]
            options = dist.ReduceScatterOptions()
            options.reduceOp = kind
            out = torch.empty(12, dtype=dtype)
            done(pg.reduce_scatter([out], [parts], options))
            same(out, reduced(op, dtype, size, (size, 12))[rank])
            lists = [torch.empty(12, dtype=dtype), torch.empty(12, dtype=dtype)]
            wholes = [tensor(rank, dtype, (size, 12)) for _ in lists]
            pg.reduce_scatter_tensor_coalesced(lists, wholes, options).wait()
            for out in lists:
                same(out, reduced(op, dtype, size, (size, 12))[rank])
            many = [tensor(rank, dtype, shape, plain=False) for shape in ((3, 4), (1, 1), (50, 3))]
            options = dist.AllreduceCoalescedOptions()
            options.reduceOp = kind
            done(pg.allreduce_coalesced(many, options))
            for t in many:
                same(t, reduced(op, dtype, size, tuple(t.shape)))
    return True


@pytest.mark.parametrize("size", [2, 3])
def test_reductions_of_all_types(size):
    assert all(on_ranks(size, reductions, size))


def averages(rank, size):
    for dtype in FLOATS:
        t = torch.full((5,), rank * 2.0, dtype=dtype)
        dist.all_reduce(t, op=dist.ReduceOp.AVG)
        same(t, torch.full((5,), size - 1.0, dtype=dtype))
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        t = torch.full((5,), rank + 1, dtype=dtype)
        dist.all_reduce(t, op=dist._make_nccl_premul_sum(3.0))
        same(t, torch.full((5,), 3 * size * (size + 1) // 2, dtype=dtype))
    out = torch.empty(rank + 1)
    parts = [torch.full((r + 1,), float(rank)) for r in range(size)]
    dist.reduce_scatter(out, parts)
    same(out, torch.full((rank + 1,), size * (size - 1) / 2))
    return True


def test_averages_factors_and_uneven_lists():
    assert all(on_ranks(3, averages, 3))


def moves(rank, size):
    pg = dist.group.WORLD
    for dtype in MOVED:
        for plain in (True, False):
            each = [tensor(r, dtype, plain=plain) for r in range(size)]
            mine = tensor(rank, dtype, plain=plain)
            for root in (0, size - 1):
                t = mine.clone() if plain else tensor(rank, dtype, plain=False)
                dist.broadcast(t, root)
                same(t, each[root])
                got = [torch.zeros(4, 3, dtype=dtype).t() for _ in range(size)] if rank == root else None
                dist.gather(mine, got, root)
                for r in range(size if got else 0):
                    same(got[r], each[r])
                t = torch.zeros(4, 3, dtype=dtype).t()
                dist.scatter(t, each if rank == root else None, root)
                same(t, each[rank])
            got = [torch.zeros(3, 4, dtype=dtype) for _ in range(size)]
            work = dist.all_gather(got, mine, async_op=True)
            work.wait()
            for r in range(size):
                same(got[r], each[r])
            inputs = [tensor(rank + r, dtype, plain=plain) for r in range(size)]
            got = [torch.zeros(4, 3, dtype=dtype).t() for _ in range(size)]
            pg.alltoall(got, inputs).wait()
            for r in range(size):
                same(got[r], tensor(rank + r, dtype))
            whole = torch.zeros(size * 3, 4, dtype=dtype)
            pg._allgather_base(whole, mine).wait()
            same(whole, torch.cat([e.view(torch.uint8) if dtype == torch.float8_e4m3fn else e for e in
                                   (tensor(r, dtype) for r in range(size))]).view(dtype).reshape(size * 3, 4))
            wholes = [torch.zeros(size * 3, 4, dtype=dtype) for _ in range(2)]
            pg.allgather_into_tensor_coalesced(wholes, [mine, mine]).wait()
            same(wholes[0], whole)
            same(wholes[1], whole)
    return True


@pytest.mark.parametrize("size", [2, 4])
def test_moves_of_all_types(size):
    assert all(on_ranks(size, moves, size))


def parts(rank, size):
    uneven = [torch.zeros(r) for r in range(size)]
    dist.all_gather(uneven, torch.full((rank,), float(rank)))
    for r in range(size):
        same(uneven[r], torch.full((r,), float(r)))
    wrong = [torch.zeros(1 + (r == 1)) for r in range(size)]
    with pytest.raises(RuntimeError, match="number 1 has 2 elements where rank 1 has 1"):
        dist.all_gather(wrong, torch.zeros(1))
    gives, takes = [rank + r for r in range(size)], [rank + r for r in range(size)]
    out = torch.zeros(sum(takes), 2)
    rows = torch.cat([torch.full((n, 2), 10.0 * rank + r) for r, n in enumerate(gives)])
    dist.all_to_all_single(out, rows, takes, gives)
    same(out, torch.cat([torch.full((n, 2), 10.0 * r + rank) for r, n in enumerate(takes)]))
    lists = [[torch.zeros(2), torch.zeros(3, dtype=torch.float32)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [torch.full((2,), float(rank)), torch.full((3,), rank + 0.5)])
    for r in range(size):
        same(lists[r][0], torch.full((2,), float(r)))
        same(lists[r][1], torch.full((3,), r + 0.5))
    return True


def test_parts_of_different_sizes():
    assert all(on_ranks(3, parts, 3))


def messages(rank, size):
    left, right = (rank - 1) % size, (rank + 1) % size
    for dtype in MOVED:
        got = [torch.zeros(4, 3, dtype=dtype).t() for _ in range(3)]
        works = [dist.irecv(got[tag], left, tag=tag) for tag in (2, 0, 1)]
        works += [dist.isend(tensor(rank + tag, dtype, plain=False), right, tag=tag) for tag in range(3)]
        for work in works:
            work.wait()
        for tag in range(3):
            same(got[tag], tensor(left + tag, dtype))
    seen = set()
    if rank == 0:
        for _ in range(size - 1):
            t = torch.zeros(1)
            seen.add((dist.recv(t), t.item()))
    else:
        dist.send(torch.tensor([float(rank)]), 0)
    assert rank != 0 or seen == {(r, float(r)) for r in range(1, size)}
    dist.barrier()  # else a message of the next part may be the one from anybody
    sent, got = torch.full((5,), float(rank)), torch.zeros(5)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, right), dist.P2POp(dist.irecv, got, left)]):
        work.wait()
    same(got, torch.full((5,), float(left)))
    return True


def test_messages_of_all_types_by_tag_from_anybody_in_batches():
    assert all(on_ranks(3, messages, 3))


def coalesced(rank, size):
    with dist._coalescing_manager(async_ops=True) as manager:
        many = [torch.full((n,), float(rank)) for n in (1, 100, 40_000)]
        for t in many:
            dist.all_reduce(t)
    manager.wait()
    for t in many:
        same(t, torch.full_like(t, size * (size - 1) / 2))
    device = torch.device("cpu")
    with dist._coalescing_manager(device=device, async_ops=True) as manager:
        got = torch.zeros(3)
        dist.irecv(got, (rank - 1) % size)
        dist.isend(torch.full((3,), float(rank)), (rank + 1) % size)
        t = torch.ones(3)
        dist.all_reduce(t)
    assert len(manager.works) == 1
    assert manager.works[0].get_future().wait() is not None
    manager.wait()
    assert manager.works[0].is_completed()
    same(got, torch.full((3,), float((rank - 1) % size)))
    same(t, torch.full((3,), float(size)))
    with dist._coalescing_manager(device=device):
        pass
    with dist._coalescing_manager():
        outs = [torch.zeros(2 * size), torch.zeros(3 * size)]
        for out in outs:
            dist.all_gather_into_tensor(out, torch.full((out.numel() // size,), float(rank)))
    same(outs[1], torch.arange(float(size)).repeat_interleave(3))
    return True


def test_calls_in_a_coalescing_manager_are_one():
    assert all(on_ranks(3, coalesced, 3))
