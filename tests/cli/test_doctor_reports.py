#!/usr/bin/env python3
"""`tandem doctor` on what users of other tools reported about traces (docs/reports.md): test_doctor_reports.py TANDEM"""
import json
import tempfile
from pathlib import Path

from doctor_checks import check, finish, run

MS = 1000


def report_of(folder, *traces):
    folder.mkdir()
    for rank, events in enumerate(traces):
        (folder / f"rank{rank}.json").write_text(json.dumps({"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(traces)}, "traceEvents": events}))
    result = run("--json", folder)
    check(result.returncode == 0, folder.name, result.stderr)
    return json.loads(result.stdout) if result.returncode == 0 else {}


def event(cat, name, start_us, dur_us, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": 1000000 + start_us, "dur": dur_us, "args": args}


def step(number, start_us, dur_us):
    return event("user_annotation", f"ProfilerStep#{number}", start_us, dur_us)


def kernel(name, start_us, dur_us, stream, correlation):
    """With its launch, a moment before."""
    return [event("cuda_runtime", "cudaLaunchKernel", start_us - 5, 2, correlation=correlation),
            event("kernel", name, start_us, dur_us, stream, stream=stream, device=0, correlation=correlation)]


def test_71_communication_is_known_by_all_its_names(scratch):
    """100 ms: computation from 0 to 80, communication from 75 to 95, nothing to 100."""
    on_device = ["ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                 "nccldevkernel_allreduce", "NCCLKERNEL_ALLREDUCE", "rcclKernel_AllReduce", "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"]
    for i, name in enumerate(on_device):
        events = [step(0, -10, 100 * MS + 10), *kernel("gemm", 0, 80 * MS, 7, 1), *kernel(name, 75 * MS, 20 * MS, 8, 2)]
        b = report_of(scratch / f"device{i}", events)["breakdown"][0]
        seen = [b["comm_exposed_pct"], b["comm_overlapped_pct"], b["compute_pct"], b["idle_pct"]]
        check(all(abs(x - y) < 0.1 for x, y in zip(seen, (15, 5, 80, 5))), name, seen)
    for i, name in enumerate(["gloo:all_reduce", "mpi:all_reduce", "c10d::allreduce_", "record_param_comms"]):
        work = 75 if name.startswith(("c10d", "record")) else 80  # a call is on the thread that computes: it cannot run beside
        events = [step(0, 0, 100 * MS), event("cpu_op", "aten::mm", 0, work * MS), event("cpu_op" if work == 75 else "user_annotation", name, 75 * MS, 20 * MS, 1 if work == 75 else 2)]
        b = report_of(scratch / f"host{i}", events)["breakdown"][0]
        seen = [b["comm_exposed_pct"] + b["comm_overlapped_pct"], b["compute_pct"]]
        check(abs(seen[0] - 20) < 0.1 and abs(seen[1] - work) < 0.1, name, (seen, b))
    result = run(scratch / "device0")
    check("communication: none found" not in result.stdout, "communication", result.stdout)


def test_71_no_communication_has_a_reason(scratch):
    events = [step(0, 0, 100 * MS), event("cpu_op", "aten::mm", 0, 80 * MS)]
    for name, traces, reason in (("many", (events, events), "ProfilerActivity.CUDA only"), ("one", (events,), "ProfilerActivity.CUDA only"),
                                 ("device", (events + kernel("gemm", 10, 70 * MS, 7, 1),) * 2, "no_sync()")):
        report_of(scratch / name, *traces)
        text = run(scratch / name).stdout
        check("communication: none found (" in text and reason in text, name, text)
    plain = scratch / "plain.json"
    plain.write_text(json.dumps(events))
    check("none found (nothing says that there is more than one rank)" in run(plain).stdout, "plain", run(plain).stdout)


def test_73_events_that_cannot_be_right_spoil_no_figure(scratch):
    clean = [step(s, 100 * MS * s, 100 * MS) for s in range(10)]
    for s in range(10):
        clean += [event("cpu_op", "aten::linear", 100 * MS * s + 10, 95 * MS)]
        for k in range(50):
            clean += kernel(f"kernel_{k % 7}", 100 * MS * s + 20 + 1900 * k, 1000 + 50 * (k % 7), 7, 1000 * s + k + 1)
    wrong = [dict(event("kernel", "kernel_0", 0, 0, 7, stream=7, device=0), ts=0) for _ in range(50)]
    wrong += [event("kernel", "kernel_1", 3000, -5, 7, stream=7, device=0)]
    wrong += [event("kernel", "kernel_2", 4000, 2000 * MS, 7, stream=7, device=0)]
    wrong += [dict(event("kernel", "kernel_3", 5000, 1, 7, stream=7, device=0), dur=float("nan"))]
    wrong += [{k: v for k, v in event("kernel", "kernel_4", 6000, 1, 7, stream=7, device=0).items() if k != "dur"}]
    wrong += [event("cpu_op", "aten::addmm", 100 * MS - 2000 + 10, 4 * MS)]  # ends after the operator that it is in
    a, b = report_of(scratch / "clean", clean), report_of(scratch / "wrong", clean + wrong)
    check(abs(b["iteration_ms"] / a["iteration_ms"] - 1) < 0.01, "iteration", (a["iteration_ms"], b["iteration_ms"]))
    top = [[k["name"] for k in r["kernels"][:5]] for r in (a, b)]
    check(top[0] == top[1], "the five largest kernels", top)
    seen = [r["breakdown"][0]["compute_pct"] for r in (a, b)]
    check(abs(seen[1] - seen[0]) < 1, "computation", seen)
    notes = " ".join(b["notes"])
    check(a["notes"] == [] and all(w in notes for w in ("without a duration", "longer than the whole trace")), "what is left out is said", (a["notes"], notes))


def test_r10_a_job_that_communicates_longer_than_it_computes_is_told_so(scratch):
    def rank(late_us):
        events = []
        for s in range(4):
            at = 100 * MS * s
            launched = [event("cuda_runtime", "cudaLaunchKernel", at + 2 + 3 * k, 2, correlation=10 * s + k) for k in (1, 2)]
            events += [step(s, at, 100 * MS), *launched, kernel("gemm", at + 20, 20 * MS, 7, 10 * s + 1)[1],
                       kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 20 * MS + 30 + late_us, 79 * MS - late_us, 8, 10 * s + 2)[1],
                       event("cuda_runtime", "cudaDeviceSynchronize", at + 20, 99 * MS + 50)]
        return events
    finding = report_of(scratch / "slower", rank(0), rank(5))["findings"][0]
    check(finding["id"] == "communication_exposed" and "longer than it computes: 2 ranks do the work of 0.4, less than one process alone" in finding["text"], "slower", finding)
    check("no_sync()" in finding["advice"], "what to change", finding)
    # the traces of one rank do not tell transfer from waiting
    alone = json.loads(run("--json", scratch / "slower" / "rank0.json").stdout)["findings"][0]
    check("do the work of" not in alone["text"], "one trace of two", alone)
    text = run(scratch / "slower" / "rank0.json").stdout
    check("2 ranks, seen on 1" in " ".join(text.split()) or "1 rank" in text, "ranks that were seen", text)


def test_a_copy_that_is_waited_for_is_waiting_for_the_device(scratch):
    events = []
    for s in range(3):
        at = 100 * MS * s
        events += [step(s, at, 100 * MS), *kernel("gemm", at + 20, 80 * MS, 7, 10 * s + 1), event("cpu_op", "aten::item", at + 30, 85 * MS),
                   event("cuda_runtime", "cudaMemcpyAsync", at + 40, 84 * MS, correlation=10 * s + 2),
                   event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", at + 80 * MS + 30, 2, 7, stream=7, device=0, correlation=10 * s + 2)]
    b = report_of(scratch / "copies", events)["breakdown"][0]
    check(abs(b["blocked_ms"] - 84) < 0.1, "blocked", b)
    check(abs(b["idle_sync_pct"] - 4) < 0.1 and b["idle_host_pct"] < 16.1, "idle while it waits", b)


def test_events_of_no_possible_time_are_said(scratch):
    late = [dict(event("cpu_op", "aten::mm", 0, 5), ts=9 * 10**15 + i) for i in range(3)]
    report = report_of(scratch / "late", [step(1, 0, 1000), *late])
    check(any("3 events start more than 73 years" in note for note in report["notes"]), "notes", report["notes"])
    text = " ".join(run(scratch / "late").stdout.split())
    check("note: rank 0: 3 events start more than 73 years from zero" in text, "text", text)


def test_of_hosts_far_ahead_the_device_is_cut(scratch):
    """The device does 9 of 10 ms, three iterations after the host launched it."""
    events = []
    for s in range(4):
        call, at = 10 * MS * s + 100, 10 * MS * s + 33 * MS
        events += [step(s, 10 * MS * s, 10 * MS), event("cuda_runtime", "cudaLaunchKernel", call, 2, correlation=s + 1),
                   event("kernel", "gemm", at, 9 * MS, 7, stream=7, device=0, correlation=s + 1)]
    b = report_of(scratch / "ahead", events)["breakdown"][0]
    check(abs(b["compute_pct"] - 100 * 36 / 39) < 0.1 and abs(b["iteration_ms"] - 9.75) < 0.01, "of the device", b)
    check(all(abs(sum(v for k, v in e.items() if k in ("compute_ns", "comm_exposed_ns", "copy_ns", "data_ns", "sync_ns", "host_ns", "kernel_ns", "other_ns")) - e["length_ns"]) < 1 for e in b["each"]), "sums", b["each"])


def test_a_job_on_cpus_is_not_sent_to_look_at_infiniband(scratch):
    events = []
    for s in range(3):
        at = 100 * MS * s
        events += [step(s, at, 100 * MS), event("cpu_op", "aten::mm", at, 30 * MS), event("user_annotation", "gloo:all_reduce", at + 30 * MS, 69 * MS, 2),
                   event("cpu_op", "c10d::allreduce_", at + 30 * MS, 69 * MS)]
    trace = scratch / "rank0.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    findings = json.loads(run("--json", trace).stdout)["findings"]
    check(findings[0]["id"] == "communication_exposed" and "GLOO_SOCKET_IFNAME" in findings[0]["advice"] and "NCCL" not in findings[0]["advice"], "advice", findings)


def test_69_two_files_that_claim_one_rank_are_named(scratch):
    for name in ("first.json", "second.json"):
        (scratch / name).write_text(json.dumps({"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [event("cpu_op", "aten::mm", 0, 90)]}))
    for words in ([scratch], ["--diff", scratch, scratch], [scratch / "first.json", scratch / "second.json"]):
        r = run(*words)
        check(r.returncode == 3 and not r.stdout and all(word in r.stderr for word in ("first.json", "second.json", "rank 0")) and r.stderr.count("\n") == 1, words, r)
    r = run("--hta", scratch)
    check(r.returncode == 0 and "first.json" in r.stdout and "second.json" in r.stdout, "HTA's numbers", r)


def test_a_job_of_sends_and_receives_is_not_told_of_ddp(scratch):
    events = []
    for s in range(3):
        at = 100 * MS * s
        launch, gemm = kernel("gemm", at + 20, 60 * MS, 7, 10 * s + 1)
        call, transfer = kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", at + 60 * MS + 20, 39 * MS, 7, 10 * s + 2)
        call["ts"] = launch["ts"] + 5
        events += [step(s, at, 100 * MS), launch, gemm, call, transfer, event("cuda_runtime", "cudaDeviceSynchronize", at + 40, 99 * MS, correlation=10 * s + 3)]
    f = next(iter(report_of(scratch / "pipeline", events)["findings"]), {})
    check(f.get("id") == "communication_exposed" and "sends and receives" in f["text"] and "micro-batches" in f["advice"] and "DDP" not in f["advice"] and "hook" not in f["advice"], "advice", f)


def test_an_optimizer_that_launches_in_a_loop_is_charged_with_the_time_of_the_host(scratch):
    """40 ms of 100 go into launching 80 kernels of 4 us, each of which the device then waits for."""
    events = []
    for s in range(3):
        at, n = 100 * MS * s, 1000 * s
        events += [step(s, at, 100 * MS), event("cpu_op", "aten::mm", at + 5, 50), *kernel("gemm", at + 20, 55 * MS, 7, n)]
        events += [event("user_annotation", "Optimizer.step#Adam.step", at + 56 * MS, 40 * MS)]
        for k in range(80):
            start = at + 56 * MS + 500 * k + 10
            events += [event("cpu_op", "aten::add_", start - 8, 400), *kernel("vectorized_elementwise_kernel", start, 4, 7, n + k + 1)]
    findings = {f["id"]: f for f in report_of(scratch / "loop", events)["findings"]}
    f = findings.get("optimizer_not_fused", {"evidence": {}, "text": ""})
    check(abs(f["evidence"].get("host_ms", 0) - 40) < 0.5 and abs(f["evidence"]["host_share_pct"] - 40) < 1 and f["evidence"]["kernels_ms"] < 1 and "40.0 ms of the host" in f["text"], "the optimizer", findings)


def test_a_job_that_hardly_computes_is_not_called_healthy(scratch):
    for work, verdict, limit in ((90, "healthy: limited by computation", "compute"), (20, "though only 20 % of an iteration is computation", None)):
        events = []
        for s in range(3):
            events += [step(s, 100 * MS * s, 100 * MS), event("cpu_op", "aten::mm", 100 * MS * s, work * MS)]
        report = report_of(scratch / f"work{work}", events)
        text = " ".join(run(scratch / f"work{work}").stdout.split())
        check(report["findings"] == [] and report["limit"] == limit and verdict in text, f"{work} %", (report["limit"], text))


for test in [value for name, value in list(globals().items()) if name.startswith("test_")]:
    with tempfile.TemporaryDirectory(prefix="tandem-reports-") as scratch:
        test(Path(scratch))
finish()
