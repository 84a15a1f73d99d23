"""The launchers that users have: torchrun with a rank that dies once, `tandem run`, both mpiruns, srun, two hosts."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from built import BUILD

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import namespaces  # noqa: E402

PROGRAM = """
import os, sys
import torch, torch.distributed as dist
import tandem_torch
dist.init_process_group("tandem")
t = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(t)
pair = dist.new_group([0, 1])
if dist.get_rank() < 2:
    dist.all_reduce(t, group=pair)
attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
if len(sys.argv) > 1 and attempt == "0" and dist.get_rank() == 1:
    os._exit(3)
dist.barrier()
big = torch.ones(300000)
dist.all_reduce(big)
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()} attempt {attempt} sum {t.item()} {big.sum().item() / 300000}\\n")
dist.destroy_process_group()
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def lines(command, **variables):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return sorted(re.findall(r"\brank \d+ of .*", done.stdout))  # some put the rank in front of a line


def expected(size, attempt=0):
    total = size * (size + 1) / 2
    return [f"rank {r} of {size} attempt {attempt} sum {2 * total if r < 2 else total} {float(size)}" for r in range(size)]


def test_torchrun_starts_again_after_a_rank_died(program):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1", program, "die"]
    assert lines(command) == expected(2, attempt=1)


def test_tandem_run(program):
    assert lines([str(BUILD / "tandem"), "run", "-n", "3", "--", sys.executable, program]) == expected(3)


@pytest.mark.parametrize("command", [
    ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2"],
    ["mpirun.mpich", "-n", "2"],
])
def test_mpirun(command, program):
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    assert lines([*command, sys.executable, program]) == expected(2)


def test_what_srun_says(program):
    """In the variables of a Slurm step on one node; Slurm itself is not here."""
    step = {"SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "2",
            "SLURM_STEP_NODELIST": "localhost", "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0"}
    start = f'for i in 0 1; do SLURM_PROCID=$i SLURM_LOCALID=$i {sys.executable} {program} & done; wait'
    assert lines(["sh", "-c", start], **step) == expected(2)


def test_two_hosts(program):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("network namespaces need root and unshare")
    with namespaces.Network(2, "1gbit") as network:
        output = network.run(2, [sys.executable, program], limit_s=100, OMP_NUM_THREADS="1")
    assert output.splitlines() == expected(4)[:1]
