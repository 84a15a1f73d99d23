"""Process groups: sub-groups in every order, splits, meshes, many at once, threads, leaving and meeting again."""
import datetime
import threading

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from ranks import on_ranks

CPU = torch.device("cpu")


def total(group=None, value=None):
    t = torch.tensor([float(dist.get_rank() if value is None else value)])
    dist.all_reduce(t, group=group)
    return t.item()


def gathered(group):
    out = [torch.empty(1) for _ in range(dist.get_world_size(group))]
    dist.all_gather(out, torch.tensor([float(dist.get_rank())]), group=group)
    return [int(o.item()) for o in out]


def sub_groups(rank):
    seen = {}
    a, b = dist.new_group([0, 3]), dist.new_group([1, 2])
    seen["disjoint"] = total(a if rank in (0, 3) else b)
    backwards = dist.new_group([3, 2, 1, 0])
    seen["backwards"] = gathered(backwards), dist.get_group_rank(backwards, rank)
    same = dist.new_group([0, 1, 2, 3])
    again = dist.new_group([0, 1, 2, 3])
    works = [dist.all_reduce(torch.ones(3), group=g, async_op=True) for g in (same, again, None)]
    seen["at once"] = [w.wait() for w in works]
    local = dist.new_group([rank, rank ^ 1] if rank % 2 == 0 else [rank ^ 1, rank], use_local_synchronization=True)
    seen["local synchronization"] = total(local)
    mine, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
    seen["enumeration"] = total(mine)
    alone = dist.new_group([2])
    if rank == 2:
        seen["alone"] = total(alone)
    many = [dist.new_group([i % 4, (i + 1) % 4]) for i in range(12)]
    seen["many"] = [total(g) for g in many if g is not dist.GroupMember.NON_GROUP_MEMBER]
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    seen["mesh"] = total(mesh.get_group("dp")), total(mesh.get_group("tp")), total(mesh["dp", "tp"]._flatten().get_group())
    world = dist.group.WORLD
    split = world.split_group([1, 3] if rank % 2 else [0, 2], timeout=datetime.timedelta(seconds=9), group_name=f"half{rank % 2}", group_desc="half")
    t = torch.tensor([float(rank)])
    split.allreduce([t]).wait()
    seen["split"] = t.item(), split._get_backend(CPU).options.group_name, split.group_desc
    part = dist.new_group([0, 1, 2])
    if rank < 3:
        dist.destroy_process_group(part)
    seen["world after a sub-group"] = total()
    return seen


def threads(rank):
    groups = [dist.new_group() for _ in range(4)]
    sums = [0.0] * len(groups)

    def calls(i):
        for _ in range(100):
            sums[i] += total(groups[i], i)

    def run(targets):
        all_threads = [threading.Thread(target=t, args=a) for t, *a in targets]
        for t in all_threads:
            t.start()
        for t in all_threads:
            t.join()

    run([(calls, i) for i in range(len(groups))])
    works = []

    def start():
        for _ in range(100):
            works.append(dist.all_reduce(torch.ones(1000), async_op=True))

    run([(start,), (start,)])
    waits = [w.wait() for w in works]
    # One thread waits in a call that ends only after another thread's call of another group.
    inner = dist.new_group()
    held = threading.Event()

    def first():
        held.set()
        total(inner, 1)

    if rank == 0:
        run([(first,), (lambda: held.wait() and total(groups[0], 0),)])
    else:
        total(groups[0], 0)
        total(inner, 1)
    # The same within one group: who waits for a message does not keep others from sending.
    got = torch.zeros(2)
    if rank == 0:
        run([(dist.recv, got[:1], 1, None, 7), (dist.send, torch.full((1,), 5.0), 1, None, 8)])
    else:
        dist.recv(got[:1], 0, None, 8)
        dist.send(torch.full((1,), 6.0), 0, None, 7)
    return sums, all(waits), got[0].item()


def again_and_again(rank, path):
    import tandem_torch  # noqa: F401

    seen = []
    for _ in range(3):
        store = dist.FileStore(path, 2)
        dist.init_process_group("tandem", store=store, rank=rank, world_size=2)
        group = dist.new_group([1, 0])
        seen.append((total(), total(group)))
        kept = dist.group.WORLD
        dist.destroy_process_group()
        try:
            kept.allreduce([torch.ones(1)]).wait()
        except RuntimeError as error:
            seen.append(str(error))
    return seen


def alone(rank):
    t = torch.tensor([3, 5])
    results = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX):
        dist.all_reduce(t, op=op)
        results.append(t.tolist())
    dist.broadcast(t, 0)
    dist.barrier()
    backend = dist.group.WORLD._get_backend(CPU)
    return results, backend.name(), backend.options._timeout.total_seconds(), backend.supports_splitting


def mixed(rank, folder):
    import tandem_torch  # noqa: F401

    seen = {}
    dist.init_process_group("cpu:tandem", init_method="env://")
    seen["cpu:tandem"] = total(), dist.get_backend()
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=f"file://{folder}/gloo", rank=rank, world_size=2)  # at one address a rank may still meet the store that goes
    seen["of gloo"] = total(dist.new_group([1, 0], backend="tandem"))
    dist.destroy_process_group()
    dist.init_process_group("cpu:tandem,cuda:gloo", init_method=f"file://{folder}/both", rank=rank, world_size=2)
    seen["with cuda"] = total()
    dist.destroy_process_group()
    return seen


def test_sub_groups_of_four_ranks():
    for rank, seen in enumerate(on_ranks(4, sub_groups)):
        assert seen["disjoint"] == 3.0
        assert seen["backwards"] == ([0, 1, 2, 3], rank)  # torch sorts the list
        assert seen["at once"] == [True] * 3
        assert seen["local synchronization"] == (1.0 if rank < 2 else 5.0)
        assert seen["enumeration"] == (2.0 if rank % 2 == 0 else 4.0)
        assert seen.get("alone", 2.0) == 2.0
        pairs = [sum((i % 4, (i + 1) % 4)) for i in range(12) if rank in (i % 4, (i + 1) % 4)]
        assert seen["many"] == [float(p) for p in pairs]
        assert seen["mesh"] == (2.0 * (rank % 2) + 2, 1.0 if rank < 2 else 5.0, 6.0)
        assert seen["split"] == (4.0 if rank % 2 else 2.0, f"half{rank % 2}", "half")
        assert seen["world after a sub-group"] == 6.0


def test_threads_on_different_groups_and_on_one():
    for rank, (sums, waited, got) in enumerate(on_ranks(2, threads)):
        assert sums == [200.0 * i for i in range(4)] and waited and got == 6.0 - rank


def test_ranks_that_left_meet_again_on_the_same_store(tmp_path):
    for seen in on_ranks(2, again_and_again, str(tmp_path / "store"), init=False):
        assert [s for s in seen if isinstance(s, tuple)] == [(1.0, 1.0)] * 3
        assert all("was destroyed" in s for s in seen if isinstance(s, str)) and len(seen) == 6


def test_one_rank_alone():
    [(results, name, timeout, splits)] = on_ranks(1, alone, timeout_s=17)
    assert results == [[3, 5]] * 3 and name == "tandem" and timeout == 17 and splits


def test_devices_and_a_group_of_another_backend(free_port, tmp_path):
    for seen in on_ranks(2, mixed, str(tmp_path), init=False, env={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)}):
        assert seen == {"cpu:tandem": (1.0, "cpu:tandem"), "of gloo": 1.0, "with cuda": 1.0}
