#!/usr/bin/env python3
"""`tandem doctor --hta --json` against the values HTA 0.5.0 computed of real traces: test_hta.py TANDEM ROOT [SET...]

First the tree's own small traces. Reference values are not part of the tree: TDM_SHARED or ROOT/../shared has traces/share/<set>/ and traces/reference/share__<set>.json.
Every number of a reference is looked up. What may differ, and why, stands in reason(), which checks the arithmetic of docs/hta.md; anything
else fails. With names of sets, or SHOW_KNOWN=1, every difference is shown.
"""
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

METRICS = ("temporal_breakdown", "comm_comp_overlap", "idle_time_breakdown", "queue_length_summary", "blocked_on_full_queue", "memory_bw_summary",
           "cuda_kernel_launch_stats", "gpu_user_annotation_breakdown", "temporal_breakdown_incl_last", "comm_comp_overlap_incl_last")
# What names a row of a table; everything else in it is a value.
KEYS = ("rank", "stream", "idle_category", "name", "kernel_type")
TOLERANCE = 1e-9  # of the value: sums are not added in HTA's order

def rows(table):
    return {" ".join(str(row[k]) for k in KEYS if k in row): {k: v for k, v in row.items() if k not in KEYS} for row in table or []}


def tables(values):
    """metric -> row -> field -> value"""
    out = {metric: rows(values.get(metric)) for metric in METRICS}
    for metric in ("kernel_breakdown_with_memory", "kernel_breakdown_default"):
        for part, table in (values.get(metric) or {}).items():
            out[f"{metric}.{part}"] = rows(table)
    whole = {name: values.get(name) for name in ("ranks", "profiler_steps", "potential_stragglers", "min_ts") if name in values}
    out["job"] = {"": {**whole, **{f"rows of rank {r}": n for r, n in values.get("rows_after_filter", {}).items()}}}
    out["errors"] = {"": {name: text.split(":")[0] for name, text in values.get("errors", {}).items()}}
    return out


def equal(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12)
    return a == b


def compare(ours, theirs):
    """Yields (metric, row, field, ours, HTA's, our row, HTA's row) for every number of either side; None where one side has none."""
    mine, reference = tables(ours), tables(theirs)
    for metric in reference:
        for row in list(reference[metric]) + [r for r in mine.get(metric, {}) if r not in reference[metric]]:
            left, right = mine.get(metric, {}).get(row, {}), reference[metric].get(row, {})
            for field in list(right) + [f for f in left if f not in right]:
                yield metric, row, field, left.get(field), right.get(field), left, right


# Copies that begin in the us in which others end: HTA adds and subtracts in the order that its unstable sort leaves.
TIED_COPIES = {("diff_test", "1 Memcpy DtoD"), ("rccl_mi300_rank0of8", "0 Memcpy DtoD")}


def reason(name, metric, row, field, ours, theirs, our_row, their_row):
    """Why a value may differ; None: it may not."""
    if metric == "queue_length_summary" and our_row and field not in ("queue_length_count", "queue_length_min"):
        # Calls come first here. Each kernel that HTA takes before a call of the same us makes the sum of all lengths 2 smaller.
        less = (our_row["queue_length_mean"] - their_row["queue_length_mean"]) * our_row["queue_length_count"]
        if less > 0.5 and abs(less / 2 - round(less / 2)) < 1e-6 and (field != "queue_length_max" or ours >= theirs):
            return f"{round(less / 2)} kernels before calls of the same us"
    if metric == "memory_bw_summary" and (name, row) in TIED_COPIES:
        return "copies that begin and end in one us"
    if metric == "kernel_breakdown_with_memory.kernel_type" and not our_row and their_row["sum"] == 0:
        return "types that only touch"
    return None


def damaged(tandem, folder):
    """Files that were harmed and are to give the unharmed one's figures: yields what is wrong."""
    expected = json.loads((folder / "expected.json.txt").read_text())
    base = expected["base_hta_rules"]
    for name, file in expected["files"].items():
        if "same as base" not in file["want"] or "CPU" in file["want"]:
            continue
        r = subprocess.run([tandem, "doctor", "--hta", "--json", str(folder / name)], capture_output=True, text=True)
        if r.returncode != 0:
            yield f"{name}: exit code {r.returncode}: {r.stderr}"
            continue
        ours = json.loads(r.stdout)
        if ours["temporal_breakdown"] is None:
            yield f"{name}: {ours['errors']}"
            continue
        t = ours["temporal_breakdown"][0]
        idle = {}
        for row in ours["idle_time_breakdown"]:
            idle.setdefault(str(row["stream"]), {})[row["idle_category"]] = row["idle_time"]
        got = {"temporal": {k: t[f"{n}_time(us)"] for k, n in (("idle", "idle"), ("compute", "compute"), ("non_compute", "non_compute"), ("span", "kernel"))},
               "overlap_pctg": ours["comm_comp_overlap"][0]["comp_comm_overlap_pctg"],
               "kernel_types": {row["kernel_type"]: row["sum"] for row in ours["kernel_breakdown_with_memory"]["kernel_type"]}}
        if "interval metrics" not in file["want"]:
            got["idle"] = idle
        for metric, value in got.items():
            if value != base[metric]:
                yield f"{name}: {metric}: {value}, expected {base[metric]}"


def own(tandem, root):
    """The command on traces of the tree: yields what is wrong."""
    corpus = Path(root) / "tests/fuzz/corpus/hta"

    def run(*arguments):
        return subprocess.run([tandem, "doctor", "--hta", *map(str, arguments)], capture_output=True, text=True)

    r = run("--json", corpus / "decimals")
    if r.returncode != 0 or r.stdout.count("\n") != 1:
        yield f"--json: exit code {r.returncode}: {r.stdout}{r.stderr}"
    else:
        ours = json.loads(r.stdout)
        if (ours["hta"], ours["ranks"], ours["profiler_steps"], ours["min_ts"]) != ("0.5.0", [0], [1, 2, 3], 2):
            yield f"--json: {r.stdout[:300]}"
        # every time ends in .25: HTA's rounding takes 1.25 us of each kernel
        if ours["temporal_breakdown"][0]["compute_time(us)"] != 882 or ours["unrounded"]["temporal_breakdown"][0]["compute_time(us)"] != 926.25:
            yield f"rounding: {ours['temporal_breakdown']} {ours['unrounded']}"
    r = run("--json", corpus / "no_kernels")
    if r.returncode != 0 or "IndexError" not in json.loads(r.stdout)["errors"].get("temporal_breakdown", ""):
        yield f"no kernels: exit code {r.returncode}: {r.stdout}{r.stderr}"
    r = run(corpus / "whole_us")
    if r.returncode != 0 or "Temporal breakdown" not in r.stdout or "(no communication)" in r.stdout or max(map(len, r.stdout.splitlines())) > 100:
        yield f"text: exit code {r.returncode}: {r.stdout}{r.stderr}"
    with tempfile.TemporaryDirectory() as folder:
        trace = json.loads((corpus / "whole_us").read_text())
        trace["distributedInfo"] = {"rank": 2**31 - 1, "world_size": 2**31 - 1}
        (Path(folder) / "last.json").write_text(json.dumps(trace))
        r = run(folder)
        rows = [line for line in r.stdout.splitlines() if line.startswith(f"  {2**31 - 1} ")]
        if r.returncode != 0 or len(rows) < 4 or max(map(len, r.stdout.splitlines())) > 100:
            yield f"the last rank there can be: exit code {r.returncode}: {r.stdout}{r.stderr}"
    r = run("/nowhere")
    if r.returncode != 3 or "/nowhere" not in r.stderr or r.stderr.count("\n") != 1:
        yield f"no file: exit code {r.returncode}: {r.stderr}"
    r = run()
    if r.returncode != 2:
        yield f"no argument: exit code {r.returncode}: {r.stderr}"


def main():
    tandem, root, *wanted = sys.argv[1:]
    traces = Path(os.environ.get("TDM_SHARED") or Path(root).resolve().parent / "shared") / "traces"
    bad = list(own(tandem, root))
    if not (traces / "reference").is_dir():
        print("\n".join(bad) or f"skipped: no reference values at {traces}")
        return 1 if bad else 77
    count = same = known = 0
    for file in sorted((traces / "reference").glob("share__*.json")):
        name = file.stem.removeprefix("share__")
        reference = json.loads(file.read_text())
        if (wanted and name not in wanted) or "parse" in reference["errors"]:  # HTA cannot read it at all
            continue
        r = subprocess.run([tandem, "doctor", "--hta", "--json", str(traces / "share" / name)], capture_output=True, text=True)
        if r.returncode != 0:
            bad.append(f"{name}: exit code {r.returncode}: {r.stderr}")
            continue
        for metric, row, field, ours, theirs, our_row, their_row in compare(json.loads(r.stdout), reference):
            count += 1
            if equal(ours, theirs):
                same += 1
                continue
            why = reason(name, metric, row, field, ours, theirs, our_row, their_row)
            known += why is not None
            line = f"{name}: {metric} {row[:60]} {field}: {ours}, HTA {theirs}"
            if why is None:
                bad.append(line)
            elif wanted or os.environ.get("SHOW_KNOWN"):
                print(f"{line}: {why}")
    if not wanted:
        bad += damaged(tandem, traces / "share/malformed")
    print(f"{same} of {count} values equal, {known} differ for known reasons, {len(bad)} for none")
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
