#!/usr/bin/env python3
"""`tandem doctor` as its users run it: test_doctor.py TANDEM CORPUS"""
import json
import os
import sys
import tempfile

from doctor_checks import check, finish, run

corpus = sys.argv[2]

r = run(f"{corpus}/dump/good")
check(r.returncode == 0 and "rank 2 did not arrive at call 1 of group world (allreduce of 8 float32 (sum))" in r.stdout and not r.stderr, "text", r)
r = run("--json", f"{corpus}/dump/good")
report = json.loads(r.stdout)
check(report["ranks"] == 3 and report["recordings"] == 1 and report["breakdown"] == [], "head", r)
finding = report["findings"][0]
check(finding["id"] == "missing_call" and finding["severity"] == "error" and finding["evidence"]["group_rank"] == 2, "finding", r)
check(set(finding) == {"id", "severity", "rank", "evidence", "text", "advice", "gain_pct", "gain_pct_low", "gain_pct_high", "verified"}, "fields", r)
r = run(f"{corpus}/dump/deep")
check(r.returncode == 3 and r.stderr.count("\n") == 1 and "dump/deep" in r.stderr, "bad file", r)
r = run("/nowhere")
check(r.returncode == 3 and "/nowhere" in r.stderr, "no file", r)
# an option that would do nothing is a mistake
good = f"{corpus}/dump/good"
for words in (["--iterations", "4", good], ["--keep-traces", "there", good], ["--shapes", good], ["--stacks", good], ["--stop", good], ["--timeout", "9", good],
              ["--launch", "torchrun x.py", good], ["--env-file", good, good], ["--env", good, good], ["--hta", "--lint", good], ["--diff", "--lint", good],
              ["--report", "page", "--lint", good], ["--memory", "2M", "--lint", good], ["--iterations", "4", "--lint", good], ["--attach", "1", "--lint", good],
              ["--stop", "--attach", "1"], ["--hta", "--attach", "1"], ["--diff", "--attach", "1"], ["--report", "page", "--hta", good], ["--shapes", "--hta", good],
              ["--report", "page", "--diff", good, good], ["--timeout", "9", "--diff", good, good], ["--launch", "x", "--", "true"], ["--hta", "--", "true"]):
    r = run(*words)
    named = r.stderr.removeprefix("tandem doctor: ").split(" ")[0]
    check(r.returncode == 2 and not r.stdout and r.stderr.count("\n") == 1 and named.startswith("--") and (named in words or named == "--env-file") and
          "does nothing with" in r.stderr and "belongs to" in r.stderr, f"refused: {words}", r)
r = run("--lint", good, good)
check(r.returncode == 2 and "--lint" in r.stderr, "one script", r)
r = run("--memory", "2M", good)
check(r.returncode == 0, "memory where no trace is read", r)

with tempfile.TemporaryDirectory() as folder:
    os.makedirs(f"{folder}/jobs/one")
    with open(f"{folder}/jobs/one/rank0.json", "w") as file:
        file.write('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}')
    r = run(f"{folder}/jobs")
    check(r.returncode == 3 and r.stderr.count("\n") == 1 and "not entered" in r.stderr and f"{folder}/jobs/one" in r.stderr, "a folder of folders of traces", r)
    r = run("--hta", f"{folder}/jobs")
    check(r.returncode == 3 and r.stderr.count("\n") == 1 and "not entered" in r.stderr and f"{folder}/jobs/one" in r.stderr, "the same for HTA's numbers", r)
    check(run(f"{folder}/jobs/one").returncode == 0, "and the one that was named", r)

r = run()
check(r.returncode == 2 and r.stderr.count("\n") == 1, "usage", r)
finish()
