"""One collective, or messages to the next rank, through torch.distributed over gloo.

torchrun --nproc-per-node N collective_torch.py [-d DTYPE] [-o REDOP] [-r ROOT] [-p in|out|both] [-w WARM-UPS] [-i WINDOWS] OP BYTES...
Prints for each size and placement `bytes in|out median p10 p90`: microseconds of one call, the mean over the ranks. Sizes are those of
`tandem bench`: bytes of the larger buffer. Exit code 2: gloo cannot do that.
"""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist

WINDOW_S = 0.02  # a window holds as many calls as fit, at least one
TYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16, "int8": torch.int8,
         "uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64, "bool": torch.bool, "complex64": torch.complex64}
REDOPS = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.AVG, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX,
          "prod": dist.ReduceOp.PRODUCT, "band": dist.ReduceOp.BAND, "bor": dist.ReduceOp.BOR, "bxor": dist.ReduceOp.BXOR}
HAS_PARTS = {"reduce_scatter", "all_gather", "gather", "scatter", "alltoall"}
# The placement of each operation's interface; allreduce, broadcast and reduce work in place, the others do not.
PLACES = {"allreduce": "in", "broadcast": "in", "reduce": "in"}


def operation(a, x, rank, ranks):
    """The call to time, for a larger buffer x."""
    part = x.numel() // ranks
    own, to, root = x[:part].clone(), (rank + 1) % ranks, a.r
    at_root = rank == root
    redop = REDOPS[a.o]
    other = torch.zeros_like(x)

    def sendrecv():
        works = [dist.irecv(other, (rank - 1) % ranks), dist.isend(x, to)]
        for work in works:
            work.wait()

    return {
        "allreduce": lambda: dist.all_reduce(x, redop),
        "reduce": lambda: dist.reduce(x, root, redop),
        "broadcast": lambda: dist.broadcast(x, root),
        "all_gather": lambda: dist.all_gather_into_tensor(x, own),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(own, x, redop),
        "gather": lambda: dist.gather(own, list(x.split(part)) if at_root else None, root),
        "scatter": lambda: dist.scatter(own, list(x.split(part)) if at_root else None, root),
        "alltoall": lambda: dist.all_to_all_single(other, x),
        "sendrecv": sendrecv,
        "barrier": dist.barrier,
    }[a.op]


def window(call, calls):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - start


def mean(values):
    """Over the ranks."""
    x = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(x)
    return (x / dist.get_world_size()).tolist()


def measure(a, call):
    """Sorted microseconds of one call, a window each."""
    calls = 1
    while True:
        took = mean([window(call, calls)])[0]
        if took >= WINDOW_S / 2 or calls >= 10000:
            break
        calls *= 4 if took < WINDOW_S / 8 else 2
    for _ in range(a.w):
        call()
    return sorted(mean([window(call, calls) / calls * 1e6 for _ in range(a.i)]))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-d", default="float32")
    p.add_argument("-o", default="sum", choices=REDOPS)
    p.add_argument("-r", type=int, default=0)
    p.add_argument("-p", default="both", choices=["in", "out", "both"])
    p.add_argument("-w", type=int, default=3)
    p.add_argument("-i", type=int, default=7)
    p.add_argument("op")
    p.add_argument("bytes", type=int, nargs="+")
    a = p.parse_args()
    place = PLACES.get(a.op, "out")
    if a.d not in TYPES or a.p not in ("both", place):
        sys.exit(2)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for nbytes in a.bytes:
        count = nbytes // TYPES[a.d].itemsize
        x = torch.zeros(max(count // ranks, 1) * ranks if a.op in HAS_PARTS else max(count, 1), dtype=TYPES[a.d])
        try:
            times = measure(a, operation(a, x, rank, ranks))
        except (KeyError, RuntimeError, ValueError, NotImplementedError) as error:
            print(f"collective_torch: {a.op}: {error}", file=sys.stderr)
            sys.stderr.flush()
            os._exit(2)  # the group may wait for a call that cannot be
        if rank == 0:
            at = lambda q: times[round(q * (len(times) - 1))]
            print(f"{nbytes} {place} {at(0.5):.3f} {at(0.1):.3f} {at(0.9):.3f}", flush=True)
    dist.destroy_process_group()


main()
