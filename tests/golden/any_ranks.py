#!/usr/bin/env python3
"""A checkpoint of any sharding stage and number of ranks is gone on from at any other: the next five losses are the same.

any_ranks.py TANDEM
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BATCH = 24  # windows a step, of all ranks
SAVED, STEPS = 5, 10
TOLERANCE = 1e-6  # relative: each rank's mean is rounded to float32
MODEL = ["--layers", "2", "--width", "48", "--heads", "3", "--seq", "16", "--vocab", "256", "--lr", "2e-3", "--warmup", "2",
         "--bucket-mb", "0.02", "--val-fraction", "0.1"]


def train(tandem, folder, ranks, stage, nodes, *more):
    """Losses by step. nodes: virtual ones, with equally many ranks."""
    command = [tandem, "train", "gpt2", "--data", HERE / "tokens.bin", "--run", folder, "--quiet", *MODEL, "--batch", str(BATCH // ranks),
               "--steps", str(STEPS), "--save-every", str(SAVED), "--shard", str(stage), *more]
    if nodes == 1:
        command[3:3] = ["-n", str(ranks)]
    else:
        command = [tandem, "run", "-n", str(ranks), "--quiet", "--", "sh", "-c",
                   f'export TANDEM_NODE_ID=$((RANK / {ranks // nodes})); exec "$@"', "sh", *command]
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
    if done.returncode != 0:
        sys.exit(f"{ranks} ranks, stage {stage}, {nodes} nodes: exit status {done.returncode}\n{done.stderr}")
    return {m["step"]: m["loss"] for m in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())}


def go_on(tandem, saved, folder, ranks, stage, nodes):
    """From the checkpoint of step 5 in `saved`."""
    shutil.copytree(saved, folder)
    shutil.rmtree(folder / f"step-{STEPS}")
    return train(tandem, folder, ranks, stage, nodes, "--resume")


def main():
    tandem, wrong = os.path.abspath(sys.argv[1]), []
    # (ranks, stage, nodes) that saves, and those that go on
    plan = {(4, 2, 1): [(1, 0, 1), (1, 2, 1), (2, 3, 1), (3, 2, 1), (8, 1, 1), (4, 0, 1), (4, 3, 2)],
            (4, 3, 2): [(1, 1, 1), (2, 0, 1), (6, 3, 3)]}
    with tempfile.TemporaryDirectory(prefix="tandem-ranks-") as folder:
        for number, (first, others) in enumerate(plan.items()):
            saved = Path(folder) / f"saved-{number}"
            losses = train(tandem, saved, *first)
            for other in others:
                again = go_on(tandem, saved, Path(folder) / f"again-{number}-{'-'.join(map(str, other))}", *other)
                for step in range(SAVED + 1, STEPS + 1):
                    if not abs(again[step] - losses[step]) <= TOLERANCE * losses[step]:
                        wrong.append(f"saved by (ranks, stage, nodes) {first}, gone on with {other}: loss of step {step} is "
                                     f"{again[step]}, undisturbed {losses[step]}")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


sys.exit(main())
