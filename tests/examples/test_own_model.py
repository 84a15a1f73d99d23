#!/usr/bin/env python3
"""The models of examples/own_model and own_op learn, and their losses are the same on 1 and 2 ranks; the first has 60 lines at most.

test_own_model.py SOURCE PROGRAM TANDEM
"""
import re
import subprocess
import sys
from pathlib import Path

source, program, tandem = sys.argv[1:]
LINES_MAX = 60  # docs/model.md promises it
TOLERANCE = 2e-3  # ranks add the same numbers in another order, and AdamW divides small gradients by their size


def losses(ranks):
    text = subprocess.run([tandem, "run", "-n", str(ranks), "-q", "--", program], check=True, capture_output=True, text=True,
                          timeout=60).stdout
    found = {int(step): float(loss) for step, loss in re.findall(r"step (\d+) loss (\S+)", text)}
    assert len(found) == 10, f"{ranks} ranks printed {len(found)} losses:\n{text}"
    return found


if source.endswith("own_model.c"):
    lines = len(Path(source).read_text().splitlines())
    assert lines <= LINES_MAX, f"{source} has {lines} lines, more than {LINES_MAX}"
one, two = losses(1), losses(2)
first, last = min(one), max(one)
assert one[last] < 0.5 * one[first], f"the model has not learnt: loss {one[first]} at step {first}, {one[last]} at step {last}"
for step, loss in one.items():
    assert abs(two[step] - loss) <= TOLERANCE * loss, f"step {step}: loss {loss} on one rank, {two[step]} on two"
