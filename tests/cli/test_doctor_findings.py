#!/usr/bin/env python3
"""Each finding of `tandem doctor` about traces, on a simulated job that has its cause: test_doctor_findings.py TANDEM DOCTOR-TESTS"""
import concurrent.futures
import functools
import sys

sys.dont_write_bytecode = True
tandem, simulator = sys.argv[1:]
sys.path.insert(0, simulator)
from causes import SCENARIOS
from score import run

failures = 0
with concurrent.futures.ProcessPoolExecutor(2) as pool:
    small = functools.partial(run, tandem, seed=1, most_ranks=2, steps=3)
    for scenario, result in zip(SCENARIOS, pool.map(small, SCENARIOS, timeout=100)):
        if not result["right"] or result.get("near") is False:
            failures += 1
            print(f"{scenario}: {result['why']}")
sys.exit(1 if failures else 0)
