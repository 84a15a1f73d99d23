#!/usr/bin/env python3
"""reports_doc.py ROOT - each test that docs/reports.md names is there: its file, and the function in it."""
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
bad = []
found = 0
for line in (root / "docs/reports.md").read_text().splitlines():
    cells = line.split("|")
    if len(cells) != 5 or not cells[1].strip().isdigit():
        continue
    for part in cells[3].split(";"):
        name = re.match(r"\s*([\w/.]+)", part).group(1)
        path = root / (name if name.startswith("tests/") else f"tests/unit/{name}" + ("" if name.endswith(".c") else ".c"))
        text = path.read_text() if path.is_file() else ""
        tests = re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+){3,}\b", part[len(name):])
        found += len(tests)
        bad += [f"{name}: {path} is not there"] * (text == "")
        bad += [f"{name}: no {test}" for test in tests if not re.search(rf"\b{test}\(", text)]
if bad or found < 20:
    sys.exit("\n".join(bad) or f"docs/reports.md names only {found} tests")
