#!/usr/bin/env python3
"""The libraries export what symbols.txt lists, public names in version TANDEM_0. libtandem.so and libtandem_doctor.so need no BLAS or oneDNN.

symbols.py [--update] LIBRARY...     --update rewrites symbols.txt from the libraries; review the change like an interface.
"""
import re
import subprocess
import sys
from pathlib import Path

LIST = Path(__file__).with_name("symbols.txt")
HEADING = "# Public symbols by library. Made by tests/guards/symbols.py --update build/libtandem*.so\n"
FORBIDDEN = re.compile(r"blas|dnnl|mkl|gomp|lapack|tandem_train")


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def exported(library):
    """[(name, version)] of what `library` defines for others."""
    result = []
    for line in lines_of("nm", "-D", "--defined-only", "--with-symbol-versions", library):
        name, _, version = line.split()[-1].partition("@@")
        if line.split()[-2] != "A":  # the version names themselves
            result.append((name, version))
    return result


def main():
    update = "--update" in sys.argv
    libraries = [a for a in sys.argv[1:] if not a.startswith("--")]
    wrong, public = [], []
    for library in libraries:
        short = Path(library).name.split(".so")[0]
        for name, version in exported(library):
            if name.startswith("tdm_") and version == "TANDEM_0":
                public.append(f"{short} {name}")
            elif not (name.startswith("tdmi_") and version == "TANDEM_PRIVATE"):
                wrong.append(f"{short} exports {name} in version {version or '(none)'}")
        if short in ("libtandem", "libtandem_doctor"):
            needed = re.findall(r"NEEDED.*\[(.+)\]", "\n".join(lines_of("readelf", "-d", library)))
            wrong += [f"{short} needs {name}: nothing that computes belongs there" for name in needed if FORBIDDEN.search(name)]
    if update:
        LIST.write_text(HEADING + "\n".join(sorted(public)) + "\n")
    listed = {line for line in LIST.read_text().splitlines() if line and not line.startswith("#")}
    wrong += [f"new public symbol: {line}" for line in sorted(set(public) - listed)]
    wrong += [f"public symbol is gone: {line}" for line in sorted(listed - set(public))]
    if wrong:
        print("\n".join(wrong))
        print("If the interface was meant to change: tests/guards/symbols.py --update build/libtandem*.so")
    return 1 if wrong or not public else 0


sys.exit(main())
