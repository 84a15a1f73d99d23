"""Training with sharded parameters, states and tensors on 4 ranks: FSDP2, FSDP1, ZeRO, checkpoints, DTensor, tensor parallelism,
meshes. Everything is compared with the same over gloo; all checks of a backend share one set of ranks.
"""
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks import on_ranks
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

RANKS = 4
WIDTH = 24


def net():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Tanh(), torch.nn.Linear(4 * WIDTH, WIDTH))


def steps(model, optimizer, seed, count=5, clip=False):
    draw = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(count):
        x = torch.randn(6, WIDTH, generator=draw)
        loss = (model(x) - x.flip(1)).square().mean()
        loss.backward()
        if clip:
            losses.append(full(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)).item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def full(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def weights(model):
    return [full(p).detach().flatten().tolist() for p in model.parameters()]


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def fsdp2(rank, folder, mesh=None):
    model = net()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    losses = steps(model, adam(model), 10 + rank, clip=True)
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    return losses, weights(model), {k: v.flatten().tolist() for k, v in state.items()}


def fsdp2_on_a_mesh(rank, folder):
    """Sharded over two, replicated over two."""
    return fsdp2(rank, folder, init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")))


def fsdp1(rank, folder):
    model = FullyShardedDataParallel(net(), device_id=torch.device("cpu"), use_orig_params=True)
    losses = steps(model, adam(model), 20 + rank)
    with FullyShardedDataParallel.summon_full_params(model):
        return losses, weights(model)


def zero(rank, folder):
    model = torch.nn.parallel.DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    losses = steps(model, optimizer, 30 + rank)
    optimizer.consolidate_state_dict(to=0)
    return losses, weights(model), len(optimizer.state_dict()["state"]) if rank == 0 else None


def checkpoint(rank, folder):
    """Saved in the middle, loaded into other weights: the steps after it are the same ones."""
    def fresh(seed):
        torch.manual_seed(seed)
        model = fully_shard(net())
        return model, adam(model)

    model, optimizer = fresh(1)
    steps(model, optimizer, 40 + rank)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder / "checkpoint")
    expected = steps(model, optimizer, 50 + rank)
    model, optimizer = fresh(2)
    steps(model, optimizer, 60 + rank)
    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
    dcp.load(state, checkpoint_id=folder / "checkpoint")
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    assert steps(model, optimizer, 50 + rank) == expected
    return expected


def dtensor(rank, folder):
    """Every change of placement; 10 x 7 does not divide evenly."""
    mesh = init_device_mesh("cpu", (RANKS,))
    whole = torch.arange(70.0).reshape(10, 7)
    found = []
    for placement in (Replicate(), Shard(0), Shard(1)):
        tensor = distribute_tensor(whole, mesh, [placement])
        for target in (Replicate(), Shard(0), Shard(1)):
            moved = tensor.redistribute(placements=[target])
            assert torch.equal(moved.full_tensor(), whole)
            found.append(moved.to_local().tolist())
    part = DTensor.from_local(whole + rank, mesh, [Partial()])
    for target in (Replicate(), Shard(0), Shard(1)):
        assert torch.equal(part.redistribute(placements=[target]).full_tensor(), whole * RANKS + 6)
    product = torch.mm(distribute_tensor(whole, mesh, [Shard(1)]), distribute_tensor(whole.T.contiguous(), mesh, [Shard(0)]))
    assert torch.equal(product.full_tensor(), whole @ whole.T)
    return found


def tensor_parallel(rank, folder, mesh=None):
    mesh = mesh or init_device_mesh("cpu", (RANKS,))
    model = parallelize_module(net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    losses = steps(model, adam(model), 70)  # all ranks have the same batch
    return losses, weights(model)


def two_dimensions(rank, folder):
    """Tensor parallelism inside pairs, FSDP2 between them."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = parallelize_module(net(), mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    losses = steps(model, adam(model), 80 + mesh["data"].get_local_rank())
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    return losses, {k: v.flatten().tolist() for k, v in state.items()}


CHECKS = {check.__name__: check for check in (fsdp2, fsdp2_on_a_mesh, fsdp1, zero, checkpoint, dtensor, tensor_parallel, two_dimensions)}


def body(rank, folder):
    found = {}
    for name, check in CHECKS.items():
        found[name] = check(rank, folder)
        dist.barrier()
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return {backend: on_ranks(RANKS, body, tmp_path_factory.mktemp(backend), backend=backend, limit_s=100) for backend in ("gloo", "tandem")}


def close(a, b):
    if isinstance(a, float):
        return a == pytest.approx(b, rel=1e-5, abs=1e-6)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    return a == b


@pytest.mark.parametrize("name", CHECKS)
def test_equals_gloo(trained, name):
    own, other = trained["tandem"], trained["gloo"]
    for rank in range(RANKS):
        assert close(own[rank][name], other[rank][name]), f"rank {rank}"


def test_ranks_agree(trained):
    """What is gathered is equal everywhere."""
    found = trained["tandem"]
    for name in set(CHECKS) - {"checkpoint", "dtensor"}:
        assert all(rank[name][1] == found[0][name][1] for rank in found), name
