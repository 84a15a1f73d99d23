#!/usr/bin/env python3
"""How long a job takes that only starts, meets once and ends.

start.py [--runs 11] [--ranks 8]     Targets: `tandem run -n 8 -- true` under 50 ms; a program that meets once under 100 ms.
"""
import argparse
import shutil

import harness as h


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--runs", type=int, default=11)
    p.add_argument("--ranks", type=int, default=8)
    a = p.parse_args()
    ranks = str(a.ranks)
    meet = h.compile_c(h.ROOT / "bench/meet.c", "meet", "cc", f"-I{h.ROOT / 'include'}", f"-L{h.BUILD}", f"-Wl,-rpath,{h.BUILD.resolve()}",
                       "-ltandem")
    commands = {"tandem run, true": [h.TANDEM, "run", "-n", ranks, "--", shutil.which("true")],
                "tandem run, meets": [h.TANDEM, "run", "-n", ranks, "--", meet]}
    for kind in h.mpis():
        commands[kind] = h.mpirun(kind, a.ranks, h.compile_mpi(kind, "meet_mpi.c"))
    rows = h.alternate({name: lambda c=command: {"ms": h.run(c)[1] * 1e3} for name, command in commands.items()}, a.runs)
    if (h.VENV / "bin/python").exists():  # seconds each: two are enough
        torch = {"torchrun": lambda: {"ms": h.run(h.torchrun(a.ranks, "meet_torch.py"), OMP_NUM_THREADS="1")[1] * 1e3}}
        rows |= h.alternate(torch, 2)
    found = {name: {"ms": h.median_of(times, "ms"), "range_ms": h.spread_of(times, "ms")} for name, times in rows.items()}
    h.show(f"start and end of {a.ranks} ranks, milliseconds (medians)", ["", "ms", "fastest", "slowest"],
           [[name, row["ms"], *row["range_ms"]] for name, row in found.items()])
    h.report("start", {"ranks": a.ranks, "runs": a.runs, "jobs": found})


main()
