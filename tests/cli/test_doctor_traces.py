#!/usr/bin/env python3
"""`tandem doctor` on traces: simulated jobs whose truth is known, and real ones where they are: test_doctor_traces.py TANDEM SIMULATOR"""
import gzip
import json
import os
import sys
import tempfile
from pathlib import Path

from doctor_checks import check, finish, run, simulate

simulator = sys.argv[2]
shared = Path(os.environ.get("TDM_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "traces/share"


def report_of(*args):
    result = run("--json", *args)
    return (json.loads(result.stdout) if result.returncode == 0 else None), result


def check_scenario(scratch, scenario, *options):
    folder = scratch / scenario
    truth = simulate(simulator, folder, scenario, "--steps", "3", *options)
    report, result = report_of(folder)
    check(report is not None, scenario, result)
    if report is None:
        return
    check(abs(report["replay_error_pct"]) < 0.1, f"{scenario}: the unchanged replay", result)
    for b in report["breakdown"]:
        parts = sum(b[k] for k in ("compute_pct", "comm_exposed_pct", "copy_pct", "data_pct", "idle_pct"))
        check(abs(parts - 100) < 0.01, f"{scenario}: the parts of rank {b['rank']}", result)
    named = [f["id"] for f in report["findings"]]
    if truth["finding"] is None:
        check(named == [] and report["limit"] == "compute", f"{scenario}: healthy", result)
        return
    check(named[:1] == [truth["finding"]] and report["limit"] == truth["finding"], f"{scenario}: named {named}", result)
    first, goal = report["findings"][0], truth["gain_pctg"][truth["finding"]]
    check(abs(first["gain_pct"] - goal) <= max(2, goal / 10), f"{scenario}: gain {first['gain_pct']} for {goal}", result)
    check(first["gain_pct_low"] <= first["gain_pct"] <= first["gain_pct_high"] and first["evidence"] and first["advice"], f"{scenario}: fields", result)
    if truth["finding"] == "straggler":
        check(first["rank"] == truth["straggler_rank"], f"{scenario}: rank {first['rank']}", result)


def check_text(folder):
    result = run(folder)
    lines = result.stdout.splitlines()
    check(result.returncode == 0 and max(map(len, lines)) <= 100, "text of 100 columns", result)
    check("1. data_loading: the main thread spends" in result.stdout and "To gain: " in result.stdout and "docs/findings/data_loading.md" in result.stdout, "text", result)
    check("truth.json.txt is no trace and was left out" in result.stdout.replace("\n  ", " "), "other files of the folder", result)


def check_damaged(scratch, folder):
    """A trace that ends in the middle: what is there is used, and that it ends is said."""
    cut = scratch / "cut"
    cut.mkdir()
    for file in folder.glob("*.gz"):
        whole = gzip.decompress(file.read_bytes())
        (cut / file.name.removesuffix(".gz")).write_bytes(whole[: len(whole) * 6 // 10])
    report, result = report_of(cut)
    check(report is not None and report["iterations"] >= 1 and any("end" in n for n in report["notes"]), "cut traces", result)
    (cut / "empty.json").write_text("")
    (cut / "README").write_text("a folder of traces")
    check(run(cut).returncode == 0, "other files beside", result)
    nothing = scratch / "nothing.json"
    nothing.write_text('{"name": 1}')
    result = run(nothing)
    check(result.returncode == 3 and "nothing.json" in result.stderr and result.stderr.count("\n") == 1, "no trace", result)


def check_kinds(scratch):
    """What spreads a job over its ranks, told by the names that PyTorch and DeepSpeed give to its parts."""
    names = {"DDP": "DistributedDataParallel.forward", "FSDP": "FullyShardedDataParallel.forward", "ZeRO": "Optimizer.step#ZeroRedundancyOptimizer.step",
             "DataParallel": "DataParallel.forward"}
    for kind, name in names.items():
        events = [{"ph": "X", "cat": cat, "name": n, "pid": 1, "tid": 1, "ts": start, "dur": 10} for cat, n, start in (("user_annotation", name, 0), ("cpu_op", "aten::mm", 1))]
        (scratch / f"{kind}.json").write_text(json.dumps({"distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 2}, "traceEvents": events}))
        report, result = report_of(scratch / f"{kind}.json")
        check(report is not None and report["parallel"] == [kind], f"{name} is of {kind}", result)
        check(f", {kind} over gloo" in run(scratch / f"{kind}.json").stdout, f"{kind} in the text", result)


def check_real():
    if not shared.is_dir():
        print(f"no real traces at {shared}: those checks are left out")
        return
    for folder in sorted(f for f in shared.iterdir() if f.is_dir() and f.name != "malformed"):
        result = run(folder)
        check(result.returncode == 0 and not result.stderr, folder.name, result)
        check(max(map(len, result.stdout.splitlines())) <= 100, f"{folder.name}: 100 columns", result)
    slow, result = report_of(shared / "resnet50_loader0")
    first = slow["findings"][0]
    check(first["id"] == "data_loading" and abs(first["evidence"]["loading_pct"] - 40) < 1, "a loader without workers", result)
    fast, result = report_of(shared / "resnet50_loader4")
    check(all(f["id"] != "data_loading" for f in fast["findings"]), "a loader with workers", result)
    gained = 100 * (1 - fast["iteration_ms"] / slow["iteration_ms"])
    check(first["gain_pct_low"] - 8 < gained < first["gain_pct_high"], f"{gained:.1f} % were gained by four workers", result)
    late, result = report_of(shared / "dlrm_8rank")
    check(max(late["breakdown"], key=lambda b: b["last_to_join"])["rank"] == 7, "the rank that comes last", result)


with tempfile.TemporaryDirectory() as scratch:
    scratch = Path(scratch)
    for scenario in ("data_loading", "communication_exposed", "straggler_compute", "straggler_host", "straggler_data", "launch_bound", "implicit_sync",
                     "healthy_ddp", "healthy_ahead", "communication_cpu", "straggler_cpu", "data_loading_cpu", "healthy_cpu"):
        check_scenario(scratch, scenario, *(["--skew-us", "2000", "--style", "old"] if scenario == "straggler_compute" else []))
    check_text(scratch / "data_loading")
    check_damaged(scratch, scratch / "data_loading")
    check_kinds(scratch)
check_real()
finish()
