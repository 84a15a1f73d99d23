#!/usr/bin/env python3
"""The hand-written loop of examples/ddp_loop: a small change, and the same losses on any number of ranks.

test_ddp_loop.py SOURCE-DIR SINGLE PARALLEL TANDEM
"""
import difflib
import re
import subprocess
import sys
from pathlib import Path

source, single, parallel, tandem = map(Path, sys.argv[1:])
LINES_MAX = 40
# Ranks add the same numbers in another order; 400 steps of float32 let that grow from 1e-7.
TOLERANCE = 1e-4


def losses(*command):
    text = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, timeout=60).stdout
    found = {int(step): float(loss) for step, loss in re.findall(r"step (\d+) loss (\S+)", text)}
    assert len(found) == 20, f"{command} printed {len(found)} losses:\n{text}"
    return found


before, after = ((source / name).read_text().splitlines() for name in ("single.c", "parallel.c"))
added = [line for line in difflib.ndiff(before, after) if line.startswith("+ ")]
assert 0 < len(added) < LINES_MAX, f"{len(added)} lines added or changed; the README promises fewer than {LINES_MAX}"

expected = losses(single)
assert expected[400] < 0.25, f"the model has not learnt: loss {expected[400]}"
for ranks in (1, 2):
    got = losses(tandem, "run", "-n", ranks, "--", parallel)
    for step, loss in expected.items():
        assert abs(got[step] - loss) <= TOLERANCE * loss, f"{ranks} ranks, step {step}: loss {got[step]}, one process had {loss}"
print(f"{len(added)} lines added or changed, losses equal on 1 and 2 ranks")
