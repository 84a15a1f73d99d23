#!/usr/bin/env python3
"""`tandem doctor` on dumps of PyTorch's flight recorder: test_doctor_flight.py TANDEM"""
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile

from doctor_checks import TANDEM, check, finish, run
from flight_dumps import as_json, call, dump, write


def doctor(*paths, code=0):
    r = run("--json", *paths)
    check(r.returncode == code, "exit code", f"{r.returncode}: {r.stderr}")
    return json.loads(r.stdout) if r.returncode == 0 else {"error": r.stderr, "findings": []}


def on(scripts, **how):
    with tempfile.TemporaryDirectory() as folder:
        write(folder, scripts, **how)
        return doctor(folder)


def expect(what, report, id, *words):
    """One finding, this one, with these words in its text."""
    texts = [f"{f['id']}: {f['text']}" for f in report["findings"]]
    check(len(texts) == 1 and texts[0].startswith(id + ": "), what, str(texts) + report.get("error", ""))
    for word in words:
        check(texts and word in texts[0], f"{what}: '{word}'", str(texts))


good = [call("all_reduce"), call("broadcast", (4, 4)), call("_all_gather_base", (8,), out=(32,)), call("barrier")]
waits = call("all_reduce", (1024,), "BFloat16", "started")

# ---- every form gives the same sentence ----
sentences = set()
for form in ("pickle0", "pickle1", "pickle2", "pickle3", "pickle4", "pickle5"):
    report = on([good + [waits], good + [waits], good, good + [waits]], form=form)
    expect(form, report, "missing_call", "rank 2 never made call 5 of group default_pg (0) (all_reduce of 1024 BFloat16, at train.py:31 in step), in which ranks 0, 1, 3 wait since 22:13:20.040",
           "its last call was call 4 (barrier), finished")
    sentences.add(report["findings"][0]["text"])
check(len(sentences) == 1, "all protocols say the same", str(sentences))
report = on([good + [waits], good + [waits], good, good + [waits]], form="json")
expect("json", report, "missing_call", "rank 2 never made call 5 of group default_pg (0) (all_reduce of 1024 BFloat16), in which ranks 0, 1, 3 wait since")
check(report["ranks"] == 4 and report["findings"][0]["rank"] == 2 and report["iterations"] is None and report["breakdown"] == [], "head", str(report))
flight = report["flight"]
check(flight["dumps"] == 4 and flight["version"] == "2.10" and [r["call"] for r in flight["groups"][0]["ranks"]] == [5, 5, 4, 5], "table", str(flight))
for version in ("2.1", "2.4", "2.5", "2.9", "1.5", "list"):
    report = on([good + [waits], good], version=version)
    expect(f"version {version}", report, "missing_call", "rank 1 never made call 5 of group")

# ---- the text for people ----
with tempfile.TemporaryDirectory() as folder:
    write(folder, [good + [waits], good + [waits], good, good + [waits]])
    r = run(folder)
    check(r.returncode == 0 and max(map(len, r.stdout.splitlines())) <= 100, "100 columns", r.stdout)
    finding = doctor(folder)["findings"][0]
    check(all(sentence in " ".join(r.stdout.split()) for sentence in (finding["text"], finding["advice"])), "and nothing is lost", r.stdout)
    check("\n   " in r.stdout, "following lines are indented", r.stdout)

# ---- healthy ----
check(on([good] * 4)["findings"] == [], "healthy")
check(on([good, good + good])["findings"] == [], "a rank that is ahead with calls that are over")
with tempfile.TemporaryDirectory() as folder:
    paths = write(folder, [good] * 2)
    r = run(*paths)
    check("nothing is wrong" in r.stdout and "dumps of 2 of 2 ranks" in r.stdout, "healthy text", r.stdout + r.stderr)

# ---- what else went wrong ----
expect("another size", on([good + [waits]] * 3 + [good + [call("all_reduce", (1025,), "BFloat16", "started")]]), "mismatched_call", "ranks 0, 1, 2 made all_reduce of 1024 BFloat16",
       "but rank 3 made all_reduce of 1025 BFloat16")
expect("another type", on([good + [waits], good + [waits], good + [call("all_reduce", (1024,), "Float", "started")]]), "mismatched_call", "rank 2 made all_reduce of 1024 Float")
expect("another call", on([good + [waits], good + [call("barrier", state="started", at=("eval.py", 7, "validate"))], good + [waits]]), "mismatched_call",
       "but rank 1 made barrier, at eval.py:7 in validate")
expect("all wait", on([good + [waits]] * 3), "unfinished_call", "all ranks made call 5", "ranks 0, 1, 2 did not finish it")
expect("a GPU that is busy", on([good + [waits], good + [call("all_reduce", (1024,), "BFloat16", "scheduled")], good + [waits]]), "unstarted_call",
       "all ranks made call 5", "on rank 1 the GPU has not begun it, while 2 others wait in it")
expect("no dump of a rank", on([good + [waits], None, good + [waits]]), "missing_dump", "there is no dump of rank 1 of group default_pg (0), in which rank 0 waits in call 5")
expect("timed out", on([good + [call("all_reduce", (1024,), state="scheduled", retired=True)], good]), "missing_call", "rank 1 never made call 5")

expect("many ranks", on([good + [waits]] * 5 + [good] + [good + [waits]] * 7), "missing_call", "rank 5 never made call 5", "in which ranks 0 to 4, 6 to 12 wait since")
many = on([good + [waits]] * 20 + [good] * 20)
texts = [f["text"] for f in many["findings"]]
check(len(texts) == 9 and texts[-1].startswith("12 more ranks never made call 5 of group default_pg (0)") and texts[-1].endswith(": 28 to 39"), "many that are missing", str(texts))

groups = {"0": ("default_pg", range(4)), "1": ("mesh_dp", (1, 3)), "2": ("undefined", (0, 2))}
dp = call("all_reduce", (64,), "Half", "started", group="1", desc="mesh_dp")
report = on([good, good + [dp], good, good], groups=groups)
expect("a rank that never entered a group", report, "missing_call", "rank 3 never entered group mesh_dp (1), in which rank 1 waits in call 1 (all_reduce of 64 Half",
       "its last call was in group default_pg (0)")
report = on([good, good + [call("all_reduce", (64,), "Half", group="1", desc="mesh_dp"), dp], good, good + [call("all_reduce", (64,), "Half", group="1", desc="mesh_dp"), waits]], groups=groups)
texts = " ".join(f["text"] for f in report["findings"])
check("rank 3 never made call 2 of group mesh_dp (1)" in texts and "it waits in group default_pg (0)" in texts and "rank 0 never made call 5 of group default_pg (0)" in texts,
      "groups in different orders", texts)

def send(a, b, state="completed", size=(8,)):
    return call(f"send {a}->{b}", size, state=state, p2p=True)


def recv(a, b, state="completed", size=(8,)):
    return call(f"recv {b}<-{a}", size, state=state, p2p=True)


expect("a receive without a send", on([[send(0, 1), send(0, 1)], [recv(0, 1), recv(0, 1), recv(0, 1, "started")]]), "missing_call",
       "rank 0 never made call 3 of group default_pg (0) 0->1 (send/recv of 8 Float", "in which rank 1 waits")
expect("sizes of a send and its receive", on([[send(0, 1, "started")], [recv(0, 1, "started", (9,))]]), "mismatched_call", "rank 0 made send/recv of 8 Float", "rank 1 made send/recv of 9 Float")
check(on([[send(0, 1), recv(1, 0)], [recv(0, 1), send(1, 0)]])["findings"] == [], "a ping-pong is healthy")
report = on([[send(0, 1)], [recv(0, 1), recv(0, 1, "started")]], first_record=7)
check(report["findings"] == [] and report["flight"]["sends_left_out"] == 3, "rings that went round", str(report))
batch = [call("send 0->1", p2p=True, seq=1, state="scheduled"), call("recv 0<-1", p2p=True, seq=1, state="scheduled"), call("coalesced", p2p=True, seq=1)]
other = [call("send 1->0", p2p=True, seq=1, state="scheduled"), call("recv 1<-0", p2p=True, seq=1, state="scheduled"), call("coalesced", p2p=True, seq=1)]
check(on([batch, other])["findings"] == [], "the end of a batch ends its sends")
parts = [call("all_reduce", seq=5, state="scheduled"), call("all_reduce", seq=5, state="scheduled"), call("coalesced", seq=5)]
check(on([good + parts] * 2)["findings"] == [], "the end of a coalesced call ends its parts")
expect("another number of parts", on([good + parts, good + parts[:1] + parts]), "mismatched_call", "coalesced of 2 calls", "coalesced of 3 calls")
check(on([good + [call("all_to_all", (3,))], good + [call("all_to_all", (5,))]])["findings"] == [], "parts of all_to_all may differ")

# a backend without events: calls are over, or given up
over = [dict(c, state="scheduled", retired=True) for c in good]
check(on([over] * 3, backend="gloo")["findings"] == [], "gloo, healthy")
expect("gloo, a rank that stays away", on([over + [dict(waits, state="scheduled", retired=True)], over + [dict(waits, state="scheduled", retired=True)], over], backend="gloo"), "missing_call",
       "rank 2 never made call 5", "in which ranks 0, 1 wait")

# ---- names of files, several kinds, damage ----
with tempfile.TemporaryDirectory() as folder:
    write(folder, [good + [waits], good], prefix="my_job_trace-")
    expect("another prefix", doctor(folder), "missing_call", "rank 1 never made")
    write(folder, [good + [waits], good], form="json", prefix="other_")
    check(len(doctor(folder)["findings"]) == 1, "two dumps of each rank")
    for name in os.listdir(folder):
        os.rename(f"{folder}/{name}", f"{folder}/{name.replace('0', 'zero').replace('1', 'one')}.pickle")
    r = run(folder)
    check("got their ranks by the order of files" in " ".join(r.stdout.split()), "names without a rank", r.stdout)
with tempfile.TemporaryDirectory() as folder:
    paths = write(folder, [good + [waits], good, good + [waits]])
    whole = open(paths[2], "rb").read()
    open(paths[2], "wb").write(whole[:len(whole) // 2])
    report = doctor(folder)
    check(len(report["flight"]["unread"]) == 1 and "cut" in report["flight"]["unread"][0] and paths[2] in report["flight"]["unread"][0], "a cut dump is left out", str(report["flight"]["unread"]))
    check({f["id"] for f in report["findings"]} == {"missing_call", "missing_dump"} or [f["id"] for f in report["findings"]][0] == "missing_call", "and the others speak", str(report["findings"]))
    text = as_json(dump(good, {"0": ("default_pg", range(1))}))
    random.seed(3)
    for i in range(60):
        cut = random.randrange(20, len(text))
        damaged = text[:cut] + random.choice(["", "\0", "}", '"', "[" * 100, "1e999", "\\u12"]) + text[cut + random.randrange(3):]
        with open(f"{folder}/nccl_trace_rank_9", "w") as file:
            file.write(damaged)
        r = run(f"{folder}/nccl_trace_rank_9")
        check(r.returncode in (0, 3), "damaged JSON", f"{r.returncode} {r.stderr}")

# ---- pickles that want to run something ----
class Attack:
    def __reduce__(self):
        return os.system, ("touch /tmp/tandem-was-here",)


with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/nccl_trace_rank_0"
    for protocol in range(6):
        for attack in (Attack(), {"version": "2.10", "pg_config": {}, "entries": [Attack()]}):
            with open(path, "wb") as file:
                file.write(pickle.dumps(attack, protocol=protocol))
            r = run(path)
            check(r.returncode == 3 and r.stderr.count("\n") == 1 and path in r.stderr, f"attack, protocol {protocol}", r.stderr)
            if protocol >= 2 or not isinstance(attack, Attack):
                check(("GLOBAL" in r.stderr) and "at byte" in r.stderr and "nothing of it was run" in r.stderr, f"attack, protocol {protocol}: named", r.stderr)
            r = run(folder)
            check(r.returncode == 3 and r.stderr.count("\n") == 1 and (protocol < 2 or (path in r.stderr and "nothing of it was run" in r.stderr)),
                  f"a folder with an attack alone, protocol {protocol}", r.stderr)
    for name in ("1", "2"):
        with open(f"{folder}/nccl_trace_rank_{name}", "wb") as file:
            file.write(b"\x80\x02}(X\x09\x00\x00\x00pg_config")
    r = run(f"{folder}/nccl_trace_rank_1", f"{folder}/nccl_trace_rank_2")
    check(r.returncode == 3 and "nccl_trace_rank_1" in r.stderr and "nccl_trace_rank_2" not in r.stderr, "of several damaged dumps the first is named", r.stderr)
    for name in ("1", "2"):
        os.unlink(f"{folder}/nccl_trace_rank_{name}")
    check(not os.path.exists("/tmp/tandem-was-here"), "nothing was run")
    for bomb in (b"\x80\x02" + b"(" * 100000, b"\x80\x02]" + b"q\x00h\x00" * 50000 + b".", b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x80\x02]q\x00(" + b"h\x00" * 100000 + b"e.",
                 b"\x80\x02}" + b"(X\x07\x00\x00\x00entriesN" * 1000 + b"u.", b"\x80\x02r\xff\xff\xff\xff.", b"\x80\x02X\xff\xff\xff\xff", b"\x80\x02" + b"]" * 2000000):
        with open(path, "wb") as file:
            file.write(bomb)
        with open(f"{folder}/said", "w+") as said:
            process = subprocess.Popen([TANDEM, "doctor", path], stdout=subprocess.DEVNULL, stderr=said)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            text = said.read()
        check(process.returncode == 3 and text.count("\n") == 1 and used.ru_maxrss < 1_000_000, "bomb", f"{bomb[:20]} {process.returncode} {used.ru_maxrss} KB {text[:300]}")

# ---- real dumps, where PyTorch is ----
torch_python = next((p for p in (f"{os.environ.get('TDM_VENV', '')}/bin/python", sys.executable) if os.path.exists(p) and subprocess.run(
    [p, "-c", "from torch._C._distributed_c10d import _dump_fr_trace"], capture_output=True).returncode == 0), None)
if torch_python is None:
    print("without PyTorch: real dumps are not tried")
else:
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/job.py", "w") as file:
            file.write("""
import datetime, os, time, torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method=f"file://{os.environ['MEET']}", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=3))
dist.all_reduce(torch.ones(10))
dist.barrier()
if rank != 1:
    try:
        dist.all_reduce(torch.ones(1024, dtype=torch.float64))
    except RuntimeError:
        pass
for name, text in (("pickle", _dump_fr_trace()), ("json", _dump_fr_trace_json())):
    os.makedirs(f"{os.environ['FOLDER']}/{name}", exist_ok=True)
    with open(f"{os.environ['FOLDER']}/{name}/nccl_trace_rank_{rank}", "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
os._exit(0)
""")
        ranks = [subprocess.Popen([torch_python, f"{folder}/job.py"], env=dict(os.environ, RANK=str(r), WORLD_SIZE="3", MEET=f"{folder}/meet", FOLDER=folder, TORCH_FR_BUFFER_SIZE="100"),
                                  stderr=subprocess.DEVNULL) for r in range(3)]
        for r in ranks:
            r.wait()
        for form in ("pickle", "json"):
            expect(f"real {form}", doctor(f"{folder}/{form}"), "missing_call", "rank 1 never made call 3 of group default_pg (0) (all_reduce of 1024 Double")
finish()
