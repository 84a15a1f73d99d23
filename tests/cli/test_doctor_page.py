#!/usr/bin/env python3
"""`tandem doctor --report`, `--diff` and `--memory` on traces that the simulator writes: test_doctor_page.py TANDEM SIMULATE"""
import gzip
import json
import re
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

from doctor_checks import check, finish, run, simulate

simulator = sys.argv[2]
SVG = "{http://www.w3.org/2000/svg}"


with tempfile.TemporaryDirectory(prefix="tandem-doctor-") as there:
    there = Path(there)
    page = there / "page.html"
    truth = simulate(simulator, there / "slow", "data_loading")
    simulate(simulator, there / "well", "healthy_ddp")
    simulate(simulator, there / "cpu", "straggler_cpu")

    # a page: well-formed, whole, and it asks nobody for anything
    r = run("--report", page, there / "slow")
    text = page.read_text() if page.exists() else "<html/>"
    tree = xml.fromstring(text.replace("<!DOCTYPE html>\n", ""))
    words = " ".join(tree.itertext())
    check(r.returncode == 0 and "data_loading" in r.stdout and "data loading" in words and "What to change." in words, "page", r)
    links = re.findall(r"https?://[^\"' ]+", text)
    check(all(link.startswith("http://www.w3.org/") for link in links) and "<script" not in text and "@import" not in text, f"page alone, links {links}", r)
    picture = tree.find(f".//{SVG}svg")
    named = [t.text for t in picture.iter(f"{SVG}text")]
    check(all(f"rank {n}" in named for n in range(truth["ranks"])), f"ranks of the picture: {named}", r)
    kinds = {rect.get("class") for rect in picture.iter(f"{SVG}rect")}
    check({"data", "forward", "backward", "compute", "comm"} <= kinds, f"picture of {kinds}", r)
    check(not list(there.glob("*.tmp")), "nothing beside the page", r)
    for folder in ("well", "cpu"):
        r = run("--report", page, there / folder)
        words = " ".join(xml.fromstring(page.read_text().replace("<!DOCTYPE html>\n", "")).itertext())
        check(r.returncode == 0 and ("Healthy" in words) == (folder == "well"), folder, r)

    # names from outside are text, also in the page
    hostile = "</td><script>alert(1)</script>&\u0001\""
    events = [{"ph": "X", "cat": "kernel", "name": hostile, "pid": 0, "tid": 7, "ts": 10 * i, "dur": 9, "args": {"stream": 7, "correlation": i + 1}} for i in range(9)]
    (there / "hostile.json").write_text(json.dumps({"traceEvents": events}))
    r = run("--report", page, there / "hostile.json")
    check(r.returncode == 0 and "<script" not in page.read_text() and xml.fromstring(page.read_text().replace("<!DOCTYPE html>\n", "")) is not None, "hostile names", r)

    # what cannot be: one clear line
    before = page.read_text()
    r = run("--report", there / "nowhere/page.html", there / "slow")
    check(r.returncode == 3 and "nowhere/page.html" in r.stderr and r.stderr.count("\n") == 1, "no folder for the page", r)
    r = run("--report", page, "--diff", there / "slow", there / "well")
    check(r.returncode == 2 and "--report" in r.stderr and page.read_text() == before, "no page of two jobs", r)
    r = run("--diff", there / "slow")
    check(r.returncode == 2 and "--diff" in r.stderr, "diff of one", r)
    r = run("--diff", there / "slow", there / "nowhere")
    check(r.returncode == 3 and "nowhere" in r.stderr, "diff with nothing", r)

    # two jobs
    r = run("--diff", there / "slow", there / "well")
    check(r.returncode == 0 and "gone: data_loading" in r.stdout and max(map(len, r.stdout.splitlines())) <= 100, "diff", r)
    r = run("--diff", "--json", there / "slow", there / "well")
    diff = json.loads(r.stdout)["diff"]
    data = diff["iteration"]["data_ms"]
    check(data["a"] > data["b"] and abs(data["change"] - (data["b"] - data["a"])) < 1e-3, f"diff of data: {data}", r)
    r = run("--diff", "--json", there / "slow", there / "slow")
    diff = json.loads(r.stdout)["diff"]
    check(all(m["change"] == 0 for m in diff["iteration"].values()) and all(k["ms"]["change"] == 0 for k in diff["kernels"]), "diff with itself", r)
    check({"name", "count", "ms"} == set(diff["kernels"][0]) and diff["operators"] and diff["collectives"], "lists of a diff", r)

    # a limit that does not hold all iterations leaves whole ones out, and says so
    events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{s}", "pid": 1, "tid": 1, "ts": 100000 * s, "dur": 100000} for s in range(8)]
    events += [{"ph": "X", "cat": "cpu_op", "name": f"aten::op{i % 7}", "pid": 1, "tid": 1, "ts": 100000 * s + 4 * i, "dur": 3} for s in range(8) for i in range(20000)]
    with gzip.open(there / "large.json.gz", "wt", compresslevel=1) as file:
        json.dump({"traceEvents": events}, file)
    r = run("--memory", "12M", there / "large.json.gz")
    check(r.returncode == 0 and re.search(r"the last [2-6] of 8 iterations were used", " ".join(r.stdout.split())), "memory", r)
    r = run("--memory", "1K", there / "large.json.gz")
    check(r.returncode == 2 and "--memory" in r.stderr, "too little memory to ask for", r)
finish()
