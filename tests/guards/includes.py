#!/usr/bin/env python3
"""Checks which folder includes which (the arrow of docs/design.md), and that each foreign header has one home.

includes.py [ROOT]           fails with one line for each wrong include
includes.py --print [ROOT]   prints the include graph, one folder a line
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

# folder -> what it may include besides itself: folders, or single headers.
SEES = {
    "core": "",
    "trace": "core",
    "store": "core trace",
    "transport": "core trace store",
    "coll": "core trace transport",
    "compress": "core coll",
    "engine": "core coll",
    "group": "core trace store transport coll engine",
    "ddp": "core trace compress group",
    "launch": "core trace store",
    "measure": "core trace",
    "graph": "core",
    "kernels": "core graph",
    "passes": "core graph kernels ddp/plan.h",
    "optim": "core trace",
    "data": "core trace",
    "checkpoint": "core trace",
    "exec": "core trace graph passes kernels ddp group optim",
    "models": "core graph optim data exec",
    "kineto": "core",
    "job": "core kineto",
    "lint": "core nccl_log/variables.h",
    "live": "core kineto launch",
    "nccl_log": "core",
    "hta": "core kineto",
    "flight": "core",
    "doctor": "core trace kineto hta job nccl_log flight",
    "model_api": "core trace graph kernels passes exec models data checkpoint optim train",
    "train": "core trace models data checkpoint passes kernels exec optim measure",
    "cli": "measure",
}
# These may include no public header but the ones that say what a status, a dtype and a codec are.
NO_GROUPS = {"graph", "passes", "kernels", "optim", "data", "checkpoint", "measure", "core", "trace"}
PLAIN_PUBLIC = {"tandem/base.h", "tandem/config.h", "tandem/status.h", "tandem/dtype.h", "tandem/compress.h", "tandem/own_op.h"}

# foreign header -> the place that may include it, or places.
HOMES = {
    "isa-l/igzip_lib.h": "src/kineto/inflate.c",
    "dnnl.h": "src/kernels/onednn",
    "cblas.h": "src/kernels/blas",
    "omp.h": "src/kernels/threads.c",
    "hwloc.h": "src/core/domain.c",
    "mpi.h": "src/engine/mpi",
    "ucp/api/ucp.h": "src/transport/ucx",
    "ucs/debug/log_def.h": "src/transport/ucx",
    "sodium.h": "src/store",
    "xxhash.h": "src/checkpoint",
    "jansson.h": ("src/checkpoint", "src/models/config.c", "src/train/metrics.c", "src/doctor", "src/hta", "src/lint"),
}
# Headers of C, POSIX, Linux and the compiler are free everywhere.
SYSTEM = re.compile(
    r"(sys|linux|netinet|arpa|net|bits)/\w+\.h|\w*intrin\.h|cpuid\.h|arm_neon\.h|"
    r"(assert|ctype|dirent|dlfcn|endian|errno|fcntl|fenv|float|getopt|argp|glob|grp|ifaddrs|inttypes|limits|locale|math|netdb|"
    r"poll|pthread|pwd|sched|semaphore|setjmp|signal|spawn|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|"
    r"stdnoreturn|string|strings|syslog|termios|time|uchar|unistd|wchar|wordexp)\.h")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def folder_of(path):
    return path.parts[1] if path.parts[0] == "src" else path.parts[0]


def wrong_include(root, path, quote, target):
    """Why this include may not be, or None."""
    folder = folder_of(path)
    if target.startswith("tandem/"):
        if folder in NO_GROUPS and target not in PLAIN_PUBLIC:
            return f"{folder} may use only {', '.join(sorted(PLAIN_PUBLIC))} of the public headers"
        return None
    if folder == "include":
        return None if SYSTEM.fullmatch(target) else "a public header includes only C's own and <tandem/...> headers"
    if quote == '"':
        if (root / path.parent / target).is_file():
            return None
        seen = target.split("/")[0]
        if not (root / "src" / target).is_file():
            return None  # made by the build, or the compiler complains
        if seen == folder or seen in SEES[folder].split() or target in SEES[folder].split():
            return None
        return f"{folder} may see: {SEES[folder] or 'public headers only'}"
    if SYSTEM.fullmatch(target):
        return None
    home = HOMES.get(target)
    if home is None:
        return "a foreign header needs a home: add it to HOMES"
    return None if str(path).startswith(home) else f"the home of <{target}> is {home}"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--print"]
    root = Path(arguments[0] if arguments else Path(__file__).parents[2])
    graph, wrong = defaultdict(set), []
    for top in ("src", "cli", "include"):
        for file in sorted((root / top).rglob("*.[ch]")):
            path = file.relative_to(root)
            if folder_of(path) not in SEES and top != "include":
                wrong.append(f"{path}: folder {folder_of(path)} is not in the table SEES")
                continue
            for quote, target in INCLUDE.findall(file.read_text()):
                graph[folder_of(path)].add(target.split("/")[0] if "/" in target and quote == '"' else f"<{target}>")
                reason = wrong_include(root, path, quote, target)
                if reason:
                    wrong.append(f'{path} includes {target}: {reason}')
    if "--print" in sys.argv:
        for folder in [f for f in SEES if f in graph]:
            seen = sorted(t for t in graph[folder] - {folder} if not SYSTEM.fullmatch(t.strip("<>")))
            print(f"{folder:11} -> {' '.join(seen)}")
    print("\n".join(wrong), end="\n" if wrong else "")
    if not graph:
        print(f"no sources below {root}")
    return 1 if wrong or not graph else 0


sys.exit(main())
