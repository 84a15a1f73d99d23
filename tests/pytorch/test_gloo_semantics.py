"""What users of gloo rely on beside each operation's values: lists of tensors, futures, many works under way, order,
messages from anywhere, sparse sums, objects, barriers, time-outs. Each test runs on gloo too, which says that it is so."""
import re
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from ranks import on_ranks
from torch.testing import assert_close

pytestmark = pytest.mark.parametrize("backend", ["gloo", "tandem"])


def equal(found, expected):
    assert_close(found, expected, rtol=0, atol=0)


def options(kind, **values):
    made = getattr(dist, kind)()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def future_of(work):
    future = work.get_future()
    future.wait()
    return future.value()


# ---- lists of tensors in one call

def lists(rank, size):
    pg = dist.group.WORLD
    for root in range(size):
        for part in (0, 1):
            pair = [torch.tensor([rank * 2.0]), torch.tensor([rank * 2.0 + 1])]
            out = future_of(pg.broadcast(pair, options("BroadcastOptions", rootRank=root, rootTensor=part)))
            equal(out, [torch.tensor([root * 2.0 + part])] * 2)
            equal(pair, out)
    pair = [torch.tensor([2.0 * rank]), torch.tensor([2.0 * rank + 1])]
    pg.allreduce(pair).wait()
    equal(pair, [torch.tensor([size * (2.0 * size - 1)])] * 2)
    for n in (1, 2, 3):
        into = [[torch.tensor([-1]) for _ in range(n * size)] for _ in range(n)]
        pg.allgather(into, [torch.tensor([n * rank + i]) for i in range(n)]).wait()
        equal(into, [[torch.tensor([i]) for i in range(n * size)]] * n)
    many = [torch.full((i,), float(rank)) for i in range(4)]
    pg.allreduce_coalesced(many).wait()
    equal(many, [torch.full((i,), size * (size - 1) / 2) for i in range(4)])


def test_lists_of_tensors_are_one_call(backend):
    on_ranks(3, lists, 3, backend=backend)


def forms(rank, size):
    """Inputs that are columns or expanded, inference mode, gradients, no dimension, no elements, parts of uneven size."""
    into = [torch.zeros(3) for _ in range(size)]
    dist.all_gather(into, torch.tensor([float(rank)]).expand(3))
    equal(into, [torch.full((3,), float(r)) for r in range(size)])
    dist.all_gather(into, torch.full((3, 4), float(rank))[:, 1])
    equal(into, [torch.full((3,), float(r)) for r in range(size)])
    with torch.inference_mode():
        inside = torch.ones(5)
        dist.all_reduce(inside)
        assert inside.sum() == 5 * size
    parameter = torch.nn.Parameter(torch.full((2,), float(rank)))
    dist.broadcast(parameter.data, 0)
    parameter.grad = torch.ones(2)
    dist.all_reduce(parameter.grad)
    equal(parameter.grad, torch.full((2,), float(size)))
    single = torch.tensor(float(rank))
    dist.all_reduce(single, op=dist.ReduceOp.MAX)
    assert single.item() == size - 1
    channels = torch.full((2, 3, 4, 4), float(rank)).to(memory_format=torch.channels_last)
    channels[0, 1, 2, 3] += 1
    dist.all_reduce(channels)
    assert channels[0, 1, 2, 3] == size * (size - 1) / 2 + size and channels.is_contiguous(memory_format=torch.channels_last)
    for empty in (torch.zeros(0), torch.zeros(0, 4)):
        equal(future_of(dist.broadcast(empty, 0, async_op=True))[0], empty)
        dist.all_reduce(empty)
    out = torch.zeros(rank)
    dist.reduce_scatter(out, [torch.full((r,), 2.0) for r in range(size)])
    equal(out, torch.full((rank,), 2.0 * size))
    if dist.get_backend() != "gloo":
        holes(rank, size)


def holes(rank, size):
    """Outputs with holes between their elements: gloo is wrong or refuses."""
    own = torch.full((4, 3), float(rank))
    dist.all_reduce(own[:, 1])
    equal(own, torch.tensor([rank, size * (size - 1) / 2, rank]).expand(4, 3).contiguous())
    into = [torch.zeros(3, 4).t()[:, 0] for _ in range(size)]
    dist.all_gather(into, torch.full((4,), float(rank)))
    equal(into, [torch.full((4,), float(r)) for r in range(size)])
    square = (torch.arange(6.0) + rank).view(2, 3).t()
    dist.broadcast(square, 1)
    equal(square, (torch.arange(6.0) + 1).view(2, 3).t())
    column = torch.zeros(4, 2)
    if rank == 0:
        dist.send(torch.arange(8.0).view(4, 2)[:, 1], 1)
    elif rank == 1:
        dist.recv(column[:, 0], 0)
        equal(column, torch.tensor([[1.0, 0], [3, 0], [5, 0], [7, 0]]))


def test_memory_of_any_form(backend):
    on_ranks(3, forms, 3, backend=backend)


# ---- many works under way

def stress(rank, size, count):
    pg = dist.group.WORLD
    works, checks = [], []
    for i in range(count):
        summed, moved = torch.tensor([i + rank]), torch.tensor([i * size + rank])
        reduced, part = torch.tensor([i + rank]), torch.tensor([-1])
        every = [torch.tensor([-1]) for _ in range(size)]
        own = [torch.tensor([-1]) for _ in range(size)]
        root = i % size
        works += [
            pg.allreduce([summed]),
            pg.broadcast([moved], options("BroadcastOptions", rootRank=root)),
            pg.allgather([every], [torch.tensor([i + rank])]),
            pg.reduce([reduced], options("ReduceOptions", rootRank=root)),
            pg.scatter([part], [[torch.tensor([i + r]) for r in range(size)]] if rank == root else [], options("ScatterOptions", rootRank=root)),
            pg.gather([own] if rank == root else [], [torch.tensor([i - rank])], options("GatherOptions", rootRank=root)),
        ]
        total = torch.tensor([i * size + size * (size - 1) // 2])
        checks.append((summed, total))
        checks.append((moved, torch.tensor([i * size + root])))
        checks.append((every, list(torch.arange(i, i + size)[:, None])))
        checks.append((part, torch.tensor([i + rank])))
        if rank == root:
            checks.append((reduced, total))
            checks.append((own, list(i - torch.arange(size)[:, None])))
    order = works if rank % 2 == 0 else works[::-1]
    for work in order:
        work.wait()
        assert work.is_completed()
    for found, expected in checks:
        equal(found, expected)


def test_hundreds_of_works_under_way_waited_for_in_any_order(backend):
    on_ranks(3, stress, 3, 150, backend=backend)


def futures(rank, size):
    total = size * (size - 1) / 2
    tensor = torch.full((1000,), float(rank))
    doubled = dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: future.value()[0] * 2)
    equal(doubled.wait(), torch.full((1000,), total * 2))
    tensors = [torch.full((10,), float(rank + i)) for i in range(20)]
    joined = torch.futures.collect_all([dist.all_reduce(t, async_op=True).get_future() for t in tensors])
    assert [f.value()[0][0].item() for f in joined.wait()] == [total + size * i for i in range(20)]
    chained = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(
        lambda f: dist.all_reduce(f.value()[0], async_op=True).get_future()).wait()
    equal(chained.wait()[0], torch.full((3,), float(size * size)))
    left = torch.ones(5)
    dist.all_reduce(left, async_op=True)  # nobody waits for it, nobody keeps its work
    tensor = torch.full((4,), float(rank))
    work = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    equal(tensor, torch.full((4,), total))
    dist.barrier()
    equal(left, torch.full((5,), float(size)))


def test_futures_callbacks_and_works_nobody_keeps(backend):
    on_ranks(3, futures, 3, backend=backend)


def barrier_waits(rank, size):
    tensors = [torch.full((100, 100), float(i)) for i in range(16)]
    for tensor in tensors:
        dist.group.WORLD.allreduce([tensor])
    dist.group.WORLD.barrier().get_future().wait()
    for i, tensor in enumerate(tensors):
        equal(tensor, torch.full((100, 100), float(i * size)))
    if rank == 1:
        time.sleep(0.5)
    entered = time.monotonic()
    dist.barrier()
    return entered, time.monotonic()


def test_a_barrier_waits_for_all_ranks_and_for_earlier_works(backend):
    entered, left = zip(*on_ranks(3, barrier_waits, 3, backend=backend))
    assert max(entered) <= min(left)


# ---- messages

def messages(rank, size):
    others = [r for r in range(size) if r != rank]
    into = {r: torch.tensor([-1]) for r in others}
    works = [dist.isend(torch.tensor([rank * 10 + r]), r) for r in others] + [dist.irecv(into[r], r) for r in others]
    for work in works:
        work.wait()
        assert work.is_completed()
    assert {r: t.item() for r, t in into.items()} == {r: r * 10 + rank for r in others}

    if rank == 0:  # tags choose, whatever the order of arrival; within a tag it is the order of sending
        first, second, third = torch.zeros(1), torch.zeros(1), torch.zeros(1)
        dist.recv(third, 1, tag=9)
        dist.recv(first, 1, tag=5)
        dist.recv(second, 1, tag=5)
        assert [first.item(), second.item(), third.item()] == [1, 2, 3]
    elif rank == 1:
        works = [dist.isend(torch.tensor([v]), 0, tag=tag) for v, tag in ((1.0, 5), (2.0, 5), (3.0, 9))]
        for work in works:
            work.wait()
    dist.barrier()

    if rank == 0:  # from anybody
        seen, into = [], torch.zeros(3)
        for _ in range(2 * (size - 1)):
            source = dist.recv(into)
            equal(into, torch.full((3,), float(source)))
            seen.append(source)
        assert sorted(seen) == sorted([r for r in range(1, size)] * 2)
        work = dist.irecv(into, None, tag=3)
        work.wait()
        assert into[0] == 7 and work._source_rank() == size - 1
    else:
        dist.send(torch.full((3,), float(rank)), 0)
        dist.send(torch.full((3,), float(rank)), 0)
        if rank == size - 1:
            dist.send(torch.full((3,), 7.0), 0, tag=3)
    dist.barrier()

    right, left, got = (rank + 1) % size, (rank - 1) % size, torch.zeros(50_000)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((50_000,), float(rank)), right), dist.P2POp(dist.irecv, got, left)]):
        work.wait()
    equal(got, torch.full((50_000,), float(left)))


def test_messages_by_source_tag_and_from_anybody(backend):
    on_ranks(3, messages, 3, backend=backend)


# ---- sparse sums

def sparse(rank, size):
    one = torch.sparse_coo_tensor([[rank]], [1.0 + rank], size=(size,))
    dist.all_reduce(one)
    equal(one.to_dense(), torch.arange(1.0, size + 1))
    assert one.is_sparse and one.is_coalesced()
    same = torch.sparse_coo_tensor([[0, 2]], torch.tensor([[1.0, 2.0], [3.0, 4.0]]), size=(3, 2))
    dist.all_reduce(same)
    equal(same.to_dense(), torch.tensor([[1.0, 2], [0, 0], [3, 4]]) * size)
    ragged = torch.sparse_coo_tensor([list(range(rank))], [1.0] * rank, size=(size,))  # as many values as the rank says
    dist.all_reduce(ragged)
    equal(ragged.to_dense(), torch.arange(size - 1.0, -1, -1))
    twice = torch.sparse_coo_tensor([[1, 1]], [1.0, 2.0], size=(2,))  # not coalesced
    dist.all_reduce(twice)
    equal(twice.to_dense(), torch.tensor([0.0, 3.0 * size]))
    pair = [torch.sparse_coo_tensor([[rank]], [1.0], size=(size,)) for _ in range(2)]
    future_of(dist.group.WORLD.allreduce(pair))
    equal([t.to_dense() for t in pair], [torch.full((size,), 2.0)] * 2)


def test_sparse_tensors_are_summed(backend):
    on_ranks(3, sparse, 3, backend=backend)


# ---- objects, groups, functional collectives

def objects(rank, size):
    told = [None] * size
    dist.all_gather_object(told, {"rank": rank, "pad": "x" * (rank * 1000)})
    assert [t["rank"] for t in told] == list(range(size)) and len(told[-1]["pad"]) == 1000 * (size - 1)
    into = [None] * size if rank == 1 else None
    dist.gather_object(("from", rank), into, dst=1)
    assert rank != 1 or into == [("from", r) for r in range(size)]
    given = [rank, [1, 2], None] if rank == 2 else [None] * 3
    dist.broadcast_object_list(given, src=2)
    assert given == [2, [1, 2], None]
    got = [None]
    dist.scatter_object_list(got, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert got == [f"for {rank}"]
    dist.send_object_list(["hello", rank], (rank + 1) % size) if rank == 0 else None
    if rank == 1:
        heard = [None, None]
        assert dist.recv_object_list(heard, 0) == 0 and heard == ["hello", 0]
    pair = [rank - rank % 2, rank - rank % 2 + 1]
    group = dist.new_group(pair, use_local_synchronization=True)
    told = [None] * 2
    dist.all_gather_object(told, rank, group=group)
    assert told == pair
    got = [None]
    dist.scatter_object_list(got, pair, src=pair[0], group=group)
    assert got == [rank]


def test_objects_travel_in_the_world_and_in_groups(backend):
    on_ranks(4, objects, 4, backend=backend)


def functional(rank, size):
    total = size * (size - 1) / 2
    equal(funcol.all_reduce(torch.full((10,), float(rank)), "avg", "0") + 0, torch.full((10,), total / size))
    outs = funcol.all_reduce_coalesced([torch.full((i,), float(rank)) for i in range(1, 4)], "sum", "0")
    equal([o + 0 for o in outs], [torch.full((i,), total) for i in range(1, 4)])
    equal(funcol.all_gather_tensor(torch.full((2, 2), rank), 0, "0") + 0, torch.arange(size).repeat_interleave(2)[:, None].expand(-1, 2).contiguous())
    equal(funcol.reduce_scatter_tensor(torch.arange(size * 2.0), "sum", 0, "0") + 0, size * torch.arange(rank * 2.0, rank * 2 + 2))
    outs = funcol.all_gather_into_tensor_coalesced([torch.full((i,), rank) for i in (1, 2)], "0")
    equal([o + 0 for o in outs], [torch.arange(size), torch.arange(size).repeat_interleave(2)])
    outs = funcol.reduce_scatter_tensor_coalesced([torch.arange(size) * i for i in (1, 2)], "sum", [0, 0], "0")
    equal([o + 0 for o in outs], [torch.tensor([rank * size]), torch.tensor([2 * rank * size])])
    give = [r + 1 for r in range(size)]  # to rank r go r + 1 elements
    out = funcol.all_to_all_single(torch.full((sum(give),), float(rank)), [rank + 1] * size, give, "0")
    equal(out + 0, torch.arange(float(size)).repeat_interleave(rank + 1))
    equal(funcol.broadcast(torch.tensor([float(rank)]), 1, "0") + 0, torch.tensor([1.0]))
    one = torch.ones(3, requires_grad=True)
    funcol.all_reduce(one.detach() * rank, "sum", "0").wait()
    left = torch.ops._c10d_functional.all_reduce(torch.ones(3), "sum", "0")  # never waited for
    return left.shape == (3,)


def test_functional_collectives(backend):
    on_ranks(3, functional, 3, backend=backend)


def threads(rank, size, count):
    """Each thread has a group of its own and makes its own calls, all at once."""
    groups = [dist.new_group(list(range(size))) for _ in range(count)]
    wrong = []

    def work(i):
        for step in range(30):
            tensor = torch.full((100 * (i + 1),), float(step + rank + i))
            dist.all_reduce(tensor, group=groups[i])
            if tensor[0] != size * (step + i) + size * (size - 1) / 2:
                wrong.append((i, step))

    running = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong, wrong


def test_threads_with_a_group_each(backend):
    on_ranks(2, threads, 2, 4, backend=backend)


# ---- time-outs

def late(rank, size):
    group = dist.new_group(list(range(size)), timeout=timedelta(seconds=1))
    began = time.monotonic()
    if rank == 0:
        time.sleep(2.5)
        return None
    try:
        dist.all_reduce(torch.ones(4), group=group)
    except RuntimeError as error:
        return time.monotonic() - began, str(error)
    return "no error"


def test_a_groups_time_limit_holds_and_is_told_as_gloo_tells_it(backend):
    """Users and PyTorch's own tests look for ` Timed out `, ` timeout ` or ` closed `."""
    _, one, two = on_ranks(3, late, 3, backend=backend)
    for seconds, text in (one, two):
        assert 0.5 < seconds < 4, (seconds, text)
        assert re.search(" (Timed out|closed|timeout) |Connection reset", text), text
