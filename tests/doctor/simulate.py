#!/usr/bin/env python3
"""Traces of a simulated PyTorch job as its profiler would write them, and the truth about the job beside them.

    simulate.py --list
    simulate.py --out DIR --scenario small_buckets --seed 3
    simulate.py --out DIR --scenario straggler_host --stacks --memory --style old --plain

DIR gets a trace a rank and truth.json.txt: the step's time now, and its time when the same job is simulated again with one cause
taken away, for every cause that a finding of `tandem doctor` names. Python's standard library only; the same seed writes
the same bytes.
"""
import argparse
import json
import os
import sys

from causes import CURES, FINDING, SCENARIOS, Draw, without
from kineto_file import write
from machine import Machine

# What a cause must cost for the scenario to be one, and what nothing may cost in a healthy job: in per cent of the step.
LEAST, MOST_IN_HEALTH = 11.0, 7.0


def gains(job, seed, steps=3, only=None):
    """The step in ns, and without each cause that the job has; measured over fewer steps than a trace has."""
    now = Machine(job, seed, record=False).run(steps).step_ns()
    free = {finding: without(job, finding) for finding in CURES if only is None or finding in only}
    return now, {finding: Machine(other, seed, record=False).run(steps).step_ns() for finding, other in free.items() if other != job}


def make(scenario, seed, most_ranks=8, every_cause=True, tries=12):
    """A job of the scenario whose cause matters, what it costs now and without each cause, or without its own alone."""
    for attempt in range(tries):
        job = SCENARIOS[scenario](Draw(f"{scenario} {seed} {attempt}", most_ranks))
        wanted = FINDING[scenario]
        now, cured = gains(job, seed, only=None if every_cause or wanted is None else [wanted])
        gain = {finding: 100 * (now - ns) / now for finding, ns in cured.items()}
        if (gain.get(wanted, 0) >= LEAST) if wanted else max(gain.values()) <= MOST_IN_HEALTH:
            return job, now, cured, gain
    raise SystemExit(f"simulate.py: {scenario} with seed {seed}: no job found in {tries} tries; last gains {gain}")


def simulate(out, scenario, seed, steps=4, plain=False, skew_us=0, most_ranks=8, every_cause=True, **how):
    """Writes the traces and the truth; returns the truth."""
    job, now, cured, gain = make(scenario, seed, most_ranks, every_cause)
    machine = Machine(job, seed).run(steps)
    os.makedirs(out, exist_ok=True)
    nbytes = sum(write(rank, os.path.join(out, f"rank{rank.number}.pt.trace.json" + ("" if plain else ".gz")), skew_ns=1000 * skew_us * rank.number, **how) for rank in machine.ranks)
    wanted = FINDING[scenario]
    truth = {"scenario": scenario, "seed": seed, "finding": wanted, "ranks": job.ranks, "steps": steps, "step_ns_mean": round(machine.step_ns()), "what_if_from_step_ns": round(now),
             "what_if_step_ns": {finding: round(ns) for finding, ns in cured.items()}, "gain_pctg": {finding: round(g, 2) for finding, g in gain.items()},
             "straggler_rank": job.slow.rank if job.slow else None, "straggler_kind": job.slow.kind if job.slow else None, "slow_pair": job.slow_pair,
             "trace_bytes": nbytes, "job": {name: getattr(job, name) for name in job.__dataclass_fields__}}
    with open(os.path.join(out, "truth.json.txt"), "w") as file:  # not .json: it is no trace
        json.dump(truth, file, indent=1)
        file.write("\n")
    return truth


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="the scenarios and the finding of each")
    parser.add_argument("--out")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--most-ranks", type=int, default=8)
    parser.add_argument("--style", choices=("new", "old"), default="new")
    parser.add_argument("--stacks", action="store_true", help="Python's frames")
    parser.add_argument("--memory", action="store_true", help="[memory] instants")
    parser.add_argument("--plain", action="store_true", help=".json, not .json.gz")
    parser.add_argument("--skew-us", type=int, default=0, help="clock of rank r is ahead by r times this")
    options = parser.parse_args()
    if options.list:
        for name in SCENARIOS:
            print(f"{name:24} {FINDING[name] or '-'}")
        return
    if not options.out or not options.scenario:
        parser.error("--out and --scenario are needed")
    truth = simulate(options.out, options.scenario, options.seed, options.steps, options.plain, options.skew_us, options.most_ranks, style=options.style, stacks=options.stacks, memory=options.memory)
    print(f"{options.out}: {truth['ranks']} ranks, {truth['trace_bytes'] / 1e6:.1f} MB of JSON; step {truth['step_ns_mean'] / 1e6:.2f} ms; finding {truth['finding']}; gains % {truth['gain_pctg']}")


if __name__ == "__main__":
    sys.exit(main())
