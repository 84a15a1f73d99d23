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
    """(op, in, out) -> GFLOP/s of the best kernel, the mean of two cores that measure at once."""
    command = [h.BUILD / "bench/bench_kernels", "--op", "linear", "--model", NAMES[model], "--type", precision]
    jobs = [subprocess.Popen(["taskset", "-c", str(core), *map(str, command)], stdout=subprocess.PIPE, text=True) for core in range(h.RANKS)]
    best = []
    for job in jobs:
        text, _ = job.communicate(timeout=600)
        found = {}
        for match in filter(None, map(LINE.match, text.splitlines())):
            _, op, _, i, o, rate = match.groups()
            found[op, int(i), int(o)] = max(found.get((op, int(i), int(o)), 0), float(rate))
        best.append(found)
    return {shape: statistics.mean(found[shape] for found in best) for shape in best[0]}


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
                 "products": lambda: {"ms": products_ms(a.model, rates(a.model, a.precision))}}
        results = h.alternate(sides, a.turns)
    ms = {side: h.median_of(rows, "ms") for side, rows in results.items()}
    share = h.ratio(ms["products"], ms["step"])
    h.show(f"{a.model}, {a.precision}: {h.RANKS} ranks", ["", "ms"], [[side, value] for side, value in ms.items()] + [["share", share]])
    h.report("products", {"model": a.model, "precision": a.precision, "ms": ms, "share": share})


main()
