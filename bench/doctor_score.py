#!/usr/bin/env python3
"""How often `tandem doctor` names the true bottleneck of simulated jobs, and how near its gain is to the true one.

    bench/doctor_score.py build/tandem --jobs 200 --seed 1            # the simulator: ../shared/traces/make_big_trace.py, or --simulator
    bench/doctor_score.py build/tandem --own 10                       # the tree's own, tests/doctor/: every finding with 10 seeds

Each job is drawn from the seed: scenario, straggler's kind and rank, 2 to 8 ranks, layers, buckets, steps, style, clock skew, stacks.
The simulator writes the traces and, beside them, the gain of taking each cause away, found by simulating again without it. Right means:
the first finding is the true bottleneck, or a cause within 2 points of it; a healthy job has no finding. A gain is right within 10 % or
2 points. The interval is right if it holds the truth.
"""
import argparse
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

SCENARIOS = ["compute", "data", "comm", "straggler", "straggler", "straggler", "launch", "mixed", "mixed", "mixed"]
NAMES = {"communication": "communication_exposed", "launch": "launch_bound", "data_loading": "data_loading", "straggler": "straggler"}


def draw(seed, number):
    rng = random.Random(f"{seed}/{number}")
    ranks = rng.randint(2, 8)
    job = {"scenario": SCENARIOS[number % len(SCENARIOS)], "ranks": ranks, "steps": rng.randint(2, 6), "seed": rng.randrange(10**6),
           "straggler": rng.randrange(ranks), "straggler-kind": rng.choice(["compute", "data", "host"]), "style": rng.choice(["new", "old"]),
           "layers": rng.choice([2, 3, 4, 6, 8, 10, 12, 16, 20]), "gz": rng.choice([0, 1])}
    job["buckets"] = min(job["layers"], rng.choice([0, 1, 2, 3, 4, 6, 8, 12]))
    if rng.random() < 0.4:
        job["skew-us"] = rng.choice([50, 700, 3000, -1500])
    if rng.random() < 0.2:
        job["data-ms"] = rng.choice([0.5, 1, 2, 4, 8])
    if rng.random() < 0.25:
        job["python-stack"] = None
    return job


def simulate(simulator, folder, job, **how):
    options = [f"--{key}" if value is None else f"--{key}={value}" for key, value in job.items()]
    return subprocess.run([sys.executable, simulator, "--out", folder, *options], **how)


def run_one(tandem, simulator, scratch, seed, number):
    job = draw(seed, number)
    folder = Path(scratch) / f"job{number}"
    simulate(simulator, folder, job, check=True, stdout=subprocess.DEVNULL)
    truth = json.loads((folder / "truth.json.txt").read_text())
    began = time.monotonic()
    done = subprocess.run([tandem, "doctor", "--json", folder], capture_output=True, text=True)
    seconds = time.monotonic() - began
    report = json.loads(done.stdout) if done.returncode == 0 else None
    shutil.rmtree(folder)
    return number, job, truth, report, seconds, done.stderr


def judge(job, truth, report):
    """What came out of one job: right or not, gain said and true, whether the interval holds it, why not."""
    if report is None:
        return {"right": False, "why": "doctor failed"}
    true, gains = truth["bottleneck"], truth["gain_pctg"]
    findings = report["findings"]
    named = findings[0]["id"] if findings else "compute"
    if true == "compute":
        return {"right": not findings, "said": named, "true": true, "why": f"healthy, but {named} said ({findings[0]['gain_pct']:.1f} %)" if findings else ""}
    equal = [NAMES[true]] + [NAMES[k] for k, g in gains.items() if g >= gains[true] - 2]
    if truth["straggler_kind"] == "data" and ("straggler" in equal or "data_loading" in equal):
        equal += ["data_loading", "straggler"]
    found = next((f for f in findings if f["id"] == NAMES[true]), None) or next((f for f in findings if f["id"] in equal), None)
    right = named in equal
    out = {"right": right, "said": named, "true": NAMES[true], "error": report["replay_error_pct"]}
    if right and named == "straggler" and findings[0]["rank"] != truth["straggler_rank"]:
        out["right"], out["why"] = False, f"rank {findings[0]['rank']} said, {truth['straggler_rank']} is it"
    elif right and named == "straggler" and findings[0]["evidence"]["cause"] != truth["straggler_kind"]:
        out["why"] = f"cause {findings[0]['evidence']['cause']} said, {truth['straggler_kind']} is it"
    if not right:
        out["why"] = f"{named} said, {NAMES[true]} is it"
    if found:
        goal = gains[next(k for k, v in NAMES.items() if v == found["id"])]
        out.update(gain=found["gain_pct"], goal=goal, near=abs(found["gain_pct"] - goal) <= max(2.0, 0.1 * goal),
                   held=found["gain_pct_low"] <= goal <= found["gain_pct_high"])
    else:
        out.update(gain=None, goal=gains[true], near=False, held=False)
    return out


def main():
    beside = Path(os.environ.get("TDM_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("tandem")
    ap.add_argument("--own", type=int, metavar="SEEDS", help="score every finding on the tree's own simulator (tests/doctor/score.py)")
    ap.add_argument("--simulator", default=str(beside / "traces/make_big_trace.py"))
    ap.add_argument("--jobs", type=int, default=200)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--parallel", type=int, default=2)
    ap.add_argument("--only", type=int, help="this job alone, its traces kept in --keep")
    ap.add_argument("--keep", default="kept")
    a = ap.parse_args()
    if a.own:
        own = Path(__file__).resolve().parents[1] / "tests/doctor/score.py"
        return subprocess.run([sys.executable, own, a.tandem, f"--seeds={a.own}", f"--first={a.seed}", f"--parallel={a.parallel}"]).returncode
    if not Path(a.simulator).is_file():
        sys.exit(f"no simulator at {a.simulator}: give --simulator")
    if a.only is not None:
        return simulate(a.simulator, a.keep, draw(a.seed, a.only)).returncode
    table, failures, seconds, errors = defaultdict(list), [], [], []
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(a.parallel) as pool:
        runs = [pool.submit(run_one, a.tandem, a.simulator, scratch, a.seed, n) for n in range(a.jobs)]
        for done in concurrent.futures.as_completed(runs):
            number, job, truth, report, took, stderr = done.result()
            result = judge(job, truth, report)
            name = job["scenario"] + (f" ({job['straggler-kind']})" if job["scenario"] in ("straggler", "mixed") else "")
            table[name].append(result)
            seconds.append(took)
            errors.append(abs(report["replay_error_pct"]) if report else 100)
            if not result["right"] or result.get("why") or result.get("near") is False or result.get("held") is False:
                failures.append((number, name, job, result, truth["gain_pctg"], stderr.strip()))
    print(f"{'scenario':22} {'jobs':>5} {'named right':>12} {'gain right':>11} {'in interval':>12} {'largest error':>14}")
    everything = [r for rows in table.values() for r in rows]
    for name, rows in [*sorted(table.items()), ("all", everything)]:
        gains = [r for r in rows if "near" in r]
        wrong = max((abs(r["gain"] - r["goal"]) for r in gains if r["gain"] is not None), default=0)
        print(f"{name:22} {len(rows):5} {sum(r['right'] for r in rows):6} {100 * sum(r['right'] for r in rows) / len(rows):4.0f} % "
              f"{sum(r['near'] for r in gains):5}/{len(gains):<5} {sum(r['held'] for r in gains):6}/{len(gains):<5} {wrong:9.2f} points")
    print(f"replay of the unchanged graph: largest error {max(errors):.4f} %; doctor took {1000 * sum(seconds) / len(seconds):.0f} ms a job")
    for number, name, job, r, gains, stderr in sorted(failures, key=lambda f: f[0]):
        print(f"job {number} {name}: {r.get('why') or ''} gain {r.get('gain')} for {r.get('goal')}; truth {gains}; {job} {stderr}")
    right = sum(r["right"] for r in everything)
    gains = [r for r in everything if "near" in r]
    return 0 if right >= 0.95 * len(everything) and sum(r["near"] for r in gains) >= 0.9 * len(gains) else 1


if __name__ == "__main__":
    sys.exit(main())
