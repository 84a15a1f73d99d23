"""What goes wrong reaches every rank as the exception that torch's users catch, within the time-out, and names who is at fault."""
import datetime
import os
import signal
import time

import torch
import torch.distributed as dist

from ranks import on_ranks

CPU = torch.device("cpu")


def caught(call):
    """(type's name, text, seconds) of what call() raises."""
    began = time.monotonic()
    try:
        call()
    except Exception as error:  # noqa: BLE001  the test looks at it
        return type(error).__name__, str(error), time.monotonic() - began
    return "nothing", "", time.monotonic() - began


def mismatch(rank):
    seen = {}
    for name in ("sync", "wait", "future"):
        group = dist.new_group(group_desc="seven or eight")
        t = torch.ones(7 + rank)
        if name == "sync":
            seen[name] = caught(lambda: dist.all_reduce(t, group=group))
        else:
            work = dist.all_reduce(t, group=group, async_op=True)
            seen[name] = caught(work.wait if name == "wait" else work.get_future().wait)
            seen[name + " again"] = caught(work.wait)
            seen[name + " state"] = work.is_completed(), work.is_success(), type(work.exception()).__name__
        seen[name + " after"] = caught(lambda: dist.barrier(group=group))
    group = dist.new_group()
    seen["other call"] = caught(lambda: dist.all_reduce(torch.ones(1), group=group) if rank else dist.barrier(group=group))
    dist.all_reduce(torch.ones(1))  # the others are as well as before
    return seen


def late(rank, how):
    if how == "call":
        call = lambda: dist.barrier(timeout=datetime.timedelta(seconds=1))  # noqa: E731
    elif how == "set_timeout":
        dist.group.WORLD.set_timeout(datetime.timedelta(seconds=1))
        call = dist.barrier
    else:
        group = dist.new_group(timeout=datetime.timedelta(seconds=1))
        call = lambda: dist.all_reduce(torch.ones(1), group=group)  # noqa: E731
    if rank == 1:
        time.sleep(2)
    return caught(call)


def death(rank):
    work = dist.all_reduce(torch.ones(1 << 20), async_op=True) if rank else None
    if rank == 0:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    seen = caught(work.wait), caught(dist.barrier)
    rest = dist.new_group([1, 2], use_local_synchronization=True)  # those that are left go on
    t = torch.ones(1)
    dist.all_reduce(t, group=rest)
    return *seen, t.item()


def aborted(rank):
    if rank == 1:
        dist.group.WORLD._get_backend(CPU).abort()
        return caught(dist.barrier)
    return caught(lambda: dist.all_reduce(torch.ones(10), async_op=True).wait())  # the abort may come before or behind its start


def missing_at_the_start(rank):
    import tandem_torch  # noqa: F401

    os.environ.update(MASTER_ADDR="127.0.0.1")
    if rank == 2:
        return None
    store = dist.FileStore(os.environ["STORE"], 3)
    return caught(lambda: dist.init_process_group("tandem", store=store, rank=rank, world_size=3, timeout=datetime.timedelta(seconds=2)))


def part_fails(rank):
    """A group of two fails; the world and groups made later live on."""
    group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=1))
    found = caught(lambda: dist.all_reduce(torch.ones(2), group=group)) if rank == 0 else None
    dist.all_reduce(torch.ones(3))
    if rank == 1:
        found = caught(lambda: dist.all_reduce(torch.ones(2), group=group))
    later, sum_of_ranks = dist.new_group([0, 1]), torch.tensor([float(rank)])
    if rank < 2:
        dist.all_reduce(sum_of_ranks, group=later)
    return found, sum_of_ranks.item()


def parent_goes_first(rank):
    group, t = dist.new_group([0, 1]), torch.ones(1000)
    backend = dist.group.WORLD._get_backend(CPU)
    backend.shutdown()
    dist.all_reduce(t, group=group)  # what both share stays while one lives
    work = dist.all_reduce(t, group=group, async_op=True)
    dist.destroy_process_group()
    work.wait()
    assert torch.equal(t, torch.full((1000,), 4.0))
    return caught(lambda: group.allreduce([t]))[1]


def test_different_calls_are_an_error_on_all_ranks():
    for rank, seen in enumerate(on_ranks(2, mismatch)):
        for name in ("sync", "wait", "wait again", "future"):
            kind, text, _ = seen[name]
            assert kind == "DistBackendError" and "all_reduce" in text and '"seven or eight"' in text, (name, text)
            assert "7" in text and "8" in text and f"rank {rank}" in text and f"rank {1 - rank}" in text, text
        assert seen["wait state"][:2] == (True, False)
        assert seen["sync after"][0] == "DistBackendError"
        kind, text, _ = seen["other call"]
        assert kind == "DistBackendError" and "barrier" in text and "allreduce" in text, text


def test_time_outs_of_a_call_and_of_a_group():
    for how in ("call", "set_timeout", "group"):
        results = on_ranks(3, late, how)
        for rank in (0, 2):
            kind, text, seconds = results[rank]
            assert kind == "DistBackendError" and " Timed out " in text and "rank 1" in text and 0.5 < seconds < 3, (how, results[rank])


def test_death_of_a_rank_is_told_to_all_at_once():
    for seen in on_ranks(3, death, dead=(0,))[1:]:
        for kind, text, seconds in seen[:2]:
            assert kind == "DistBackendError" and "rank 0" in text and seconds < 3, text
        assert seen[2] == 2.0


def test_an_abort_ends_the_others_waits():
    waited, own = on_ranks(2, aborted)
    assert waited[0] == own[0] == "DistBackendError" and "abort" in waited[1] and waited[2] < 3, waited


def test_who_does_not_come_to_the_start_is_named(tmp_path):
    results = on_ranks(3, missing_at_the_start, init=False, env={"STORE": str(tmp_path / "store")})
    for kind, text, seconds in results[:2]:
        assert kind == "DistBackendError" and " Timed out " in text and "rank 2" in text and seconds < 4, text


def test_a_group_that_fails_leaves_the_others_alone():
    (first, one), (second, other), (none, _) = on_ranks(3, part_fails)
    assert one == other == 1.0 and none is None
    for name, text, _ in (first, second):
        assert name == "DistBackendError" and "rank 1 did not arrive within 1 s" in text and "default_pg" in text, text


def test_groups_may_be_destroyed_in_any_order():
    assert all("the process group was destroyed" in text for text in on_ranks(2, parent_goes_first))
