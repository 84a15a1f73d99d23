#!/usr/bin/env python3
"""Checks the files of the tree: their length, and words that do not belong in it.

tree.py [ROOT]      Files over 400 lines are listed; over 500 in src/ or cli/ fails, unless LONG says why.
"""
import re
import subprocess
import sys
from pathlib import Path

# file -> why it may be longer than 500 lines
LONG = {}

# Unfinished work, and paths of the machine it was written on.
WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK|not implemented)\b|(?<![\w.])/(root|home|work)/")
OURSELVES = {"tests/guards/tree.py"}
TEXT = {".c", ".h", ".cpp", ".py", ".sh", ".md", ".txt", ".build", ".map", ".supp", ""}


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2])
    # Files that git ignores are not ours to judge; a source archive has no git and nothing built in it.
    git = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True)
    names = git.stdout.splitlines() if git.returncode == 0 else [
        str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and not p.relative_to(root).parts[0].startswith("build")]
    wrong = []
    for name in sorted(set(names)):
        file = root / name
        if file.suffix not in TEXT or not file.is_file():
            continue
        lines = file.read_text(errors="replace").splitlines()
        if name.startswith(("src/", "cli/")) and file.suffix in (".c", ".h"):
            if len(lines) > 500 and name not in LONG:
                wrong.append(f"{name}: {len(lines)} lines; a file is one idea of 80 to 400")
            elif len(lines) > 400:
                print(f"long: {name}: {len(lines)} lines")
        if name in OURSELVES:
            continue
        for number, line in enumerate(lines, 1):
            for match in WORDS.finditer(line):
                wrong.append(f"{name}:{number}: '{match.group(0)}'")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong or not names else 0


sys.exit(main())
