#!/usr/bin/env python3
"""`tandem doctor` on names that a terminal would obey, in files and of files: test_doctor_hostile.py TANDEM"""
import json
import os
import subprocess
import tempfile
import unicodedata
from pathlib import Path

import doctor_checks
from doctor_checks import finish

EVIL = "\x1b[31mred\x1b]0;title\a\b\x7f\u009b31m\u202eabc\n\rend"


def run(*args):
    return doctor_checks.run(*args, text=False)


def check(good, what, seen):
    """What was seen is not for the terminal either."""
    doctor_checks.check(good, what, repr(seen))


def check_quiet(what, code, *args):
    """Nothing that a terminal obeys, and every byte is text."""
    result = run(*args)
    try:
        text = (result.stdout + result.stderr).decode()
    except UnicodeDecodeError as wrong:
        return check(False, what, wrong)
    obeyed = {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf")}
    check(not obeyed and result.returncode == code, f"{what}, exit code {result.returncode}", (obeyed, text))
    return text


def event(cat, name, ts, dur, tid, **args):
    return {"ph": "X", "cat": cat, "name": name + EVIL, "pid": 0, "tid": tid, "ts": ts, "dur": dur, "args": args}


def trace(rank, kernels=3):
    """Three iterations with everything whose name is shown, and kernels of many names."""
    events = []
    for step in range(3):
        at, first = 1000 + 10000 * step, 1000 * step
        events += [{**event("user_annotation", "", at, 10000, 1), "name": f"ProfilerStep#{step}"}]
        for k in range(kernels):
            events += [event("cuda_runtime", "cudaLaunchKernel", at + 10 + 2 * k, 1, 1, correlation=first + k), event("cpu_op", f"op {k} ", at + 9 + 2 * k, 2, 1),
                       event("kernel", f"kernel {k} ", at + 100 + 50 * k, 45, 7, stream=7, device=rank, correlation=first + k)]
        events += [event("cuda_runtime", "cudaLaunchKernel", at + 900, 10, 1, correlation=first + 900),
                   event("kernel", "ncclDevKernel_AllReduce", at + 5000, 2000, 8, stream=8, device=rank, correlation=first + 900,
                         **{"Collective name": "allreduce" + EVIL, "In msg nelems": 1000, "dtype": "Float" + EVIL, "Group size": 2, "Process Group Name": EVIL}),
                   event("cpu_op", "aten::item", at + 7000, 2500, 1),
                   {**event("cuda_runtime", "", at + 7000, 2500, 1, correlation=first + 901), "name": "cudaStreamSynchronize"}]
    return {"distributedInfo": {"backend": "nccl" + EVIL, "rank": rank, "world_size": 2}, "deviceProperties": [{"id": 0, "name": EVIL}], "traceEvents": events}


with tempfile.TemporaryDirectory(prefix="tandem-hostile-") as there:
    there = Path(there)
    jobs = there / "jobs"
    jobs.mkdir()
    for rank in range(2):
        (jobs / f"rank{rank}.json").write_text(json.dumps(trace(rank)))
    (jobs / f"{EVIL}.txt").write_text("no trace")
    other = there / ("other" * 50) / ("job" * 80) / "rank0.json"
    other.parent.mkdir(parents=True)
    other.write_text(json.dumps(trace(0, kernels=40)))
    script = there / f"{EVIL}.py"
    script.write_text("import torch\noptimizer = torch.optim.Adam([], compression='\\x1b[31m')\n")
    missing = there / f"{EVIL} is not here"

    text = check_quiet("traces", 0, jobs)
    check("kernel 0 ?[31mred?]0;title" in text and "?.txt is no trace" not in text, "names are shown", text)
    check_quiet("HTA's numbers", 0, "--hta", jobs)
    check_quiet("a missing file", 3, missing)
    check_quiet("a script", 1, "--lint", script)
    check_quiet("a script that is missing", 3, "--lint", missing)
    check_quiet("a folder for the page that is missing", 3, "--report", missing / "page.html", jobs)

    # programs get the names as they are
    names = [k["name"] for k in json.loads(run("--json", jobs).stdout)["kernels"]]
    check("kernel 0 " + EVIL in names, "names in JSON", names)

    # a long comparison is printed whole
    text = check_quiet("two jobs", 0, "--diff", jobs, other)
    check(len(text) > 4096 and text.rstrip().splitlines()[-1].startswith("  allreduce"), f"the end of {len(text)} characters", text[-300:])
    check("2 ranks\n" in text and "1 rank\n" in text, "ranks", text[:300])

    # evidence that is a list is words on the page
    page = there / "page.html"
    run("--report", page, jobs)
    check("[{" not in page.read_text() and "call cudaStreamSynchronize, op aten::item" in page.read_text(), "lists on the page", page.read_text()[3000:])

    # the page replaces no trace, no pipe and no device
    before = other.read_bytes()
    pipe = there / "pipe"
    os.mkfifo(pipe)
    for target in (other, pipe, "/dev/null"):
        text = check_quiet(f"a page in place of {target}", 2, "--report", target, other)
        check("give another place with --report" in text, "what to do", text)
    check(other.read_bytes() == before and pipe.is_fifo(), "what was there", sorted(there.iterdir()))

    # a pipe that nobody writes to is not waited for
    check("no plain file" in check_quiet("a pipe", 3, pipe), "pipe", pipe)
    check_quiet("HTA and a page", 2, "--hta", "--report", page, jobs)

    # what could not be printed is an error
    for options, code in (([], 5), (["--json"], 5), (["--hta"], 5)):
        with open("/dev/full", "w") as full:
            result = subprocess.run([doctor_checks.TANDEM, "doctor", *options, jobs], stdout=full, stderr=subprocess.PIPE)
        check(result.returncode == code and b"could not be written" in result.stderr, f"a full disk, {options}", result)
finish()
