#!/usr/bin/env python3
"""allreduce of float32, sum, in place, beside Open MPI, MPICH and what this machine's memory, or TCP over loopback, allows.

allreduce.py [--pairs 3] [--ranks 2] [--sizes 8,16384,...] [--transport shm|tcp] [--torch]
Targets: shm, 1 MiB and 25 MiB: at least 3 times the best MPI, and within 1.5 times the limit; tcp: as fast as the best MPI, from
25 MiB on 1.2 times the best of MPI and gloo.
"""
import argparse
import json

import harness as h


def peer_lines(text):
    return {int(size): float(us) for size, us in (line.split() for line in text.splitlines() if line.strip())}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--ranks", type=int, default=h.RANKS)
    p.add_argument("--sizes", default="8,16384,262144,1048576,4194304,26214400,104857600")
    p.add_argument("--transport", choices=["shm", "tcp"], default="shm", help="of all sides; tcp is over loopback")
    p.add_argument("--torch", action="store_true", help="measure gloo through PyTorch too")
    a = p.parse_args()
    sizes = [int(size) for size in a.sizes.split(",")]
    words = [str(size) for size in sizes]

    def tandem():
        found = {}
        for size in words:
            text, _, _ = h.run([h.TANDEM, "bench", "allreduce", "-n", a.ranks, "-b", size, "-e", size, "--memory", "tandem", "--transport", a.transport,
                                  "--json"])
            for line in map(json.loads, text.splitlines()):
                assert line["wrong"] == 0, line
                if line["in_place"]:
                    found[line["bytes"]] = line["time_us"]
        return found

    if a.transport == "tcp":
        limit = [h.compile_c(h.ROOT / "bench/tcp_limit.c", "tcp_limit", "cc", "-D_GNU_SOURCE")]
    else:
        limit = [h.compile_c(h.PEERS / "allreduce_limit.c", "allreduce_limit"), a.ranks]
    sides = {"tandem": tandem}
    if a.transport == "shm" or a.ranks == 2:
        sides["limit"] = lambda: peer_lines(h.run([*limit, *words])[0])
    for kind in h.mpis():
        program = h.compile_c(h.PEERS / "allreduce_mpi.c", f"allreduce_{kind}", f"mpicc.{kind}")
        sides[kind] = lambda kind=kind, program=program: peer_lines(h.run(h.mpirun(kind, a.ranks, program, *words, transport=a.transport))[0])
    if a.torch:
        sides["gloo"] = lambda: peer_lines(h.run(h.torchrun(a.ranks, "allreduce_torch.py", *words), OMP_NUM_THREADS="1")[0])

    times = h.alternate(sides, a.pairs)
    rows = []
    for size in sizes:
        us = {name: h.median_of(runs, size) for name, runs in times.items()}
        best_mpi = min((us[kind] for kind in h.mpis()), default=None)
        rows.append({"bytes": size, "time_us": us, "range_us": {name: h.spread_of(runs, size) for name, runs in times.items()},
                     "faster_than_best_mpi": h.ratio(best_mpi, us["tandem"]), "times_the_limit": h.ratio(us["tandem"], us.get("limit"))})
    h.show(f"allreduce over {a.transport}, {a.ranks} ranks, float32, sum, in place: microseconds (medians of {a.pairs} runs)",
           ["bytes", *times, "best MPI / tandem", "tandem / limit"],
           [[row["bytes"], *row["time_us"].values(), row["faster_than_best_mpi"], row["times_the_limit"]] for row in rows])
    h.report("allreduce", {"ranks": a.ranks, "transport": a.transport, "pairs": a.pairs, "sizes": rows})


main()
