#!/usr/bin/env python3
"""The hook of examples/own_hook: a quarter of float32's bytes and a loss that still goes to 0, on 1, 2 and 3 ranks.

test_own_hook.py PROGRAM TANDEM
"""
import re
import subprocess
import sys

program, tandem = sys.argv[1:]
WEIGHTS, STEPS = 1000, 400

for ranks in (1, 2, 3):
    text = subprocess.run([tandem, "run", "-n", str(ranks), "-q", "--", program], check=True, capture_output=True, text=True,
                          timeout=60).stdout
    lines = re.findall(r"step (\d+) loss (\S+), (\d+) bytes", text)
    assert len(lines) == 10 and int(lines[-1][0]) == STEPS, f"{ranks} ranks printed:\n{text}"
    assert float(lines[0][1]) > 1 and float(lines[-1][1]) < 1e-4, f"{ranks} ranks have not learnt:\n{text}"
    sent, wanted = int(lines[-1][2]), STEPS * 2 * (ranks - 1) / ranks * (WEIGHTS + 4)  # a number in 8 bits each, and the scale
    assert abs(sent - wanted) <= STEPS * ranks, f"{ranks} ranks: {sent} bytes sent, {wanted} expected"
