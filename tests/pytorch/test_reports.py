"""Public reports about torch.distributed and trainers (docs/reports.md), by their numbers, as they are met through backend tandem."""
import os
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close


def equal(found, expected):
    assert_close(found, expected, rtol=0, atol=0)


# 1: ranks that give one call different counts

def different_counts(rank):
    told = []
    for counts in ((256_000, 512_000), (2560, 5120), (7, 8), (0, 1)):
        n = counts[rank]
        calls = {
            "all_reduce": lambda group: dist.all_reduce(torch.ones(n), group=group),
            "broadcast": lambda group: dist.broadcast(torch.ones(n), 0, group=group),
            "reduce_scatter": lambda group: dist.reduce_scatter_tensor(torch.ones(n), torch.ones(2 * n), group=group),
        }
        for name, call in calls.items():
            group = dist.new_group([0, 1])
            try:
                call(group)
                dist.barrier(group)  # a broadcast's root waits for nobody, and hears of it in its next call
                text = "no error"
            except dist.DistBackendError as error:
                text = str(error)
            told.append((name, counts, text))
            dist.destroy_process_group(group)
    alive = torch.ones(1)  # the world is as well as before
    dist.all_reduce(alive)
    assert alive.item() == 2
    return told


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_01_different_counts_end_with_an_error_that_names_both(transport):
    for rank, told in enumerate(on_ranks(2, different_counts, env={"TANDEM_TRANSPORT": transport})):
        assert len(told) == 12
        for name, counts, text in told:
            parts = [count * (2 if name == "reduce_scatter" else 1) for count in counts]
            named = all(str(count) in text or str(part) in text for count, part in zip(counts, parts))
            assert name in text and named and "rank 0" in text and "rank 1" in text, (rank, name, counts, text)


# 4: test_barrier.py has monitored_barrier; a time-out of a call names all who are missing, too

def sleepers(rank, asleep):
    group = dist.new_group(timeout=timedelta(seconds=1))
    if rank in asleep:
        time.sleep(2.5)
    try:
        dist.all_reduce(torch.ones(3), group=group)
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize("asleep, named", [([2, 4], ": ranks 2, 4 did not arrive"), ([0], ": rank 0 did not arrive")])
def test_04_a_call_that_times_out_names_all_sleepers_on_every_rank(asleep, named):
    told = on_ranks(5, sleepers, asleep)
    assert all(" Timed out " in text and named in text for text in told), told


# 6: groups made of different lists at once

def disjoint(rank):
    group = dist.new_group([0, 3] if rank in (0, 3) else [1, 2], use_local_synchronization=True)
    total = torch.tensor([rank])
    dist.all_reduce(total, group=group)
    orders = []
    for sort in (True, False):
        order = [torch.tensor([-1]) for _ in range(4)]
        dist.all_gather(order, torch.tensor([rank]), group=dist.new_group([3, 2, 1, 0], sort_ranks=sort))
        orders.append(torch.cat(order).tolist())
    pair = dist.new_group([0, 1])
    outside = None
    if rank > 1:
        with pytest.warns(UserWarning, match="is not part of|does not belong|on group"):
            outside = dist.all_reduce(torch.ones(1), group=pair)
    return total.item(), orders, outside


def test_06_disjoint_groups_are_made_at_once_and_lists_are_sorted_unless_torch_is_told_not_to():
    assert on_ranks(4, disjoint) == [(3, [[0, 1, 2, 3], [3, 2, 1, 0]], None)] * 4


# 10: the average is the sum over the number of ranks

def averages(rank):
    rows = [
        (torch.tensor([1.0, 2, 3] if rank == 0 else [3.0, 4, 5]), torch.tensor([2.0, 3, 4])),
        (torch.tensor([3, -3, 8] if rank == 0 else [4, -4, 1], dtype=torch.int32), torch.tensor([3, -3, 4], dtype=torch.int32)),
    ]
    for given, expected in rows:
        reduced = given.clone()
        dist.all_reduce(reduced, op=dist.ReduceOp.AVG)
        equal(reduced, expected)
        reduced = given.clone()
        dist.reduce(reduced, 1, op=dist.ReduceOp.AVG)
        assert rank == 0 or torch.equal(reduced, expected)
        part = torch.empty_like(given)
        dist.reduce_scatter_tensor(part, given.repeat(2), op=dist.ReduceOp.AVG)
        equal(part, expected)
        dist.reduce_scatter(part.zero_(), [given, given], op=dist.ReduceOp.AVG)
        equal(part, expected)
    wrapped = torch.tensor([120 if rank == 0 else 100], dtype=torch.int8)
    dist.all_reduce(wrapped)
    assert wrapped.item() == -36


def test_10_averages_are_sums_over_the_number_of_ranks():
    on_ranks(2, averages)


# 12: no elements; one rank

class Hollow(torch.nn.Module):
    """A parameter without elements beside another."""

    def __init__(self):
        super().__init__()
        self.some, self.none = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(0, 4))

    def forward(self, by):
        return self.some.sum() * by + self.none.sum()


def empty(rank, size):
    none, works = torch.zeros(0), []
    works.append(dist.all_reduce(none, async_op=True))
    dist.broadcast(none, 0)
    dist.reduce(none, size - 1)
    dist.all_gather([torch.zeros(0) for _ in range(size)], none)
    dist.all_gather_into_tensor(torch.zeros(0), none)
    dist.reduce_scatter_tensor(torch.zeros(0), none)
    dist.all_to_all_single(torch.zeros(0), none)
    dist.scatter(none, [torch.zeros(0) for _ in range(size)] if rank == 0 else None, 0)
    dist.gather(none, [torch.zeros(0) for _ in range(size)] if rank == 0 else None, 0)
    for work in works:
        work.wait()
    if size == 4:
        counts = [0, 5, 0, 3]
        parts = [torch.full((n,), -1.0) for n in counts]
        dist.all_gather(parts, torch.full((counts[rank],), float(rank)))
        equal(torch.cat(parts), torch.tensor([1.0] * 5 + [3.0] * 3))
    if size == 1:
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX):
            own = torch.tensor([3.5, -1.0])
            dist.all_reduce(own, op=op)
            equal(own, torch.tensor([3.5, -1.0]))
        out = torch.zeros(2)
        dist.reduce_scatter_tensor(out, own)
        dist.all_gather_into_tensor(out, own)
        equal(out, own)
    model = Hollow()
    ddp = DistributedDataParallel(model)
    ddp(float(rank + 1)).backward()
    equal(model.some.grad, torch.full((2,), (size + 1) / 2))
    assert model.none.grad.shape == (0, 4)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_12_empty_calls_are_calls_and_one_rank_is_the_identity(size):
    on_ranks(size, empty, size)


# 14: each cell of type and operation is right, or refused with both named

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool]
OPS = {"SUM": sum, "AVG": lambda v: sum(v) / len(v), "MIN": min, "MAX": max, "PRODUCT": lambda v: v[0] * v[1] * v[2]}


def table(rank):
    wrong = []
    for dtype in TYPES:
        values = [False, True, True] if dtype == torch.bool else [1, 2, 3]
        for name, expected in OPS.items():
            tensor = torch.tensor([values[rank]] * 5).to(dtype)
            try:
                dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
                if not torch.equal(tensor, torch.tensor([expected(values)] * 5).to(dtype)):
                    wrong.append(f"{name} of {dtype}: {tensor[0].item()}")
            except RuntimeError as error:
                if str(dtype).split(".")[1] not in str(error).lower() and dtype != torch.bool:
                    wrong.append(f"{name} of {dtype}: {error}")
        moved = torch.tensor([values[rank]] * 5).to(dtype)
        dist.broadcast(moved, 2)
        every = [torch.zeros(5, dtype=dtype) for _ in range(3)]
        dist.all_gather(every, torch.tensor([values[rank]] * 5).to(dtype))
        if not torch.equal(moved, torch.tensor([values[2]] * 5).to(dtype)) or not torch.equal(torch.stack(every)[:, 0], torch.tensor(values).to(dtype)):
            wrong.append(f"moves of {dtype}")
    return wrong


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_14_each_cell_is_right_or_refused_by_name(transport):
    assert on_ranks(3, table, env={"TANDEM_TRANSPORT": transport}) == [[]] * 3


# 16: counts past 2^31

def huge_counts(rank):
    count = 2**31 + 17
    x = torch.arange(count % 1000003, dtype=torch.int64).mul_(31).remainder_(7).to(torch.uint8)  # repeated, or the filling needs most of the time
    block = x.repeat(-(-count // len(x)))[:count].contiguous().add_(rank)
    expected = [2 * block[i].item() + (1 if rank == 0 else -1) for i in (0, 2**31 - 1, 2**31, count - 1)]
    dist.all_reduce(block)
    assert [block[i].item() for i in (0, 2**31 - 1, 2**31, count - 1)] == expected
    part = block[: 11 * 10**8].clone()
    both = torch.empty(2 * len(part), dtype=torch.uint8)
    dist.all_gather_into_tensor(both, part)
    assert torch.equal(both[: len(part)], part) and torch.equal(both[len(part):], part)


@pytest.mark.skipif("TDM_HUGE_TESTS" not in os.environ, reason="10 GB of memory: TDM_HUGE_TESTS=1 runs it")
def test_16_counts_past_2_to_the_31():
    on_ranks(2, huge_counts, limit_s=300)


# 17: halves are summed in float32 and rounded once

def halves(rank):
    for dtype, big, exact in ((torch.bfloat16, 256, 264), (torch.float16, 2048, 2056)):
        tensor = torch.full((1_000_000,), big if rank == 0 else 1, dtype=dtype)
        dist.all_reduce(tensor)
        assert tensor.min() == tensor.max() == exact, (dtype, tensor.min(), tensor.max())


def test_17_small_addends_count():
    on_ranks(8, halves)


# 20, 22, 30: DistributedDataParallel

class Pair(torch.nn.Module):
    """Two weights; the input says by what each is multiplied, None: not used."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))

    def forward(self, by_a, by_b):
        return sum(weight * by for weight, by in ((self.a, by_a), (self.b, by_b)) if by is not None)


def unused(rank):
    model = Pair()
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, weight_decay=0.1)
    ddp(None, 1.0).backward()
    optimizer.step()
    assert model.a.grad is None and model.a.item() == 1.0
    optimizer.zero_grad()
    ddp(2.0 if rank == 0 else None, 1.0).backward()
    assert model.a.grad.item() == 1.0


def test_20_a_parameter_nobody_uses_keeps_its_value():
    on_ranks(2, unused)


def micro_batches(rank):
    gradients = {0: [1.0, 3.0], 1: [2.0, 5.0]}[rank]
    model = Pair()
    ddp = DistributedDataParallel(model)
    with ddp.no_sync():
        ddp(gradients[0], gradients[0]).backward()
    ddp(gradients[1], gradients[1]).backward()
    assert model.a.grad.item() == model.b.grad.item() == 5.5
    ddp.zero_grad()  # a last, shorter cycle
    ddp(gradients[0], gradients[0]).backward()
    assert model.a.grad.item() == 1.5


def test_22_gradients_of_micro_batches_are_averaged_once():
    on_ranks(2, micro_batches)


# 24: buckets as the user asked for them

def buckets(rank, cap_mb):
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(16)])  # 4.2 MB
    ddp = DistributedDataParallel(model, bucket_cap_mb=cap_mb)
    for _ in range(2):  # buckets are made again after the first step
        ddp(torch.ones(1, 256)).sum().backward()
    with torch.profiler.profile() as profile:
        ddp(torch.ones(1, 256)).sum().backward()
    return sum(event.name == "record_param_comms" for event in profile.events())


def test_24_one_bucket_is_one_call_a_step():
    assert on_ranks(2, buckets, 100) == [1, 1]
    assert on_ranks(2, buckets, 1) == [4, 4]  # a layer has a bit more than a quarter of that


# 26: evaluation on one rank alone

def evaluates_alone(rank):
    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    ddp = DistributedDataParallel(model)
    for _ in range(2):
        ddp(torch.randn(8, 4)).sum().backward()
    if rank == 0:
        ddp.eval()
        with torch.no_grad():
            for _ in range(3):
                ddp(torch.randn(8, 4))
        ddp.train()
    ddp(torch.randn(8, 4)).sum().backward()
    # Rank 0's statistics come before each forward; the last forward's own come with the next.
    ddp(torch.randn(8, 4))
    ddp._sync_buffers()
    return model[1].running_mean.tolist()


def test_26_evaluation_on_one_rank_makes_no_call():
    first, second = on_ranks(2, evaluates_alone)
    assert first == second


# 28: a weight in two places

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.output = torch.nn.Embedding(8, 4), torch.nn.Linear(4, 8, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens):
        return self.output(self.embedding(tokens))


def tied(rank):
    tokens = torch.tensor([[0, 1, 2], [3, 4, 5]])
    found = []
    for views in (False, True):
        torch.manual_seed(0)
        alone, model = Tied(), Tied()
        model.load_state_dict(alone.state_dict())
        ddp = DistributedDataParallel(model, gradient_as_bucket_view=views)
        (ddp(tokens[rank]).square().sum() * 2).backward()
        alone(tokens.flatten()).square().sum().backward()
        assert len(list(ddp.parameters())) == 1
        assert_close(model.embedding.weight.grad, alone.embedding.weight.grad)
        found.append(model.embedding.weight.grad.tolist())
    return found


def test_28_the_gradient_of_a_tied_weight_is_the_sum_of_its_uses():
    first, second = on_ranks(2, tied)
    assert first == second


def uneven(rank):
    seen = []
    for by_initial_world in (True, False):
        model = Pair()
        ddp = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.125)
        last = None
        with ddp.join(divide_by_initial_world_size=by_initial_world):
            for step in range(5 if rank == 0 else 3):
                optimizer.zero_grad()
                ddp(4.0, 4.0).backward()
                last = model.a.grad.item()
                optimizer.step()
        weights = [torch.zeros(1) for _ in range(2)]
        dist.all_gather(weights, model.a.detach())
        equal(weights[0], weights[1])
        seen.append(last)
    return seen


def test_30_join_divides_by_the_initial_world_or_by_active_ranks():
    told = on_ranks(2, uneven)
    assert told == [[2.0, 4.0], [4.0, 4.0]]


def stop_without_join(rank):
    began, ddp = time.monotonic(), DistributedDataParallel(Pair())
    try:
        for _ in range(5 if rank == 0 else 3):
            ddp(1.0, 1.0).backward()
        dist.destroy_process_group()
        return "finished", 0
    except RuntimeError as error:
        return str(error), time.monotonic() - began


def test_30_without_join_the_longer_rank_ends_with_an_error_that_names_the_other():
    (text, seconds), (other, _) = on_ranks(2, stop_without_join, timeout_s=10)
    assert other == "finished" and "rank 1" in text and seconds < 12, (text, seconds)
