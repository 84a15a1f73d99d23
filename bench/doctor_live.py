#!/usr/bin/env python3
"""What `tandem doctor -- torchrun ...` costs the job it looks into: times of steps with and without it, traced and not.

doctor_live.py [--pairs 3] [--seconds 20] [--iterations 4]
"""
import argparse
import json
import statistics
import sys
from pathlib import Path

import harness as h

WARM_UP_NS = 2e9


def job(folder, seconds):
    return h.torchrun(h.RANKS, "timed_steps_ddp.py", str(seconds), f"{folder}/steps")


def steps_of(folder, rank):
    """(end in ns, length in ms) of each step after the warm-up."""
    ends = [int(line) for line in Path(f"{folder}/steps{rank}").read_text().split()]
    return [(b, (b - a) / 1e6) for a, b in zip(ends, ends[1:]) if b > ends[0] + WARM_UP_NS]


def window_of(path):
    """From the first operator of a trace to its last end, ns since 1970."""
    trace = json.loads(path.read_text())
    events = [e for e in trace["traceEvents"] if e.get("cat") == "cpu_op"]
    base = trace.get("baseTimeNanoseconds", 0)
    return base + min(e["ts"] for e in events) * 1e3, base + max(e["ts"] + e["dur"] for e in events) * 1e3


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--iterations", type=int, default=4)
    a = p.parse_args()

    def plain():
        with h.scratch() as folder:
            h.run(job(folder, a.seconds), OMP_NUM_THREADS="1")
            return {"step_ms": statistics.median(ms for _, ms in steps_of(folder, 0))}

    def looked_into():
        with h.scratch() as folder:
            h.run([h.TANDEM, "doctor", "--iterations", a.iterations, "--keep-traces", f"{folder}/traces", "--", *job(folder, a.seconds)], OMP_NUM_THREADS="1")
            begin, end = window_of(Path(folder) / "traces/rank0.pt.trace.json")
            steps = steps_of(folder, 0)
            traced = [ms for at, ms in steps if begin < at - ms * 1e6 / 2 < end]
            before = [ms for at, ms in steps if at <= begin]
            after = [ms for at, ms in steps if at - ms * 1e6 >= end]
            return {"before_ms": statistics.median(before), "traced_ms": statistics.mean(traced), "traced_steps": len(traced),
                    "after_ms": statistics.median(after), "steps": len(steps)}

    rows = h.alternate({"alone": plain, "looked into": looked_into}, a.pairs)
    alone = h.median_of(rows["alone"], "step_ms")
    table = [["alone", alone, 1.0]]
    for name in ("before", "traced", "after"):
        ms = h.median_of(rows["looked into"], f"{name}_ms")
        table.append([name, ms, ms / alone])
    h.show(f"steps of {h.RANKS} ranks over gloo, ms, medians of {a.pairs} runs of {a.seconds:g} s", ["", "ms", "of alone"], table)
    h.report("doctor_live", {"pairs": a.pairs, "seconds": a.seconds, "iterations": a.iterations, "rows": rows})


sys.exit(main())
