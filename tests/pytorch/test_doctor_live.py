"""`tandem doctor` on real DDP jobs that run, over gloo: started, joined, late, stopped, short, interrupted."""
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from built import BUILD

TANDEM = str(BUILD / "tandem")
LIMIT_S = 120

SCRIPT = """
import os, sys, time
rank = int(os.environ["RANK"])
cpus = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
if os.geteuid() == 0:
    os.nice(-20)  # all threads to come, and all that are in its session: what else the machine does would be a finding
    if os.path.exists("/proc/self/autogroup"):
        open("/proc/self/autogroup", "w").write("-20")
seconds, what = float(sys.argv[1]), sys.argv[2:]
if "late" in what and rank == 1:
    time.sleep(4)
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 10 ** 9
    def __getitem__(self, i):
        if "slow_loader" in what:
            time.sleep(0.002)
        return torch.ones(256)

# An operator that takes the same time whatever else the machine does.
@torch.library.custom_op("job::work", mutates_args=())
def work(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.06)
    return x.clone()

def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    width = 1200 if "large_gradients" in what else 256
    model = DDP(torch.nn.Sequential(torch.nn.Linear(256, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 256)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    workers = {"num_workers": 1, "multiprocessing_context": "spawn"} if "workers" in what else {}
    batch = 4 if "large_gradients" in what else 32
    loader = iter(torch.utils.data.DataLoader(Data(), batch_size=batch, **workers))
    end, step = time.time() + seconds, 0
    stop = torch.zeros(1)
    while stop.item() == 0:
        x = next(loader)
        optimizer.zero_grad()
        if "healthy" in what or ("slow_rank" in what and rank == 1):
            x = work(x)
        model(x).square().mean().backward()
        if "no_optimizer" in what:
            with torch.no_grad():
                for p in model.parameters():
                    p.sub_(p.grad, alpha=0.01)
        else:
            optimizer.step()
        step += 1
        if step % 20 == 0:
            stop[0] = float(time.time() > end)
            dist.all_reduce(stop)
    print(f"rank {rank} made its steps", flush=True)
    dist.barrier()
    os._exit(0)  # gloo's threads sometimes abort at the interpreter's end

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def job(tmp_path):
    """A folder with the script, in which nothing may be left."""
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "t").mkdir()
    made = Job(tmp_path)
    yield made
    made.close()


class Job:
    def __init__(self, folder):
        self.folder = folder
        self.script = str(folder / "train.py")
        self.traces = folder / "traces"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("KINETO_")} | {"OMP_NUM_THREADS": "1", "TMPDIR": self.short()}
        self.processes = []

    def short(self):
        """pytest's folder is longer than the profiler's sockets may be."""
        link = Path(f"/tmp/live-{os.getpid()}")
        link.unlink(missing_ok=True)
        link.symlink_to(self.folder / "t")
        self.link = link
        return str(link)

    def torchrun(self, seconds, *what):
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", self.script, str(seconds), *what]

    def start(self, command, **variables):
        process = subprocess.Popen(command, env=self.environment | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, preexec_fn=go_first)
        self.processes.append(process)
        return process

    def doctor(self, *arguments):
        return self.start([TANDEM, "doctor", "--keep-traces", str(self.traces), *arguments])

    def end(self, process):
        output, errors = process.communicate(timeout=LIMIT_S)
        return process.returncode, output, errors

    def pids(self):
        """Processes of the job: its script's path is among their words."""
        mark = self.script.encode()
        return {int(p): words for p in os.listdir("/proc") if p.isdigit() and mark in (words := read(f"/proc/{p}/cmdline"))}

    def rank(self, number, limit_s=30):
        """The process of a rank, once it is there."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            for pid in self.pids():
                if f"\0RANK={number}\0".encode() in b"\0" + read(f"/proc/{pid}/environ"):
                    return pid
            time.sleep(0.05)
        raise TimeoutError(f"no rank {number}")

    def traced(self):
        """{rank: events}"""
        return {f.name.removesuffix(".pt.trace.json"): json.loads(f.read_text())["traceEvents"] for f in self.traces.glob("*")}

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        deadline = time.monotonic() + 10
        while (alive := self.pids()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        left = os.listdir(self.folder / "t")
        self.link.unlink()
        assert not alive and not [f for f in left if f.startswith("tandem")], (alive, left)


def go_first():
    """As the ranks do (above): a daemon that they leave no time cannot answer."""
    if os.geteuid() == 0:
        os.nice(-20)
        if os.path.exists("/proc/self/autogroup"):
            open("/proc/self/autogroup", "w").write("-20")


def read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def sequence(events):
    """The first number that autograd gave to an operator: equal in ranks that are at the same step."""
    return min(e["args"]["Sequence number"] for e in events if "Sequence number" in e.get("args", {}))


def optimizer_steps(events):
    return sum(e["name"].startswith("Optimizer.step") for e in events if e.get("ph") == "X")


@pytest.mark.parametrize("what, found, rank", [
    ("slow_loader", "data_loading", None), ("slow_rank", "straggler", 1), ("large_gradients", "communication_exposed", None), ("healthy", None, None)])
def test_what_holds_a_job_back_is_named(what, found, rank, job):
    if os.geteuid() != 0 and os.getloadavg()[0] > os.cpu_count() / 2:
        pytest.skip("the machine has other work, and ranks cannot go before it without root")
    code, output, errors = job.end(job.doctor("--json", "--stop", "--iterations", "6", "--", *job.torchrun(60, what)))
    assert code == 0, errors
    report = json.loads(output)
    assert report["ranks"] == 2 and report["iterations"] == 6, output
    assert [f["id"] for f in report["findings"][:1]] == ([found] if found else []), output
    assert report["limit"] == (found or "compute")
    if rank is not None:
        assert report["findings"][0]["rank"] == rank, output


def test_ranks_are_traced_at_the_same_steps_beside_agent_and_workers(job):
    code, output, errors = job.end(job.doctor("--", *job.torchrun(10, "workers")))
    assert code == 0, errors
    assert "rank 0 made its steps" in output and "rank 1 made its steps" in output
    traced = job.traced()
    assert set(traced) == {"rank0", "rank1"}, errors
    assert [optimizer_steps(events) for events in traced.values()] == [4, 4]
    assert sequence(traced["rank0"]) == sequence(traced["rank1"])
    assert "asking 2 ranks" in errors


def test_without_an_optimizer_ranks_are_traced_at_one_time(job):
    code, _, errors = job.end(job.doctor("--stop", "--", *job.torchrun(60, "no_optimizer")))
    assert code == 0 and "no steps of an optimizer" in errors, errors
    traced = job.traced()
    begins = [min(e["ts"] for e in events if e.get("cat") == "cpu_op") for events in traced.values()]
    assert set(traced) == {"rank0", "rank1"} and abs(begins[0] - begins[1]) < 100e3, (begins, errors)


def test_a_rank_that_starts_late_is_waited_for(job):
    code, _, errors = job.end(job.doctor("--stop", "--", *job.torchrun(60, "late")))
    assert code == 0 and set(job.traced()) == {"rank0", "rank1"}, errors


def test_a_stopped_rank_is_named(job):
    process = job.doctor("--timeout", "8", "--", *job.torchrun(3, "late"))
    pid = job.rank(1)
    os.kill(pid, signal.SIGSTOP)
    errors = ""
    while "is stopped" not in errors:
        line = process.stderr.readline()
        assert line, errors
        errors += line
    os.kill(pid, signal.SIGCONT)
    code, _, more = job.end(process)
    assert code == 4 and f"rank 1 (process {pid}) is stopped" in errors, errors + more


def test_a_job_that_ends_soon_is_not_hurt(job):
    code, output, errors = job.end(job.doctor("--", *job.torchrun(0.5)))
    assert "rank 0 made its steps" in output
    assert code in (0, 4) and (code == 0) == (set(job.traced()) == {"rank0", "rank1"}), errors
    assert code == 0 or re.search(r"the job ended \(exit code 0\)|has ended: the job is near its end", errors), errors


def test_interrupted_while_it_waits_and_nothing_is_left(job):
    process = job.doctor("--", *job.torchrun(60))
    job.rank(1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    code, _, errors = job.end(process)
    assert code not in (0, 4), errors


def test_a_job_without_the_variable_cannot_be_joined(job):
    process = job.start(job.torchrun(60))
    job.rank(0)
    code, _, errors = job.end(job.doctor("--attach", str(process.pid)))
    assert code == 2 and "KINETO_USE_DAEMON=1 torchrun" in errors and errors.count("\n") == 1, errors
    process.terminate()
    job.end(process)


def test_a_job_that_runs_is_joined_and_goes_on(job):
    sockets = job.environment["TMPDIR"] + "/s"
    os.mkdir(sockets)
    process = job.start(job.torchrun(120), KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR=sockets)
    pid = job.rank(1)
    code, _, errors = job.end(job.doctor("--attach", str(pid)))
    assert code == 0 and set(job.traced()) == {"rank0", "rank1"}, errors
    assert sequence(job.traced()["rank0"]) == sequence(job.traced()["rank1"])
    assert process.poll() is None and not os.path.exists(f"{sockets}/dynolog")
    process.terminate()
    job.end(process)
