"""monitored_barrier: every rank has the same complete list of those who did not come, and the group lives on."""
import re
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks


def missing_ranks(call):
    try:
        call()
    except dist.DistBackendError as error:
        assert " Timed out " in str(error)
        return [int(r) for r in re.search(r"ranks \[([\d, ]+)\] did not come", str(error)).group(1).split(",")]
    return "all came"


def sleepers(rank, asleep):
    from tandem_torch import monitored_barrier
    for _ in range(3):
        monitored_barrier(timeout=timedelta(seconds=20))
    if rank in asleep:
        time.sleep(2.5)
    began = time.monotonic()
    found = missing_ranks(lambda: monitored_barrier(timeout=1.0))
    seconds = time.monotonic() - began
    monitored_barrier(wait_all_ranks=True)  # they have come by now: all of the group goes on
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor[0] == dist.get_world_size()
    return found, seconds


@pytest.mark.parametrize("asleep", [[2, 4], [0]])
def test_every_rank_lists_exactly_the_sleepers(asleep):
    told = on_ranks(5, sleepers, asleep)
    assert [found for found, _ in told] == [asleep] * 5
    assert all(seconds < (0.5 if rank in asleep else 2.4) for rank, (_, seconds) in enumerate(told)), told


def in_a_group(rank):
    from tandem_torch import monitored_barrier
    group = dist.new_group([1, 3, 2], timeout=timedelta(seconds=1))
    monitored_barrier(group)  # rank 0 is no member
    found = "not asked"
    if rank in (1, 2):
        found = missing_ranks(lambda: monitored_barrier(group))  # the group's own time
    dist.barrier()
    with pytest.raises(ValueError, match="more than 0"):
        monitored_barrier(timeout=timedelta(0))
    return found


def test_a_group_has_its_own_time_and_names_ranks_of_the_world():
    assert on_ranks(4, in_a_group) == ["not asked", [3], [3], "not asked"]


def without_group(rank):
    from tandem_torch import monitored_barrier
    with pytest.raises(ValueError, match="init_process_group"):
        monitored_barrier()


def test_there_must_be_a_process_group():
    on_ranks(1, without_group, init=False)
