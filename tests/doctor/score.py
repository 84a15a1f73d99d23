#!/usr/bin/env python3
"""How often `tandem doctor` finds what is wrong with simulated jobs, finding by finding, and how near its gain is to the true one.

    score.py build/tandem --seeds 10               # every scenario of simulate.py with seeds 1 to 10
    score.py build/tandem --seeds 10 --first 100 --scenario slow_link

Right: the scenario's finding is first, or within 2 points of the first; of a straggler also the rank and the cause (one rank's slow
loader and data loading count as equal); of a healthy job there is none. The gain is right within 10 % or 2 points of the truth, the interval if it holds it.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from causes import FINDING, SCENARIOS
from simulate import simulate

POINTS, RELATIVE = 2.0, 0.1


def judge(truth, report):
    """What came out of one job."""
    wanted, findings = truth["finding"], report["findings"]
    said = [(f["id"], round(f["gain_pct"], 1)) for f in findings]
    if wanted is None:
        return {"right": not findings, "why": f"healthy, but {said}" if findings else ""}
    goal = truth["gain_pctg"][wanted]
    found = next((f for f in findings if f["id"] == wanted), None)
    equal = {"data_loading"} if wanted == "straggler" and truth["straggler_kind"] == "data" else set()
    best = max((f["gain_pct"] for f in findings if f["id"] not in equal), default=0)
    result = {"right": found is not None and found["gain_pct"] >= best - POINTS, "goal": goal, "gain": found and found["gain_pct"], "near": False, "held": False, "why": ""}
    if not result["right"]:
        result["why"] = f"{said} said"
    if found:
        result["near"] = abs(found["gain_pct"] - goal) <= max(POINTS, RELATIVE * goal)
        result["held"] = found["gain_pct_low"] <= goal <= found["gain_pct_high"]
        if wanted == "straggler" and (found["rank"] != truth["straggler_rank"] or found["evidence"]["cause"] != truth["straggler_kind"]):
            result["right"] = False
            result["why"] = f"rank {found['rank']} ({found['evidence']['cause']}) said, {truth['straggler_rank']} ({truth['straggler_kind']}) is it"
        elif not result["near"]:
            result["why"] = f"gain {found['gain_pct']:.1f} said, {goal:.1f} is it"
    return result


def run(tandem, scenario, seed, **how):
    """One job: its traces written, read and judged. Every other seed has clocks that are apart, every third Python's stacks, every fifth is
    of 2022 (where kernels do not say their group: links cannot be compared then)."""
    if seed % 5 == 0 and scenario != "slow_link":
        how.setdefault("style", "old")
    with tempfile.TemporaryDirectory() as folder:
        truth = simulate(folder, scenario, seed, every_cause=False, skew_us=(seed % 2) * 400, stacks=seed % 3 == 0, memory=seed % 4 == 0, **how)
        done = subprocess.run([tandem, "doctor", "--json", folder], capture_output=True, text=True)
    if done.returncode != 0:
        return {"right": False, "why": f"exit code {done.returncode}: {done.stderr.strip()}"}
    return judge(truth, json.loads(done.stdout))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), action="append")
    parser.add_argument("--most-ranks", type=int, default=8)
    parser.add_argument("--parallel", type=int, default=2)
    options = parser.parse_args(arguments)
    jobs = [(scenario, seed) for scenario in options.scenario or SCENARIOS for seed in range(options.first, options.first + options.seeds)]
    table, notes = {}, []
    with concurrent.futures.ProcessPoolExecutor(options.parallel) as pool:
        waiting = {pool.submit(run, options.tandem, scenario, seed, most_ranks=options.most_ranks): (scenario, seed) for scenario, seed in jobs}
        for done in concurrent.futures.as_completed(waiting):
            scenario, seed = waiting[done]
            result = done.result()
            table.setdefault(scenario, []).append(result)
            if result["why"]:
                notes.append(f"{scenario} seed {seed}: {result['why']}")
    print(f"{'scenario':22} {'finding':22} {'jobs':>5} {'named right':>12} {'gain right':>11} {'in interval':>12} {'largest error':>14}")
    everything = []
    for scenario in [*(s for s in SCENARIOS if s in table), "all"]:
        rows = table.get(scenario, everything)
        gains = [r for r in rows if "goal" in r]
        worst = max((abs(r["gain"] - r["goal"]) for r in gains if r["gain"] is not None), default=0)
        share = f"{sum(r['near'] for r in gains)}/{len(gains)}" if gains else "-"
        held = f"{sum(r['held'] for r in gains)}/{len(gains)}" if gains else "-"
        print(f"{scenario:22} {FINDING.get(scenario) or '-':22} {len(rows):5} {sum(r['right'] for r in rows):12} {share:>11} {held:>12} {worst:7.2f} points")
        everything += rows if scenario != "all" else []
    print("\n".join(sorted(notes)))
    gains = [r for r in everything if "goal" in r]
    return 0 if sum(r["right"] for r in everything) >= 0.95 * len(everything) and sum(r["near"] for r in gains) >= 0.9 * len(gains) else 1


if __name__ == "__main__":
    sys.exit(main())
