#!/usr/bin/env python3
"""Collectives beside every MPI found here, gloo and what the machine allows: one row a requirement, PASS or short.

collectives.py [PART...] [--turns 5] [--budget 60] [--sizes 8,1024,...] [--ops all_gather,...] [--memory tandem|malloc]
parts, all unless some are named:
    shm      allreduce in tdm_alloc memory, 2 ranks: the best MPI at each size, and the limit program
    malloc   the same in malloc memory
    gloo     both memories against torch.distributed
    crowded  8 ranks on the cores there are, against Open MPI
    others   all_gather, reduce_scatter, broadcast, alltoall, to 25 MiB: the best MPI, and all ranks copying at once what must move
    tcp      allreduce over loopback: MPI and gloo over tcp
Sides take turns; a part ends after --turns turns, or after three and --budget seconds. shm, malloc and gloo take their turns together.
1 GiB: --sizes 1073741824. Ratios are of medians, in brackets the least and the greatest of single turns; "as fast" is 0.95.
float32, sum; in place, but alltoall out of place.
"""
import argparse
import json
import sys

import harness as h

K, M = 1 << 10, 1 << 20
SIZES = [8, K, 16 * K, 256 * K, M, 4 * M, 25 * M, 100 * M]
PARTS = ["shm", "malloc", "gloo", "crowded", "others", "tcp"]
OPS = ["all_gather", "reduce_scatter", "broadcast", "alltoall"]
AS_FAST = 0.95
CROWD = 8


def place_of(op):
    return "out" if op == "alltoall" else "in"


# ---- sides: each gives {bytes: microseconds}

def tandem(op, ranks, sizes, memory, transport="shm"):
    """A process for each size: their medians are of one run each, as those of the peers are."""
    found = {}
    for size in sizes:
        iterations = 100 if size <= 64 * K else 40 if size <= 4 * M else 7
        text, _, _ = h.run([h.TANDEM, "bench", op, "-n", ranks, "-b", size, "-e", size, "-w", 3, "-i", iterations, "--memory", memory,
                            "--transport", transport, "--json", "-q"], limit_s=120)
        for line in map(json.loads, text.splitlines()):
            if line["wrong"] != 0:
                raise RuntimeError(f"wrong results: {line}")
            if line["in_place"] == (place_of(op) == "in"):
                found[size] = line["time_us"]
    return found


def peer_lines(command, **variables):
    """Of `bytes us`, or `bytes place us p10 p90`."""
    lines = [line.split() for line in h.run(command, limit_s=300, **variables)[0].splitlines() if line.strip()]
    return {int(words[0]): float(words[2] if len(words) > 2 else words[1]) for words in lines}


def mpi_sides(op, ranks, sizes, transport="shm", family=""):
    options = ["-p", place_of(op), "-w", "2", "-i", "5", op, *map(str, sizes)]
    return {kind: lambda kind=kind: peer_lines(h.mpirun(kind, ranks, h.compile_mpi(kind, "collective_mpi.c"), *options, transport=transport))
            for kind in h.mpis() if h.mpis()[kind][0].startswith(family)}


def gloo_side(op, ranks, sizes):
    if not (h.VENV / "bin/python").exists():
        print(f"  no gloo: {h.VENV} has no python; tools/venv.sh makes it, TDM_VENV names another", file=sys.stderr)
        return {}
    return {"gloo": lambda: peer_lines(h.torchrun(ranks, "collective_torch.py", op, *map(str, sizes)), OMP_NUM_THREADS="1")}


def limit_side(program, *arguments):
    built = h.compile_c(program, program.stem, "cc", "-D_GNU_SOURCE")
    return {"limit": lambda: peer_lines([built, *map(str, arguments)])}


def patient(sides):
    """A peer that fails leaves a gap and its last lines; so does tandem."""
    def attempt(name, side):
        try:
            return side()
        except (RuntimeError, h.subprocess.SubprocessError) as error:
            print(f"  {name} failed: {str(error).strip()[-800:]}", file=sys.stderr)
            return {}

    return {name: lambda name=name, side=side: attempt(name, side) for name, side in sides.items()}


# ---- requirements

class Table:
    def __init__(self):
        self.rows = []

    def need(self, what, size, times, ours, others, least, limit=None):
        """`ours` at least `least` times as fast as the fastest of `others` that was measured. With limit=(side, factor) it is enough
        to need at most `factor` times its time."""
        medians = {name: h.median_of(runs, size) for name, runs in times.items()}
        mine = medians.get(ours)
        measured = [name for name in others if medians.get(name) is not None]
        row = {"what": what, "bytes": size, "side": ours, "us": mine, "range_us": h.spread_of(times[ours], size), "needed": least}
        if measured:
            best = min(measured, key=medians.get)
            turns = [h.ratio(theirs.get(size), own.get(size)) for own, theirs in zip(times[ours], times[best])]
            turns = [r for r in turns if r is not None]
            row |= {"against": best, "against_us": medians[best], "against_range_us": h.spread_of(times[best], size),
                    "ratio": h.ratio(medians[best], mine), "range": [min(turns), max(turns)] if turns else None}
        elif others:
            return  # no such peer here
        passed = row.get("ratio") is not None and row["ratio"] >= least
        if limit is not None and not passed and mine is not None and medians.get(limit[0]):
            row["of_limit"] = mine / medians[limit[0]]
            passed = row["of_limit"] <= limit[1]
        row["verdict"] = "PASS" if passed else "short"
        self.rows.append(row)

    def show(self, title):
        def span(pair):
            return "-" if pair is None else " (" + "..".join(f"{v:,.4g}" for v in pair) + ")"

        cells = [[r["what"], r["bytes"], f"{r['us'] or 0:,.4g}{span(r['range_us'])}", r.get("against", "-"),
                  f"{r.get('against_us') or 0:,.4g}{span(r.get('against_range_us'))}",
                  f"{r.get('ratio') or 0:.2f}{span(r.get('range'))}",
                  f"{r['needed']:.2f}" + (f", or {r['of_limit']:.2f} of the limit" if "of_limit" in r else ""), r["verdict"]] for r in self.rows]
        h.show(title, ["what", "bytes", "tandem us", "against", "us", "times as fast", "needed", ""], cells)
        short = sum(r["verdict"] != "PASS" for r in self.rows)
        print(f"  {len(self.rows) - short} of {len(self.rows)} requirements", file=sys.stderr)


def within_limit(table, what, size, times, ours):
    if size >= 16 * K:
        table.need(what, size, times, ours, ["limit"], 1 / 1.25)


def of_pair(a, parts):
    """shm, malloc, gloo: allreduce of two ranks."""
    memories = [m for m, part in (("tandem", "shm"), ("malloc", "malloc")) if part in parts or "gloo" in parts]
    sides = {m: lambda m=m: tandem("allreduce", h.RANKS, a.sizes, m) for m in memories}
    if "shm" in parts:
        sides |= limit_side(h.PEERS / "allreduce_limit.c", h.RANKS, *a.sizes)
    if "shm" in parts or "malloc" in parts:
        sides |= mpi_sides("allreduce", h.RANKS, a.sizes)
    if "gloo" in parts:
        sides |= gloo_side("allreduce", h.RANKS, a.sizes)
    times = h.alternate(patient(sides), a.turns, a.budget * len(parts))
    table = Table()
    for size in a.sizes:
        if "shm" in parts:
            least = AS_FAST if size < 16 * K or size > 100 * M else 5 if size <= 4 * M else 4
            table.need("tdm_alloc, best MPI", size, times, "tandem", h.mpis(), least, ("limit", 1.1) if size >= 25 * M else None)
            within_limit(table, "tdm_alloc, limit", size, times, "tandem")
        if "malloc" in parts:
            table.need("malloc, best MPI", size, times, "malloc", h.mpis(), AS_FAST if size < 16 * K or size > 100 * M else 2)
        if "gloo" in parts:
            for memory in memories:
                table.need(f"{memory}, gloo", size, times, memory, ["gloo"], 50 if size <= 16 * K else 25 if size <= 4 * M else 6)
    table.show(f"allreduce, {h.RANKS} ranks")
    return table.rows


def of_crowd(a):
    sizes = [size for size in a.sizes if size <= 25 * M]
    sides = {"tandem": lambda: tandem("allreduce", CROWD, sizes, a.memory)} | mpi_sides("allreduce", CROWD, sizes, family="openmpi")
    times = h.alternate(patient(sides | limit_side(h.PEERS / "allreduce_limit.c", CROWD, *sizes)), a.turns, a.budget)
    table = Table()
    for size in sizes:
        table.need("Open MPI", size, times, "tandem", [k for k in sides if k != "tandem"], 3 if size == 25 * M else AS_FAST)
    table.show(f"allreduce, {CROWD} ranks on {len(h.os.sched_getaffinity(0))} cores, {a.memory} memory")
    return table.rows


def of_others(a):
    rows = []
    sizes = [size for size in a.sizes if size <= 25 * M or a.sizes is not SIZES]  # four operations in a minute
    for op in a.ops:
        sides = {"tandem": lambda: tandem(op, h.RANKS, sizes, a.memory)} | limit_side(h.ROOT / "bench/copy_limit.c", h.RANKS, op, *sizes)
        times = h.alternate(patient(sides | mpi_sides(op, h.RANKS, sizes)), a.turns, a.budget / len(a.ops))
        table = Table()
        for size in sizes:
            table.need(f"{op}, best MPI", size, times, "tandem", h.mpis(), AS_FAST)
            if size >= 256 * K:
                table.need(f"{op}, copies", size, times, "tandem", ["limit"], 1 / 1.25)
        table.show(f"{op}, {h.RANKS} ranks, {a.memory} memory")
        rows += table.rows
    return rows


def of_tcp(a):
    sizes = [size for size in a.sizes if size <= 100 * M]
    sides = {"tandem": lambda: tandem("allreduce", h.RANKS, sizes, a.memory, "tcp")} | limit_side(h.ROOT / "bench/tcp_limit.c", *sizes)
    mpis = mpi_sides("allreduce", h.RANKS, sizes, "tcp")
    times = h.alternate(patient(sides | mpis | gloo_side("allreduce", h.RANKS, sizes)), a.turns, a.budget)
    table = Table()
    for size in sizes:
        if size < 25 * M:
            table.need("tcp, best MPI", size, times, "tandem", mpis, AS_FAST)
        else:
            table.need("tcp, best MPI or gloo", size, times, "tandem", [*mpis, "gloo"], 1.2)
    for size in sizes:
        mine, limit = h.median_of(times["tandem"], size), h.median_of(times["limit"], size)
        if mine is not None and limit is not None:
            print(f"  {size} bytes: tandem {mine:,.1f} us, {mine / limit:.2f} of the limit program's {limit:,.1f}", file=sys.stderr)
    table.show(f"allreduce over tcp on loopback, {h.RANKS} ranks, {a.memory} memory")
    return table.rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*", metavar="PART", help=" ".join(PARTS))
    p.add_argument("--turns", type=int, default=5)
    p.add_argument("--budget", type=float, default=60, help="seconds for each part")
    p.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=SIZES)
    p.add_argument("--ops", type=lambda text: text.split(","), default=OPS, help="of the part others")
    p.add_argument("--memory", choices=["tandem", "malloc"], default="tandem", help="of crowded, others and tcp")
    a = p.parse_args()
    parts = a.parts or PARTS
    unknown = [part for part in parts if part not in PARTS] + [op for op in a.ops if op not in OPS]
    if unknown:
        p.error(f"no part or operation {' '.join(unknown)}; there are {' '.join(PARTS)}, and {' '.join(OPS)}")
    print(f"MPIs: {' '.join(h.mpis()) or 'none'}", file=sys.stderr)
    results = {}
    pair = [part for part in ("shm", "malloc", "gloo") if part in parts]
    if pair:
        results["pair"] = of_pair(a, pair)
    for part, measure in (("crowded", of_crowd), ("others", of_others), ("tcp", of_tcp)):
        if part in parts:
            results[part] = measure(a)
    h.report("collectives", {"turns": a.turns, "parts": parts, "requirements": results})


main()
