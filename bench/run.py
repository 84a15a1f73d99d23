#!/usr/bin/env python3
"""Runs every benchmark, one after another; tables for people on stderr, one JSON object a benchmark on stdout.

run.py [NAME...]      names: collectives start train products memory scaling pytorch
"""
import subprocess
import sys
from pathlib import Path

NAMES = ["collectives", "start", "train", "products", "memory", "scaling", "pytorch"]


def main():
    names = sys.argv[1:] or NAMES
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"run.py: no benchmark {' '.join(unknown)}; there are: {' '.join(NAMES)}", file=sys.stderr)
        return 2
    here = Path(__file__).resolve().parent
    return max(subprocess.run([sys.executable, here / f"{name}.py"]).returncode for name in names)


sys.exit(main())
