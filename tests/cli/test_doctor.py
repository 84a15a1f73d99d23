#!/usr/bin/env python3
"""`tandem doctor` as its users run it: test_doctor.py TANDEM CORPUS"""
import json
import subprocess
import sys

tandem, corpus = sys.argv[1:]
failures = 0


def run(*args):
    return subprocess.run([tandem, "doctor", *args], capture_output=True, text=True)


def check(good, what, result):
    global failures
    if not good:
        failures += 1
        print(f"{what}: exit code {result.returncode}\n{result.stdout}{result.stderr}")


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
r = run()
check(r.returncode == 2 and r.stderr.count("\n") == 1, "usage", r)
sys.exit(1 if failures else 0)
