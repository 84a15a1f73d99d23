"""What PyTorch's own tests ask of any backend beside its collectives: sequence numbers, names, who is no member, coalesced
broadcasts of a model's state, tensors of wrong types. On gloo too."""
import warnings

import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks

pytestmark = pytest.mark.parametrize("backend", ["gloo", "tandem"])


def number_of(pg):
    """The backend's; ProcessGroup's refuses backends that PyTorch does not know."""
    return pg._get_backend(torch.device("cpu"))._get_sequence_number_for_group()


def numbers(rank):
    seen = []
    group, checks = dist.new_group([0, 1, 2]), dist.new_group(backend="gloo")
    for pg in (dist.group.WORLD, group):
        first = number_of(pg)
        for i in range(5):
            dist.all_reduce(torch.ones(1), group=pg)
            told = [None] * 3
            dist.all_gather_object(told, number_of(pg) - first, group=checks)
            seen.append(told)
    if rank == 1:  # one rank is ahead by a call
        work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
    told = [None] * 3
    dist.all_gather_object(told, number_of(group) - first, group=checks)
    seen.append(told)
    if rank != 1:
        dist.all_reduce(torch.ones(1), group=group)
    else:
        work.wait()
    return seen


def test_sequence_numbers_count_calls(backend):
    for seen in on_ranks(3, numbers, backend=backend):
        assert seen == [[i] * 3 for i in (1, 2, 3, 4, 5)] * 2 + [[5, 6, 5]]


def members(rank, backend):
    pair = dist.new_group([0, 1], group_desc="pair of the first")
    assert dist.get_backend() == backend and dist.get_rank() == rank
    if rank == 2:
        assert dist.get_rank(pair) == -1 and dist.get_world_size(pair) == -1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for call in (lambda: dist.all_reduce(torch.ones(1), group=pair), lambda: dist.barrier(group=pair),
                         lambda: dist.all_gather([torch.ones(1)] * 2, torch.ones(1), group=pair)):
                assert call() is None
            assert len(caught) == 3 and all("group" in str(w.message) for w in caught)
        with pytest.raises(ValueError):
            dist.get_group_rank(pair, 2)
    else:
        assert dist.get_backend(pair) == backend and pair.group_desc == "pair of the first" and dist.get_process_group_ranks(pair) == [0, 1]
        assert [dist.get_global_rank(pair, r) for r in (0, 1)] == [0, 1]
        with pytest.raises(ValueError):
            dist.broadcast(torch.ones(1), 2, group=pair)
    with pytest.raises((RuntimeError, ValueError)):
        dist.all_gather([torch.zeros(1, dtype=torch.int64)] * 3, torch.ones(1))
    with pytest.raises(TypeError):
        dist.all_reduce([torch.ones(1)])
    dist.barrier()
    dist.barrier(group=pair) if rank < 2 else None


def test_members_names_and_who_is_none(backend):
    on_ranks(3, members, backend, backend=backend)


def states(rank):
    sizes = (3, 70_000, 1, 0, 512)
    for root in (0, 1):
        tensors = [torch.full((n,), float(rank)) for n in sizes] + [torch.full((5,), rank, dtype=torch.int64)]
        dist._broadcast_coalesced(dist.group.WORLD, tensors, 256, root)
        assert all((t == root).all() for t in tensors)
    parameters = [torch.ones(2, 3), torch.ones(4)]
    dist._verify_params_across_processes(dist.group.WORLD, parameters, None)
    module = torch.nn.BatchNorm1d(4)
    with torch.no_grad():
        module.running_mean.fill_(rank)
    torch.nn.parallel.DistributedDataParallel(module)
    assert (module.running_mean == 0).all()


def test_states_of_models_are_broadcast(backend):
    on_ranks(2, states, backend=backend)


def local_state(rank):
    other = dist.new_group(backend="gloo")
    ours, theirs = torch.ones(3), torch.ones(3)
    works = [dist.all_reduce(ours, async_op=True), dist.all_reduce(theirs, group=other, async_op=True)]
    for work in works:
        work.wait()
    assert ours[0] == theirs[0] == 2
    assert dist.get_pg_count() == 2 and dist.is_initialized()
    dist.destroy_process_group()
    assert not dist.is_initialized()


def test_a_group_of_gloo_lives_beside(backend):
    on_ranks(2, local_state, backend=backend)
