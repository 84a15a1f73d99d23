#!/usr/bin/env python3
"""Peak memory of GPT-2 124M on 2 ranks, by sharding stage, beside PyTorch DDP and beside what `tandem train --explain` forecasts.

memory.py [--turns 1] [--only NAME...]
Batch 4 x 64 a rank, float32, AdamW, no clipping. Stage 3 on one node is stage 2. Memory is the highest sum over all ranks of their
proportional set sizes while they run. Targets: stage 1 at most 0.6 x PyTorch's, stage 3 at most 0.5 x, 0.4 x with recomputed blocks; and no
more than the forecast and PROGRAM_MB a rank.
"""
import argparse
import re
import subprocess
import tempfile
from pathlib import Path

import harness as h
import models

MODEL = models.MODELS["124M"]
PROGRAM_MB = 30
SIDES = {  # options of `tandem train`, target beside PyTorch's
    "stage 1": (["--shard", "1"], 0.6),
    "stage 3": (["--shard", "3"], 0.5),
    "stage 3, remat": (["--shard", "3", "--remat", "blocks"], 0.4),
}
STEPS = 2


def forecast_mb(options, tokens):
    """The row "in all" of --explain: of a node."""
    command = models.tandem_command(MODEL, tokens, h.RANKS, STEPS, "-")
    text = subprocess.run([str(c) for c in [*command, *options, "--explain"]], capture_output=True, text=True, check=True, timeout=60).stdout
    return float(re.search(r"^  in all +[\d.]+ +([\d.]+)", text, re.M).group(1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--turns", type=int, default=1)
    p.add_argument("--only", nargs="*", default=[*SIDES, "PyTorch"])
    a = p.parse_args()
    with h.scratch() as folder:
        tokens = models.tokens_file(Path(folder), MODEL["vocab"])

        def pytorch():
            command = h.torchrun(h.RANKS, "gpt2_ddp.py", "--tokens", tokens, "--steps", str(STEPS), *models.shape(MODEL))
            return {"peak_mb": h.run(command, watch_memory=True, OMP_NUM_THREADS="1")[2]}

        def tandem(options):
            run = tempfile.mkdtemp(dir=folder) + "/run"
            return {"peak_mb": h.run([*models.tandem_command(MODEL, tokens, h.RANKS, STEPS, run), *options], watch_memory=True)[2]}

        sides = {name: lambda options=options: tandem(options) for name, (options, _) in SIDES.items() if name in a.only}
        if "PyTorch" in a.only:
            sides["PyTorch"] = pytorch
        peak = {side: h.median_of(rows, "peak_mb") for side, rows in h.alternate(sides, a.turns).items()}
        rows, results = [], {}
        for name in sides:
            said = forecast_mb(SIDES[name][0], tokens) if name in SIDES else None
            ratio = h.ratio(peak[name], peak.get("PyTorch"))
            target = SIDES[name][1] if name in SIDES else None
            results[name] = {"peak_mb": peak[name], "forecast_mb": said, "ratio": ratio, "target": target,
                             "as_forecast": None if said is None else peak[name] <= said + h.RANKS * PROGRAM_MB}
            rows.append([name, peak[name], said, ratio, target])
        h.show("124M: 2 ranks, float32", ["", "peak MB", "forecast MB", "x PyTorch", "target"], rows)
    h.report("memory", {"ranks": h.RANKS, "sides": results})


main()
