#!/usr/bin/env python3
"""Trains a golden configuration and compares with PyTorch's committed numbers.

check_train.py TANDEM NAME RANKS       NAME: tests/golden/NAME.json, made by tools/make_golden.py
Loss of every step within 1e-5 relative, gradient norm within 1e-4, validation loss at the end within 1e-5: both sides sum
float32, in orders of their own.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def arguments(config, ranks):
    """A configuration as arguments of `tandem train`."""
    values = config | {"batch": config["batch"] // ranks}
    model = values.pop("model")
    if model == "mlp":
        values.pop("heads")
    return [model, "-n", str(ranks)] + [text for name, value in values.items() for text in ("--" + name.replace("_", "-"), str(value))]


def compare(what, mine, theirs, tolerance):
    if len(mine) != len(theirs):
        return [f"{what}: {len(mine)} values, PyTorch has {len(theirs)}"]
    return [f"{what} of step {i}: {a!r}, PyTorch {b!r}" for i, (a, b) in enumerate(zip(mine, theirs), 1)
            if a is None or abs(a - b) > tolerance * abs(b)]


def main():
    tandem, name, ranks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    golden = json.loads((HERE / f"{name}.json").read_text())
    with tempfile.TemporaryDirectory(prefix="tandem-golden-") as folder:
        run = Path(folder) / "run"
        subprocess.run([tandem, "train", *arguments(golden["config"], ranks), "--data", HERE / "tokens.bin", "--run", run, "--quiet"],
                       check=True, stdin=subprocess.DEVNULL)
        steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    theirs = golden["runs"][str(ranks)]
    wrong = compare("loss", [step["loss"] for step in steps], theirs["loss"], 1e-5)
    wrong += compare("gradient norm", [step["grad_norm"] for step in steps], theirs["grad_norm"], 1e-4)
    wrong += compare("validation loss", [steps[-1].get("val_loss")], [theirs["val_loss"]], 1e-5)
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
