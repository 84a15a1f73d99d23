#!/usr/bin/env python3
"""A training has the same bits over shm and tcp, and when it is repeated: each loss and gradient norm, and the weights.

same_bits.py TANDEM
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEPS = 20


def digest_of(tandem, run, ranks, **variables):
    """Everything that must not differ, as one text: losses with all their digits, and the weights' file."""
    subprocess.run([tandem, "train", "gpt2", "-n", str(ranks), "--data", HERE / "tokens.bin", "--run", run, "--quiet", "--layers", "2",
                    "--width", "64", "--heads", "4", "--seq", "32", "--vocab", "256", "--batch", "2", "--steps", str(STEPS), "--lr", "2e-3",
                    "--warmup", "5"], check=True, stdin=subprocess.DEVNULL, env=os.environ | variables)
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(steps) == STEPS
    weights = hashlib.sha256((run / f"step-{STEPS}" / "model.safetensors").read_bytes()).hexdigest()
    return weights, [(step["loss"], step["grad_norm"], step.get("val_loss")) for step in steps]


def main():
    tandem, wrong = sys.argv[1], []
    with tempfile.TemporaryDirectory(prefix="tandem-bits-") as folder:
        for ranks in (2, 3):
            first = digest_of(tandem, Path(folder) / f"{ranks}-shm", ranks, TANDEM_TRANSPORT="shm")
            for name, variables in {"repeated": {"TANDEM_TRANSPORT": "shm"}, "tcp": {"TANDEM_TRANSPORT": "tcp"}}.items():
                other = digest_of(tandem, Path(folder) / f"{ranks}-{name}", ranks, **variables)
                if other[1] != first[1]:
                    step = next(i for i, (a, b) in enumerate(zip(first[1], other[1]), 1) if a != b)
                    wrong.append(f"{ranks} ranks, {name}: step {step} has {other[1][step - 1]}, shm {first[1][step - 1]}")
                elif other[0] != first[0]:
                    wrong.append(f"{ranks} ranks, {name}: equal losses, other weights")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


sys.exit(main())
