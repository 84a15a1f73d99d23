#!/usr/bin/env python3
"""How much of a training step its matrix products fill: their time alone, at the rate this core reaches on them, over the step's.

products.py [--model 124M|small] [--precision f32|bf16] [--turns 3] [--steps 6]
The rate of a shape is that of the best kernel in `bench_kernels`, run on both cores at once, as a step runs; step and rates take turns.
Both are medians: a quiet moment of one is not compared with the usual state of the other.
Targets for 124M: 80 % in float32, 70 % in bfloat16.
"""
import argparse
import re
import statistics
import subprocess
from pathlib import Path

import harness as h
import models

LINE = re.compile(r"^(\w+)\s+(linear\w*)/(\w+)\s+\d+ x +(\d+) -> +(\d+)\s+[\d.]+ us\s+\d+%\s+([\d.]+) GFLOP/s")
NAMES = {"124M": "124m", "small": "small"}


def rates(model, precision):
    """(op, kernel, in, out) -> GFLOP/s, the mean of two cores that measure at once."""
    command = [h.BUILD / "bench/bench_kernels", "--op", "linear", "--model", NAMES[model], "--type", precision]
    jobs = [subprocess.Popen(["taskset", "-c", str(core), *map(str, command)], stdout=subprocess.PIPE, text=True) for core in range(h.RANKS)]
    found = []
    for job in jobs:
        text, _ = job.communicate(timeout=600)
        found.append({(m[2], m[3], int(m[4]), int(m[5])): float(m[6]) for m in filter(None, map(LINE.match, text.splitlines()))})
    return {kernel: statistics.mean(rate[kernel] for rate in found) for kernel in found[0]}


def best(turns):
    """(op, in, out) -> the median rate of the kernel that is best by its median: not the luckiest moment of any."""
    rate = {}
    for op, kernel, i, o in turns[0]:
        median = statistics.median(turn[op, kernel, i, o] for turn in turns)
        rate[op, i, o] = max(rate.get((op, i, o), 0), median)
    return rate


def products_ms(model, rate):
    """Of a step of one rank."""
    m = models.MODELS[model]
    width, rows = m["width"], m["batch"] * m["seq"]
    shapes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    counts = {shape: m["layers"] for shape in shapes} | {(width, m["vocab"]): 1}
    head = (width, m["vocab"]) if ("linear", width, m["vocab"]) in rate else shapes[1]  # the small head is none of bench_kernels' rows
    total = 0.0
    for (i, o), count in counts.items():
        for op in ("linear", "linear_backward_input", "linear_backward_weight"):
            shape = (i, o) if (op, i, o) in rate else head
            total += count * 2.0 * rows * i * o / (rate[op, *shape] * 1e9) * 1e3
    return total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", choices=NAMES, default="124M")
    p.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--steps", type=int, default=6)
    a = p.parse_args()
    model = models.MODELS[a.model]
    with h.scratch() as folder:
        tokens = models.tokens_file(Path(folder), model["vocab"])
        sides = {"step": lambda: {"ms": models.tandem_job(Path(folder), model, tokens, h.RANKS, a.steps, options=["--precision", a.precision])["median_step_ms"]},
                 "products": lambda: {"rates": rates(a.model, a.precision)}}
        results = h.alternate(sides, a.turns)
    ms = {"step": h.median_of(results["step"], "ms"), "products": products_ms(a.model, best([row["rates"] for row in results["products"]]))}
    share = h.ratio(ms["products"], ms["step"])
    h.show(f"{a.model}, {a.precision}: {h.RANKS} ranks", ["", "ms"], [[side, value] for side, value in ms.items()] + [["share", share]])
    h.report("products", {"model": a.model, "precision": a.precision, "ms": ms, "share": share})


main()
