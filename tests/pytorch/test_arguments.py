"""Wrong arguments are an error of the caller alone, before anything is sent: a RuntimeError, as users of gloo catch it,
after which the group works. Each call is made by all ranks of a group of three, on gloo too."""
import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks

WORLD = 3


def options(kind, **values):
    made = getattr(dist, kind)()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def still_works(pg):
    tensor = torch.ones(5)
    pg.allreduce([tensor]).wait()
    return bool((tensor == WORLD).all())


def wrong_calls(rank, cases):
    """Makes each call of cases(pg, rank): [(name, call)]; the names of those that end otherwise than they should."""
    pg = dist.group.WORLD
    wrong = []
    for name, call in cases(pg, rank):
        try:
            work = call()
            if work is not None:
                work.wait()
            wrong.append(f"{name}: no error")
        except RuntimeError as error:
            if len(str(error)) < 10:
                wrong.append(f"{name}: says only '{error}'")
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
    if not still_works(pg):
        wrong.append("all_reduce is wrong afterwards")
    return wrong


def tensors():
    return torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2)


def reductions(pg, rank):
    one, double, two = tensors()
    sparse = torch.sparse_coo_tensor([[0]], [1.0], size=(4,))
    other = torch.sparse_coo_tensor([[0]], [1.0], size=(2,))

    def all_reduce(*given, op=dist.ReduceOp.SUM):
        return pg.allreduce(list(given), options("AllreduceOptions", reduceOp=op))

    def reduce(*given, root=0, part=0):
        return pg.reduce(list(given), options("ReduceOptions", rootRank=root, rootTensor=part))

    def coalesced(*given):
        return pg.allreduce_coalesced(list(given), options("AllreduceCoalescedOptions"))

    return [
        ("allreduce of nothing", all_reduce),
        ("allreduce of two types", lambda: all_reduce(one, double)),
        ("allreduce of two sizes", lambda: all_reduce(one, two)),
        ("allreduce of dense and sparse", lambda: all_reduce(one, other)),
        ("allreduce of two sparse sizes", lambda: all_reduce(other, sparse)),
        ("sparse product", lambda: all_reduce(sparse, op=dist.ReduceOp.PRODUCT)),
        ("sparse minimum", lambda: all_reduce(sparse, op=dist.ReduceOp.MIN)),
        ("bits of floats", lambda: all_reduce(one, op=dist.ReduceOp.BAND)),
        ("coalesced nothing", coalesced),
        ("coalesced types", lambda: coalesced(one, double)),
        ("coalesced layouts", lambda: coalesced(one, other)),
        ("reduce to -1", lambda: reduce(one, root=-1)),
        ("reduce to one past the last", lambda: reduce(one, root=WORLD)),
        ("reduce into tensor 1 of one", lambda: reduce(one, root=rank, part=1)),
        ("reduce of two tensors", lambda: reduce(one, one.clone(), root=rank)),
        ("reduce of nothing", lambda: reduce(root=rank)),
    ]


def moves(pg, rank):
    one, double, two = tensors()
    away = (rank + 1) % WORLD

    def broadcast(*given, root=rank, part=0):
        return pg.broadcast(list(given), options("BroadcastOptions", rootRank=root, rootTensor=part))

    def scatter(outputs, inputs, root):
        return pg.scatter(outputs, inputs, options("ScatterOptions", rootRank=root))

    def gather(outputs, inputs, root):
        return pg.gather(outputs, inputs, options("GatherOptions", rootRank=root))

    return [
        ("broadcast from -1", lambda: broadcast(one, root=-1)),
        ("broadcast from one past the last", lambda: broadcast(one, root=WORLD)),
        ("broadcast of tensor -1", lambda: broadcast(one, part=-1)),
        ("broadcast of tensor 1 of one", lambda: broadcast(one, part=1)),
        ("broadcast of nothing", broadcast),
        ("broadcast of two types", lambda: broadcast(one, double)),
        ("broadcast of two sizes", lambda: broadcast(one, two)),
        ("scatter from -1", lambda: scatter([one], [], -1)),
        ("scatter from one past the last", lambda: scatter([one], [], WORLD)),
        ("scatter into nothing", lambda: scatter([], [], 0)),
        ("scatter into two", lambda: scatter([one, one], [], 0)),
        ("scatter without input", lambda: scatter([one], [], rank)),
        ("scatter of two lists", lambda: scatter([one], [[one] * WORLD] * 2, rank)),
        ("scatter of too few", lambda: scatter([one], [[one] * (WORLD - 1)], rank)),
        ("scatter of too many", lambda: scatter([one], [[one] * (WORLD + 1)], rank)),
        ("scatter of another type", lambda: scatter([one], [[double] * WORLD], rank)),
        ("scatter of another size", lambda: scatter([one], [[two] * WORLD], rank)),
        ("scatter with input elsewhere", lambda: scatter([one], [[one] * WORLD], away)),
        ("gather to -1", lambda: gather([], [one], -1)),
        ("gather to one past the last", lambda: gather([], [one], WORLD)),
        ("gather of nothing", lambda: gather([], [], 0)),
        ("gather of two", lambda: gather([], [one, one], 0)),
        ("gather without output", lambda: gather([], [one], rank)),
        ("gather into two lists", lambda: gather([[one] * WORLD] * 2, [one], rank)),
        ("gather into too few", lambda: gather([[one] * (WORLD - 1)], [one], rank)),
        ("gather into too many", lambda: gather([[one] * (WORLD + 1)], [one], rank)),
        ("gather of another type", lambda: gather([[double] * WORLD], [one], rank)),
        ("gather of another size", lambda: gather([[two] * WORLD], [one], rank)),
        ("gather with output elsewhere", lambda: gather([[one] * WORLD], [one], away)),
    ]


def all_to_all_ranks(pg, rank):
    one, double, two = tensors()
    six, halves = torch.zeros(6), torch.zeros(6, dtype=torch.float16)
    split = options("AllToAllOptions")
    ragged = [torch.zeros(1)] * WORLD
    return [
        ("allgather of nothing", lambda: pg.allgather([], [])),
        ("allgather into no list", lambda: pg.allgather([], [one])),
        ("allgather into two lists", lambda: pg.allgather([[one] * WORLD] * 2, [one])),
        ("allgather into too few", lambda: pg.allgather([[one] * (WORLD - 1)], [one])),
        ("allgather into too many", lambda: pg.allgather([[one] * (WORLD + 1)], [one])),
        ("allgather into other types", lambda: pg.allgather([[one, double, one]], [one])),
        ("allgather into other sizes", lambda: pg.allgather([[one, two, one]], [one])),
        ("all_gather_into_tensor that is too small", lambda: dist.all_gather_into_tensor(torch.zeros(2), one)),
        ("all_gather_into_tensor of another type", lambda: dist.all_gather_into_tensor(torch.zeros(3), double)),
        ("all_gather_coalesced of other sizes", lambda: dist.all_gather_coalesced([[torch.zeros(0)]] + [[one]] * 2, [one])),
        ("all_gather_coalesced of other types", lambda: dist.all_gather_coalesced([[double]] + [[one]] * 2, [one])),
        ("all_gather_coalesced of too many", lambda: dist.all_gather_coalesced([[one]] * (WORLD + 1), [one])),
        ("reduce_scatter_tensor of another size", lambda: dist.reduce_scatter_tensor(torch.zeros(3), six)),
        ("reduce_scatter_tensor of another type", lambda: dist.reduce_scatter_tensor(two, halves)),
        ("reduce_scatter of too few", lambda: pg.reduce_scatter([one], [[one] * (WORLD - 1)])),
        ("all_to_all_single that does not divide", lambda: pg.alltoall_base(torch.zeros(4), torch.zeros(4), [], [], split)),
        ("all_to_all_single with splits of another sum", lambda: pg.alltoall_base(six, six.clone(), [1, 1, 1], [1, 1, 1], split)),
        ("all_to_all_single with too few splits", lambda: pg.alltoall_base(six, six.clone(), [3, 3], [3, 3], split)),
        ("all_to_all into too few", lambda: pg.alltoall(ragged[:-1], ragged, split)),
    ]


def only_here(pg, rank):
    """What gloo does not check: it crashes, waits for ever or goes on."""
    one, away, split = torch.zeros(1), (rank + 1) % WORLD, options("AllToAllOptions")
    return [
        ("send to one past the last", lambda: pg.send([one], WORLD, 0)),
        ("send to -1", lambda: pg.send([one], -1, 0)),
        ("send of two", lambda: pg.send([one, one], away, 0)),
        ("receive from one past the last", lambda: pg.recv([one], WORLD, 0)),
        ("receive two", lambda: pg.recv([one, one], away, 0)),
        ("all_to_all_single of another type", lambda: pg.alltoall_base(torch.zeros(6), torch.zeros(6).half(), [], [], split)),
        ("broadcast of sparse", lambda: dist.broadcast(torch.sparse_coo_tensor([[0]], [1.0], size=(3,)), 0)),
    ]


CASES = [(backend, cases) for cases in (reductions, moves, all_to_all_ranks) for backend in ("gloo", "tandem")]


@pytest.mark.parametrize("backend, cases", [*CASES, ("tandem", only_here)])
def test_wrong_arguments_are_errors_of_the_caller(backend, cases):
    told = on_ranks(WORLD, wrong_calls, cases, backend=backend)
    assert told == [[]] * WORLD
