#!/usr/bin/env python3
"""The simulator of PyTorch jobs: its traces say what its truth says."""
import gzip
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
from causes import FINDING, SCENARIOS, without
from machine import Machine
from simulate import LEAST, make, simulate

failures = 0


def check(good, what):
    global failures
    if not good:
        failures += 1
        print(what)


def ranks_of(folder):
    for name in sorted(os.listdir(folder)):
        if ".trace.json" in name:
            with gzip.open(os.path.join(folder, name)) as file:
                yield json.load(file)


with tempfile.TemporaryDirectory() as folder:
    truth = simulate(folder, "straggler_compute", 3, most_ranks=2, stacks=True, memory=True)
    files = list(ranks_of(folder))
    check(len(files) == truth["ranks"] == 2 and [f["distributedInfo"]["rank"] for f in files] == [0, 1], "a file a rank")
    steps = [[e for e in f["traceEvents"] if e.get("name", "").startswith("ProfilerStep#")] for f in files]
    # ns as decimals, put together as integers
    mean = sum((round(s[-1]["ts"] * 1000) + round(s[-1]["dur"] * 1000) - round(s[0]["ts"] * 1000)) / len(s) for s in steps) / len(steps)
    check(abs(mean - truth["step_ns_mean"]) < 2000, f"the truth's step is {truth['step_ns_mean']}, the traces' {mean}")
    for f in files:
        events = f["traceEvents"]
        calls = {e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime"}
        kernels = [e for e in events if e.get("cat") == "kernel"]
        check(kernels and all(e["args"]["correlation"] in calls and e["dur"] >= 0 for e in kernels), "every kernel has its launch")
        check({"python_function", "cpu_instant_event", "cpu_op", "user_annotation", "gpu_memcpy", "Trace"} <= {e.get("cat") for e in events}, "kinds of events")
    ends = [[round((e["ts"] + e["dur"]) * 1000) for e in f["traceEvents"] if e.get("cat") == "kernel" and e["name"].startswith("nccl")] for f in files]
    check(ends[0] and all(abs(a - b) < 5 for a, b in zip(*ends)) and len(ends[0]) == len(ends[1]), "a collective ends on all ranks at once")

with tempfile.TemporaryDirectory() as folder:
    again = []
    for _ in range(2):
        simulate(folder, "communication_cpu", 1, most_ranks=2, plain=True, style="old")
        with open(os.path.join(folder, "rank1.pt.trace.json")) as file:
            again.append(file.read())
    check(again[0] == again[1], "one seed, the same bytes")
    check(all(isinstance(e["ts"], int) for e in json.loads(again[0])["traceEvents"]), "the old style counts whole microseconds")

# A cause costs what it must, and the job without it is the job without it.
for scenario in ("bucket_order", "fsdp_prefetch", "data_loading_cpu"):
    job, now, _, gain = make(scenario, 1, most_ranks=2)
    cured = without(job, FINDING[scenario])
    check(gain[FINDING[scenario]] >= LEAST and without(cured, FINDING[scenario]) == cured and Machine(cured, 1, record=False).run(3).step_ns() < now, scenario)
check(set(filter(None, FINDING.values())) >= {"data_loading", "communication_exposed", "straggler", "launch_bound", "implicit_sync", "small_buckets", "large_buckets", "bucket_order",
      "unpinned_copies", "no_mixed_precision", "tiny_kernels", "optimizer_not_fused", "recompute", "fsdp_prefetch", "slow_link"} and set(FINDING) == set(SCENARIOS), "a scenario for each finding")
sys.exit(1 if failures else 0)
