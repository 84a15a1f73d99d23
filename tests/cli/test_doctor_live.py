#!/usr/bin/env python3
"""`tandem doctor` on jobs that run, their processes being kineto_client.py: test_doctor_live.py TANDEM"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TANDEM = sys.argv[1]
CLIENT = str(Path(__file__).with_name("kineto_client.py"))
LIMIT_S = 60
failures = []


class Case:
    """A private TMPDIR, in which nothing may be left, and what was run in it."""

    def __init__(self, name):
        self.name = name
        self.folder = tempfile.mkdtemp(prefix="live-")
        self.temporary = f"{self.folder}/t"
        self.traces = f"{self.folder}/kept"
        os.mkdir(self.temporary)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("KINETO_")} | {"TMPDIR": self.temporary}
        self.processes = []

    def start(self, *command, **variables):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment | variables,
                                   start_new_session=True)
        self.processes.append(process)
        return process

    def doctor(self, *arguments, **variables):
        return self.start(TANDEM, "doctor", "--keep-traces", self.traces, *arguments, **variables)

    def end(self, process):
        output, errors = process.communicate(timeout=LIMIT_S)
        return process.returncode, output, errors

    def ranks(self):
        """Ranks of the traces that were kept -> steps of the optimizer in each."""
        files = Path(self.traces).glob("*") if os.path.isdir(self.traces) else []
        return {f.name.removesuffix(".pt.trace.json"): f.read_text().count("Optimizer.step") for f in files}

    def begins(self):
        """When the first event of each trace begins, in us."""
        return [min(e["ts"] for e in json.loads(f.read_text())["traceEvents"]) for f in Path(self.traces).glob("*")]

    def check(self, good, what, seen=""):
        if not good:
            failures.append(f"{self.name}: {what}: {seen}")

    def close(self):
        left = os.listdir(self.temporary)
        self.check(not left, "left in TMPDIR", left)
        mark = f"{self.folder}/".encode()
        deadline = time.monotonic() + 5
        while (alive := [pid for pid in os.listdir("/proc") if pid.isdigit() and mark in environ(pid)]) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.check(not alive, "processes left", alive)
        for pid in alive:
            os.kill(int(pid), signal.SIGKILL)
        subprocess.run(["rm", "-r", self.folder], check=True)


def environ(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def first_line(process):
    return json.loads(process.stdout.readline())


def all_ranks_at_the_same_steps(c):
    code, output, errors = c.end(c.doctor("--iterations", "5", "--stop", "--", CLIENT, "--agent", "3"))
    c.check(code == 0, "exit code", (code, errors))
    c.check(c.ranks() == {"rank0": 5, "rank1": 5, "rank2": 5}, "traces", c.ranks())
    c.check(max(c.begins()) - min(c.begins()) < 5000, "begin together", c.begins())
    c.check('{"agent"' in output, "the job's output", output)
    said = {f.name: json.loads(f.read_text())["distributedInfo"] for f in Path(c.traces).glob("*")}
    c.check(said["rank2.pt.trace.json"] == {"rank": 2, "world_size": 3}, "the traces say their ranks", said)


def the_jobs_code_is_ours(c):
    code, _, errors = c.end(c.doctor("--", CLIENT, "--agent", "2", "--seconds", "4", "--code", "7"))
    c.check(code == 7, "exit code", (code, errors))
    c.check(len(c.ranks()) == 2, "traces", c.ranks())


def json_keeps_stdout_for_itself(c):
    code, output, errors = c.end(c.doctor("--json", "--stop", "--", CLIENT, "--agent", "2"))
    c.check(code == 0 and '{"agent"' in errors, "the job's output goes to stderr", (code, errors))
    for line in output.splitlines():
        json.loads(line)


def a_rank_that_starts_late(c):
    code, _, errors = c.end(c.doctor("--stop", "--", CLIENT, "--agent", "2", "--delay", "5"))
    c.check(code == 0 and c.ranks() == {"rank0": 4, "rank1": 4}, "both", (code, c.ranks(), errors))
    c.check("rank 1 (process " in errors and "is late" in errors, "its name", errors)


def a_rank_that_never_asks_is_named(c):
    code, _, errors = c.end(c.doctor("--timeout", "4", "--stop", "--", CLIENT, "--agent", "2", "--mute"))
    c.check(code == 0 and c.ranks() == {"rank0": 4}, "the other", (code, c.ranks()))
    c.check("rank 1 (process " in errors and "never answered" in errors, "its name", errors)


def a_stopped_rank_is_named(c):
    process = c.doctor("--timeout", "5", "--", CLIENT, "--agent", "2", "--delay", "2", "--seconds", "8")
    pid = first_line(process)["ranks"][1]
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(7, os.kill, (pid, signal.SIGCONT)).start()
    code, _, errors = c.end(process)
    c.check(code == 4 and f"rank 1 (process {pid}) is stopped" in errors, "said", (code, errors))


def a_job_that_ends_at_once(c):
    code, _, errors = c.end(c.doctor("--", CLIENT, "--agent", "2", "--seconds", "0.5"))
    c.check(code == 4 and "the job ended (exit code 0) before" in errors, "said", (code, errors))


def what_a_job_leaves_has_time_to_end(c):
    """Python's trackers of semaphores outlive a rank by 5 s, and remove what it left in /dev/shm."""
    code, _, errors = c.end(c.doctor("--", "sh", "-c", f"(sleep 5; touch {c.folder}/mark) & exit 0"))
    c.check(code == 4 and os.path.exists(f"{c.folder}/mark"), "it ended by itself", (code, errors))


def a_job_that_ends_while_it_is_traced(c):
    code, _, errors = c.end(c.doctor("--", CLIENT, "--agent", "1", "--step-ms", "1000", "--seconds", "7", "--die"))
    c.check(code == 128 + signal.SIGSEGV and "PyTorch's doing" in errors, "said", (code, errors))


def without_steps_by_time(c):
    code, _, errors = c.end(c.doctor("--stop", "--", CLIENT, "--agent", "2", "--no-steps"))
    c.check(code == 0 and c.ranks() == {"rank0": 0, "rank1": 0} and "no steps" in errors, "traces", (code, c.ranks(), errors))
    c.check(max(c.begins()) - min(c.begins()) < 5000, "begin together", c.begins())


def a_job_that_trains_later(c):
    code, _, errors = c.end(c.doctor("--stop", "--", CLIENT, "--agent", "2", "--idle", "3"))
    c.check(code == 0 and c.ranks() == {"rank0": 4, "rank1": 4}, "traces", (code, c.ranks(), errors))


def workers_that_ask_are_no_ranks(c):
    code, _, errors = c.end(c.doctor("--stop", "--", CLIENT, "--agent", "2", "--worker"))
    c.check(code == 0 and c.ranks() == {"rank0": 4, "rank1": 4}, "traces", (code, c.ranks(), errors))


def one_process_without_rank(c):
    code, _, errors = c.end(c.doctor("--stop", "--", CLIENT))
    c.check(code == 0 and c.ranks() == {"rank0": 4}, "traces", (code, c.ranks(), errors))


def a_command_that_is_not_there(c):
    code, _, errors = c.end(c.doctor("--", "no-such-program-here"))
    c.check(code == 2 and "no-such-program-here" in errors and errors.count("\n") == 1, "said", (code, errors))


def files_and_a_command_are_too_much(c):
    for arguments in (["x", "--", "true"], ["--attach", "1", "--", "true"], ["--attach", "1", "x"]):
        code, _, errors = c.end(c.doctor(*arguments))
        c.check(code == 2 and errors.count("\n") == 1, arguments, (code, errors))


def interrupted(c):
    process = c.doctor("--", CLIENT, "--agent", "2", "--idle", "30")
    first_line(process)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    code, _, errors = c.end(process)
    c.check(code == 128 + signal.SIGINT, "exit code", (code, errors))


def killed(c):
    process = c.doctor("--", CLIENT, "--agent", "2", "--idle", "30")
    first_line(process)
    time.sleep(0.5)
    process.kill()
    c.end(process)  # its guardian kills the ranks, which hold the pipes
    c.check(len(os.listdir(c.temporary)) == 1, "what it left", os.listdir(c.temporary))
    c.end(c.doctor("--", "true"))  # removes it


class Joined:
    """A job that runs with a folder for sockets."""

    def __init__(self, case, *arguments, **variables):
        self.sockets = f"{case.folder}/s"
        os.makedirs(self.sockets, exist_ok=True)
        self.process = case.start(CLIENT, "--agent", "2", "--seconds", "20", *arguments, KINETO_IPC_SOCKET_DIR=self.sockets,
                                  **{"KINETO_USE_DAEMON": "1", "FAKE_JOB": case.folder, **variables})
        self.line = first_line(self.process)

    def end(self, case):
        self.process.terminate()
        case.end(self.process)


def joined_by_the_number_of(c, which):
    job = Joined(c)
    pid = {"torchrun": job.line["agent"], "a rank": job.line["ranks"][1]}[which]
    code, _, errors = c.end(c.doctor("--attach", str(pid)))
    c.check(code == 0 and c.ranks() == {"rank0": 4, "rank1": 4}, which, (code, c.ranks(), errors))
    c.check(job.process.poll() is None, "the job goes on")
    job.end(c)


def joined_by_name(c):
    job = Joined(c)
    code, _, errors = c.end(c.doctor("--attach", c.folder))
    c.check(code == 0 and c.ranks() == {"rank0": 4, "rank1": 4}, "traces", (code, c.ranks(), errors))
    code, _, errors = c.end(c.doctor("--attach", "no-such-job"))
    c.check(code == 2 and "no-such-job" in errors and c.folder in errors, "others are listed", (code, errors))
    job.end(c)


def a_job_that_does_not_listen(c):
    job = c.start(CLIENT, "--agent", "2", "--seconds", "20")
    pid = first_line(job)["agent"]
    code, _, errors = c.end(c.doctor("--attach", str(pid)))
    c.check(code == 2 and "KINETO_USE_DAEMON=1 torchrun" in errors, "how to start it", (code, errors))
    job.terminate()
    c.end(job)


def nobody_of_that_number(c):
    gone = subprocess.Popen(["true"])
    gone.wait()
    code, _, errors = c.end(c.doctor("--attach", str(gone.pid)))
    c.check(code == 2 and str(gone.pid) in errors, "said", (code, errors))


def somebody_else_answers(c):
    job = Joined(c)
    first = c.doctor("--attach", str(job.line["agent"]), "--iterations", "1000")
    while not os.path.exists(f"{job.sockets}/dynolog"):
        time.sleep(0.02)
    code, _, errors = c.end(c.doctor("--attach", str(job.line["agent"])))
    c.check(code == 2 and "somebody else answers" in errors, "said", (code, errors))
    first.send_signal(signal.SIGINT)
    first.send_signal(signal.SIGINT)
    code, _, errors = c.end(first)
    c.check(code == 128 + signal.SIGINT, "interrupted", (code, errors))
    c.check(job.process.poll() is None, "the job goes on")
    c.check(not os.path.exists(f"{job.sockets}/dynolog"), "the daemon's socket")
    job.end(c)


cases = [all_ranks_at_the_same_steps, the_jobs_code_is_ours, json_keeps_stdout_for_itself, a_rank_that_starts_late, a_rank_that_never_asks_is_named,
         a_stopped_rank_is_named, a_job_that_ends_at_once, what_a_job_leaves_has_time_to_end, a_job_that_ends_while_it_is_traced, without_steps_by_time, a_job_that_trains_later,
         workers_that_ask_are_no_ranks, one_process_without_rank, a_command_that_is_not_there, files_and_a_command_are_too_much, interrupted, killed,
         joined_by_name, a_job_that_does_not_listen, nobody_of_that_number, somebody_else_answers]
runs = [(case, ()) for case in cases] + [(joined_by_the_number_of, (which,)) for which in ("torchrun", "a rank")]
only = sys.argv[2:]


def run(entry):
    case, arguments = entry
    c = Case(" ".join([case.__name__, *arguments]))
    begin = time.monotonic()
    try:
        case(c, *arguments)
    except Exception as error:
        failures.append(f"{c.name}: {error!r}")
    finally:
        for process in c.processes:
            process.kill()
        c.close()
    if only:
        print(f"{c.name}: {time.monotonic() - begin:.1f} s")


with ThreadPoolExecutor(6) as pool:
    list(pool.map(run, [r for r in runs if not only or r[0].__name__ in only or only == ["all"]]))
print("\n".join(failures))
sys.exit(1 if failures else 0)
