#!/usr/bin/env python3
"""2 ranks against two independent one-rank jobs at once: the same work a core, memory bandwidth and clocks shared alike.

scaling.py [--model 124M|small] [--pairs 3] [--steps N]      Target: at least 95 % of their tokens/s together (124M).
"""
import argparse
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness as h
import models


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", choices=models.MODELS, default="124M")
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--steps", type=int)
    a = p.parse_args()
    model = models.MODELS[a.model]
    steps = a.steps or model["steps"]
    with h.scratch() as folder:
        tokens = models.tokens_file(Path(folder), model["vocab"])

        def together():
            return models.tandem_job(Path(folder), model, tokens, h.RANKS, steps)

        def alone(core):
            run = tempfile.mkdtemp(dir=folder) + "/run"
            h.run(["taskset", "-c", str(core), *models.tandem_command(model, tokens, 1, steps, run)])
            numbers = models.tandem_numbers(Path(run), model, 1)
            shutil.rmtree(run)
            return numbers

        def apart():
            cores = sorted(h.os.sched_getaffinity(0))[:h.RANKS]
            with ThreadPoolExecutor(h.RANKS) as pool:
                return {"tokens_per_s": sum(numbers["tokens_per_s"] for numbers in pool.map(alone, cores))}

        rows = h.alternate({"2 ranks": together, "2 jobs of 1 rank": apart}, a.pairs)
    rate = {side: h.median_of(found, "tokens_per_s") for side, found in rows.items()}
    share = h.ratio(rate["2 ranks"], rate["2 jobs of 1 rank"])
    h.show(f"{a.model}: from 1 rank to {h.RANKS}, medians of {a.pairs} runs of {steps} steps", ["", "tokens/s", "share"],
           [["2 jobs of 1 rank", rate["2 jobs of 1 rank"], 1.0], ["2 ranks", rate["2 ranks"], share]])
    h.report("scaling", {"model": a.model, "ranks": h.RANKS, "pairs": a.pairs, "steps": steps, "tokens_per_s": rate,
                         "range_tokens_per_s": {side: h.spread_of(found, "tokens_per_s") for side, found in rows.items()},
                         "efficiency": share})


main()
