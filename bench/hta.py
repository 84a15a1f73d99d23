#!/usr/bin/env python3
"""`tandem doctor --hta` beside HTA 0.5.0 on the same traces: wall time and peak memory.

hta.py [--turns 5] [--budget SEC] [TRACE-OR-FOLDER...]
Each argument is one job. Without arguments: the sets of ../shared/traces/share (or TDM_SHARED) of 1 MB of JSON and more, else jobs of the
tree's own simulator. HTA has a virtual environment of its own, build/hta-venv, made on the first run (pip).

A run is a fresh process from its start to its end: HTA's import counts, as Python's start does. HTA reads the traces and computes the
metrics that --hta prints but the two with its last iteration, for which it would read everything again; "core" is its time to the end of
temporal breakdown, overlap, idle time and kernel breakdown alone, import included. Memory is the peak of the process tree's proportional set
size, sampled in runs of their own. Targets: 20 times as fast on single files, 30 on folders of 100 MB a rank, a tenth of the memory.
"""
import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import harness as h

HTA_VENV = h.BUILD / "hta-venv"
REQUIRED = ["holistictraceanalysis==0.5.0", "pandas==2.2.3", "numpy<2.3"]  # with pandas 3, HTA 0.5.0 does not load every trace


def make_venv():
    if (HTA_VENV / "ready").exists():
        return
    print(f"  making {HTA_VENV}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", HTA_VENV], check=True)
    subprocess.run([HTA_VENV / "bin/pip", "install", "--quiet", *REQUIRED], check=True)
    (HTA_VENV / "ready").touch()


def trace_files(path):
    names = (".json", ".json.gz")
    return sorted(p for p in path.iterdir() if p.name.endswith(names)) if path.is_dir() else [path]


def raw_bytes(file):
    with open(file, "rb") as f:
        if f.read(2) != b"\x1f\x8b":
            return file.stat().st_size
    size = 0
    with gzip.open(file) as f:
        while block := f.read(1 << 20):
            size += len(block)
    return size


def cpu_s():
    """Processor time of all jobs that have ended, and of what they started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tandem(path):
    before = cpu_s()
    _, seconds, _ = h.run([h.TANDEM, "doctor", "--hta", "--json", path])
    return {"wall_s": seconds, "cpu_s": cpu_s() - before}


def hta(path):
    before = cpu_s()
    text, seconds, _ = h.run([HTA_VENV / "bin/python", "-W", "ignore", h.PEERS / "hta_metrics.py", path])
    inside = json.loads(text)
    return {"wall_s": seconds, "core_s": seconds - inside["after_core_s"], "cpu_s": cpu_s() - before, "errors": inside["errors"]}


def peak_mb(command):
    """One run, looked at as often as can be. One that was over before it could be looked at: its largest resident set, which is that of
    this Python at least."""
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = last = time.perf_counter()
    peak, tree = 0.0, [process.pid]
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        if time.perf_counter() - last > 0.1:  # who belongs to it changes seldom, and looking is slow
            tree, last = h.children(process.pid), time.perf_counter()
        peak = max(peak, h.pss_mb(tree))
        if time.perf_counter() - began > 0.05:
            time.sleep(0.002)
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    if process.returncode != 0:
        raise RuntimeError(f"{command}: exit status {process.returncode}")
    return peak or ended[2].ru_maxrss / 1024


def measure(path, turns, budget):
    files = trace_files(path)
    runs = h.alternate({"tandem": lambda: tandem(path), "hta": lambda: hta(path)}, turns, budget)
    memory = {"tandem": [peak_mb([h.TANDEM, "doctor", "--hta", "--json", path]) for _ in range(3)],
              "hta": [peak_mb([HTA_VENV / "bin/python", "-W", "ignore", h.PEERS / "hta_metrics.py", path])]}
    ours, theirs, core = h.median_of(runs["tandem"], "wall_s"), h.median_of(runs["hta"], "wall_s"), h.median_of(runs["hta"], "core_s")
    return {"trace": path.name, "files": len(files), "raw_mb": sum(raw_bytes(f) for f in files) / 1e6, "turns": len(runs["hta"]),
            "tandem_s": ours, "hta_s": theirs, "hta_core_s": core, "tandem_s_range": h.spread_of(runs["tandem"], "wall_s"),
            "hta_s_range": h.spread_of(runs["hta"], "wall_s"), "times_as_fast": theirs / ours, "times_as_fast_core": core / ours,
            "tandem_cpu_s": h.median_of(runs["tandem"], "cpu_s"), "hta_cpu_s": h.median_of(runs["hta"], "cpu_s"),
            "times_the_cpu": h.ratio(h.median_of(runs["hta"], "cpu_s"), h.median_of(runs["tandem"], "cpu_s")),
            "tandem_mb": max(memory["tandem"]), "hta_mb": max(memory["hta"]), "times_the_memory": max(memory["hta"]) / max(memory["tandem"]),
            "hta_errors": runs["hta"][0]["errors"]}


def default_jobs(scratch):
    shared = Path(os.environ.get("TDM_SHARED") or h.ROOT.parent / "shared") / "traces/share"
    if shared.is_dir():
        return [p for p in sorted(shared.iterdir()) if not p.name.startswith("malformed") and sum(map(raw_bytes, trace_files(p))) >= 1e6]
    jobs = []
    for scenario in ("healthy_ddp", "launch_bound"):
        out = Path(scratch) / scenario
        subprocess.run([sys.executable, h.ROOT / "tests/doctor/simulate.py", "--out", out, "--scenario", scenario, "--seed", "1"], check=True)
        jobs.append(out)
    return jobs


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--turns", type=int, default=5)
    p.add_argument("--budget", type=float, help="seconds a job; at least three turns are made")
    p.add_argument("traces", nargs="*", type=Path)
    a = p.parse_args()
    make_venv()
    with h.scratch() as scratch:
        rows = []
        for job in a.traces or default_jobs(scratch):
            print(job, file=sys.stderr)
            rows.append(measure(job.resolve(), a.turns, a.budget))
            print(f"  {rows[-1]['times_as_fast']:.1f} times as fast, {rows[-1]['times_the_memory']:.1f} times the memory", file=sys.stderr)
    h.show("HTA's metrics, medians",
           ["trace", "ranks", "raw MB", "Tandem s", "HTA s", "core s", "x", "x core", "x cpu", "Tandem MB", "HTA MB", "x memory"],
           [[r["trace"], r["files"], r["raw_mb"], r["tandem_s"], r["hta_s"], r["hta_core_s"], r["times_as_fast"], r["times_as_fast_core"],
             r["times_the_cpu"], r["tandem_mb"], r["hta_mb"], r["times_the_memory"]] for r in rows])
    h.report("hta", {"hta": REQUIRED, "rows": rows})


if __name__ == "__main__":
    main()
