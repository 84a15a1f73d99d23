#!/usr/bin/env python3
"""Training speed and memory beside PyTorch DDP (gloo), the same model, batch, ranks and cores.

train.py [--model small|124M|long|all] [--precision f32|bf16] [--pairs 3] [--steps N] [--no-compile]
small: 4 layers, 256 wide, bytes, batch 16 x 128 a rank; 124M: GPT-2's smallest, batch 4 x 64 a rank; long: the same, batch 1 x 1024.
bf16 is compared with bf16 autocast.
Targets: tokens/s in float32 1.4 x eager (small), 1.5 x eager and 1.4 x compiled (124M), 1.5 x eager (long, and half its memory); in bf16 1.7 x
the faster of eager and compiled; memory at most 0.6 x PyTorch's.
Memory is the peak of all ranks together, proportional set size read while they run, in runs of their own.
"""
import argparse
import json
from pathlib import Path

import harness as h
import models


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", choices=[*models.MODELS, "all"], default="all")
    p.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--steps", type=int)
    p.add_argument("--no-compile", action="store_true")
    a = p.parse_args()
    results, amp = {}, ["--amp", "bf16"] if a.precision == "bf16" else []
    with h.scratch() as folder:
        for name in models.MODELS if a.model == "all" else [a.model]:
            model = models.MODELS[name]
            steps = a.steps or model["steps"]
            tokens = models.tokens_file(Path(folder), model["vocab"])

            def ddp(*more, **how):
                command = h.torchrun(h.RANKS, "gpt2_ddp.py", "--tokens", tokens, "--steps", str(steps), *models.shape(model), *amp, *more)
                text, _, peak = h.run(command, OMP_NUM_THREADS="1", **how)
                return json.loads(text.splitlines()[-1]) | {"peak_mb": peak}

            def tandem(**how):
                return models.tandem_job(Path(folder), model, tokens, h.RANKS, steps, ["--precision", a.precision], **how)

            sides = {"tandem": tandem, "eager": ddp}
            if not a.no_compile:
                sides["compiled"] = lambda: ddp("--compile")
            speed = h.alternate(sides, a.pairs)
            memory = h.alternate({side: lambda run=sides[side]: run(watch_memory=True) for side in ("tandem", "eager")}, 1)
            rate = {side: h.median_of(rows, "tokens_per_s") for side, rows in speed.items()}
            peak = {side: h.median_of(rows, "peak_mb") for side, rows in memory.items()}
            results[name] = {
                "steps": steps, "pairs": a.pairs, "tokens_per_s": rate,
                "range_tokens_per_s": {side: h.spread_of(rows, "tokens_per_s") for side, rows in speed.items()},
                "comm_share": {side: h.median_of(rows, "comm_share") for side, rows in speed.items()},
                "peak_mb": peak,
                "faster_than": {side: h.ratio(rate["tandem"], rate[side]) for side in rate if side != "tandem"},
                "memory_ratio": h.ratio(peak["tandem"], peak["eager"]),
            }
            h.show(f"{name}: {h.RANKS} ranks, {a.precision}, medians of {a.pairs} runs of {steps} steps",
                   ["", "tokens/s", "tandem is faster by", "communication", "peak MB"],
                   [[side, rate[side], results[name]["faster_than"].get(side), results[name]["comm_share"][side], peak.get(side)]
                    for side in rate])
    h.report("train", {"ranks": h.RANKS, "precision": a.precision, "models": results})


main()
