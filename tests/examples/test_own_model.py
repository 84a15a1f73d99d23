#!/usr/bin/env python3
"""The model of examples/own_model learns, and its losses are the same on 1 and 2 ranks.

test_own_model.py PROGRAM TANDEM
"""
import re
import subprocess
import sys

program, tandem = sys.argv[1:]
TOLERANCE = 2e-3  # ranks add the same numbers in another order, and AdamW divides small gradients by their size


def losses(ranks):
    text = subprocess.run([tandem, "run", "-n", str(ranks), "-q", "--", program], check=True, capture_output=True, text=True,
                          timeout=60).stdout
    found = {int(step): float(loss) for step, loss in re.findall(r"step (\d+) loss (\S+)", text)}
    assert len(found) == 10, f"{ranks} ranks printed {len(found)} losses:\n{text}"
    return found


one, two = losses(1), losses(2)
assert one[200] < 0.6 * one[20], f"the model has not learnt: loss {one[20]} at step 20, {one[200]} at step 200"
for step, loss in one.items():
    assert abs(two[step] - loss) <= TOLERANCE * loss, f"step {step}: loss {loss} on one rank, {two[step]} on two"
