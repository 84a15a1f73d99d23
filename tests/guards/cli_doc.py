#!/usr/bin/env python3
"""docs/cli.md and `tandem COMMAND --help` name the same options: cli_doc.py ROOT TANDEM"""
import re
import subprocess
import sys
from pathlib import Path

COMMON = {"--help", "--version", "--json", "--quiet", "--seed", "--timeout", "-h", "-q"}  # said once, for all commands
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*|-[a-z])(?![\w-])")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def documented(text, command):
    """Options in the **Exists** paragraph of the command's section."""
    section = re.search(rf"^## tandem {command}\b.*?(?=^## |\Z)", text, re.M | re.S)
    exists = re.search(r"\*\*Exists\*\*(.*?)(?=\*\*Planned\*\*|\n\n|\Z)", section.group(0), re.S) if section else None
    return {o for span in re.findall(r"`([^`]+)`", exists.group(1)) for o in OPTION.findall(span)} if exists else None


def understood(tandem, command):
    """Options of --help, as sets of names that mean the same."""
    lines = output(tandem, command, "--help").split("\noptions:\n")[1].splitlines()
    return [set(OPTION.findall(line[:29])) for line in lines if re.match(r" {2,6}-", line)]


def main():
    root, tandem = Path(sys.argv[1]), sys.argv[2]
    text = (root / "docs/cli.md").read_text()
    commands = re.search(r"commands:\n(.*?)\n\n", output(tandem, "--help"), re.S).group(1)
    wrong = []
    for command in (line.split()[0] for line in commands.splitlines()):
        listed, real = documented(text, command), understood(tandem, command)
        if listed is None:
            wrong.append(f"docs/cli.md has no **Exists** for {command}")
            continue
        wrong += [f"docs/cli.md does not list {'/'.join(sorted(o))} of {command}" for o in real if not o & (listed | COMMON)]
        wrong += [f"tandem {command} does not know {o} of docs/cli.md" for o in sorted(listed) if not any(o in r for r in real)]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


sys.exit(main())
