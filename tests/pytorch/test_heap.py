"""The shared heap: which tensors lie in it, what fork() makes of it, that collectives work there in place, and that memory comes back."""
import copy
import io
import os
import threading

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from ranks import on_ranks

MIB = 1 << 18  # float32 elements


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def kinds_of_tensors(rank):
    import tandem_torch as t

    source = torch.randn(MIB)
    model = torch.nn.Linear(512, 512)
    model(torch.randn(512, 512)).sum().backward()
    buffer = io.BytesIO()
    torch.save(source, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    grown = torch.ones(10)
    grown.resize_(MIB).fill_(2)
    emptied = torch.ones(MIB)
    emptied.untyped_storage().resize_(0)
    emptied.untyped_storage().resize_(4 * MIB)
    shared = source.clone().share_memory_()
    inside = {
        "zeros": torch.zeros(MIB), "clone": source.clone(), "product": torch.mm(torch.ones(512, 512), torch.ones(512, 512)),
        "gradient": model.weight.grad, "parameter": model.weight, "loaded": loaded, "grown": grown, "emptied": emptied,
    }
    outside = [name for name, tensor in inside.items() if not t.heap_holds(tensor)]
    assert not outside, outside
    assert not t.heap_holds(torch.zeros(100)) and not t.heap_holds(shared)
    assert torch.equal(loaded, source) and torch.equal(shared, source) and torch.equal(torch.from_numpy(source.numpy()), source)
    assert torch.equal(copy.deepcopy(source), source)
    assert grown.sum() == 2 * MIB
    return t.heap_stats()["shares"]


def from_threads(rank):
    import tandem_torch as t

    wrong = []

    def work(seed):
        kept = []
        for i in range(200):
            kept.append(torch.full((16384 + 997 * (i % 50),), float(seed * 1000 + i)))
            if len(kept) > 5:
                tensor = kept.pop(0)
                if not bool((tensor == tensor[0]).all()):
                    wrong.append(i)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and t.heap_stats()["in_use"] < 4 * MIB


class Careless(Dataset):
    """Changes its own data."""

    def __init__(self):
        self.data = torch.arange(32.0 * 65536).view(32, -1)

    def __len__(self):
        return 32

    def __getitem__(self, i):
        row = self.data[i].clone()
        self.data[i].add_(1000.0)
        return row


def forks(rank):
    import tandem_torch as t

    data = Careless()
    before = data.data.clone()
    assert t.heap_holds(data.data)
    reduced = torch.ones(MIB)
    dist.all_reduce(reduced)  # a shared block too
    batches = torch.cat(list(DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="fork")))
    assert torch.equal(batches, before) and torch.equal(data.data, before)
    child = os.fork()
    if child == 0:
        mine = torch.ones(MIB)
        reduced.fill_(7)
        right = not t.heap_holds(mine) and mine.sum() == MIB and reduced.sum() == 7 * MIB
        try:
            dist.all_reduce(torch.ones(3))
            right = False
        except RuntimeError as error:
            right = right and "fork" in str(error)
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert reduced.sum() == 2 * MIB


def in_place(rank):
    import tandem_torch as t

    whole, part = torch.ones(4 * MIB), torch.ones(4 * MIB)
    before = t.heap_stats()["shares"]
    for _ in range(3):
        dist.all_reduce(whole)
    assert whole[0] == whole[-1] == 8 and t.heap_stats()["shares"] == before + 1
    dist.all_reduce(part[: 2 * MIB])  # a part of a block stays private
    assert part[0] == 2 and part[-1] == 1 and t.heap_stats()["shares"] == before + 1
    where = whole.data_ptr()
    del whole
    again = torch.full((4 * MIB,), 3.0)  # its shared block is there for the next of its size
    assert again.data_ptr() == where
    dist.all_reduce(again)
    assert again[5] == 6 and t.heap_stats()["shares"] == before + 1
    if rank == 0:  # one rank's memory is in the heap, the other's is not
        mixed = torch.full((MIB,), 1.0)
    else:
        mixed = torch.frombuffer(bytearray(4 * MIB), dtype=torch.float32)
    dist.all_reduce(mixed)
    assert mixed[0] == mixed[-1] == 1


def trainings(rank):
    import tandem_torch as t
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)

    def model():
        return torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])

    shares = {}
    ddp = torch.nn.parallel.DistributedDataParallel(model(), gradient_as_bucket_view=True, bucket_cap_mb=2)
    sharded = model()
    for layer in sharded:
        fully_shard(layer)
    fully_shard(sharded)
    for name, net in (("ddp", ddp), ("fsdp2", sharded)):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for step in range(6):
            if step == 3:
                before = t.heap_stats()["shares"]
            net(torch.randn(8, 512)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        shares[name] = t.heap_stats()["shares"] - before
    assert t.heap_stats()["shared"] > 4 * 1024 * 1024
    return shares  # in the steps behind the third


def many_steps(rank):
    import tandem_torch as t

    highest = []
    for step in range(10000):
        tensor = torch.full((16384 + (step * 7919) % (2 * MIB),), 1.0)
        if step % 4 == 0:
            dist.all_reduce(tensor)
        if step in (5000, 9999):
            highest.append((resident(), t.heap_stats()["in_use"]))
    assert highest[1][0] < highest[0][0] + (48 << 20), highest
    assert highest[1][1] < 64 << 20, highest
    torch.zeros(200 * MIB).fill_(1)
    assert t.heap_trim() >= 100 << 20
    assert t.heap_stats()["resting"] == 0


def no_heap(rank):
    import tandem_torch as t

    tensor = torch.ones(MIB)
    dist.all_reduce(tensor)
    return t.heap_stats(), t.heap_holds(tensor), t.heap_trim(), tensor[0].item()


def small_heap(rank):
    import tandem_torch as t

    tensors = [torch.full((MIB,), float(i)) for i in range(6)]  # of 1 MiB, where 4 fit
    for tensor in tensors:
        dist.all_reduce(tensor)
    return [t.heap_holds(tensor) for tensor in tensors], [tensor[-1].item() for tensor in tensors]


def imports(rank):
    import tandem_torch  # noqa: F401


def test_large_tensors_of_every_kind_lie_in_the_heap():
    assert on_ranks(1, kinds_of_tensors) == [0]
    on_ranks(1, from_threads)


def test_workers_and_children_do_not_reach_into_their_parents_memory():
    on_ranks(2, forks)


def test_collectives_work_in_place_and_share_a_block_once():
    on_ranks(2, in_place)
    assert on_ranks(2, trainings) == [{"ddp": 0, "fsdp2": 0}] * 2


def test_memory_does_not_grow_over_ten_thousand_steps_and_trim_returns_it():
    on_ranks(2, many_steps, limit_s=120)


def test_the_heap_can_be_turned_off_and_bounded():
    assert on_ranks(2, no_heap, env={"TANDEM_TORCH_HEAP": "0"}) == [({}, False, 0, 2.0)] * 2
    held, sums = on_ranks(2, small_heap, env={"TANDEM_TORCH_HEAP": "4M"})[0]
    assert sum(held) == 4 and sums == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    with pytest.raises(AssertionError, match="TANDEM_TORCH_HEAP.*much"):
        on_ranks(1, imports, init=False, env={"TANDEM_TORCH_HEAP": "much"})
