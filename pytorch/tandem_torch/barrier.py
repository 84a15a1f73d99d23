"""monitored_barrier: a barrier that says who did not come.

torch.distributed.monitored_barrier refuses every backend but gloo, so this one stands beside it. It uses the group's store
and no message, so a rank that is missing does no harm to the group: calls go on when it has come. Under the prefix of the
group's store, for the n-th barrier of the group:

    n/here/R     rank R came
    n/came       how many came; who makes it the size of the group writes `all` into n/verdict
    n/verdict    `all`, or the missing ranks. Whoever's time is over first writes it, so all ranks, the late ones too,
                 read the same
"""
import time
from datetime import timedelta
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

ALL = "all"
LONGEST_NAP_S = 0.02

_count = WeakKeyDictionary()  # process group -> barriers made


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Returns when all ranks of `group` have called it. If some do not come in time, every rank that calls it, the late ones
    too, raises a DistBackendError with the same sorted list of all the ranks that were missing.

    group           None: the default one. A rank that is not in it returns at once.
    timeout         timedelta or seconds; None: the group's own. The first rank that comes starts it.
    wait_all_ranks  of torch.distributed.monitored_barrier, where False ends with the first rank found missing. Either way
                    the time is waited out here, and the list complete.
    """
    del wait_all_ranks
    if group is None:
        group = dist.group.WORLD
    if group is None or group is dist.GroupMember.NON_GROUP_MEMBER:
        if not dist.is_initialized():
            raise ValueError("monitored_barrier: there is no process group; call init_process_group first")
        return
    seconds = _seconds(group, timeout)
    number = _count[group] = _count.get(group, 0) + 1
    store = dist.PrefixStore("tandem/monitored_barrier", group.get_group_store())
    verdict = _arrive(store, number, group, seconds)
    if verdict != ALL:
        raise dist.DistBackendError(_text(group, verdict, seconds))


def _seconds(group, timeout):
    if timeout is None:
        timeout = group._get_backend(torch.device("cpu")).options._timeout
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if not seconds > 0:
        raise ValueError(f"monitored_barrier: the time-out is {seconds} s; it must be more than 0")
    return seconds


def _arrive(store, number, group, seconds):
    """Says that this rank came, waits, and returns the verdict."""
    deadline, nap = time.monotonic() + seconds, 0.0005
    rank, size, key = group.rank(), group.size(), f"{number}/verdict"
    store.set(f"{number}/here/{rank}", "1")
    if store.add(f"{number}/came", 1) == size and _decide(store, key, ALL) == ALL:
        _forget(store, number - 1, size)
        return ALL
    while not store.check([key]):
        if time.monotonic() >= deadline:
            missing = [r for r in range(size) if not store.check([f"{number}/here/{r}"])]
            return _decide(store, key, " ".join(map(str, missing)) or ALL)
        time.sleep(nap)
        nap = min(2 * nap, LONGEST_NAP_S)
    return store.get(key).decode()


def _decide(store, key, verdict):
    """The verdict that was written first, here or elsewhere."""
    return store.compare_set(key, "", verdict).decode()


def _forget(store, number, size):
    """All ranks have come to the next one, so nobody reads this one any more."""
    for name in ("verdict", "came", *(f"here/{rank}" for rank in range(size))):
        store.delete_key(f"{number}/{name}")


def _text(group, verdict, seconds):
    world = dist.get_process_group_ranks(group)
    missing = [world[int(rank)] for rank in verdict.split()]
    came = sorted(set(world) - set(missing))
    late = ""
    if dist.get_rank() in missing:
        late = f" Rank {dist.get_rank()}, which says this, came too late."
    return (f"monitored_barrier of group '{group.group_name}' ({len(world)} ranks) Timed out after {seconds:g} s: "
            f"ranks {sorted(missing)} did not come, ranks {came} did. See what the missing ones do (py-spy dump, their logs), or "
            f"give more time with timeout=.{late}")
