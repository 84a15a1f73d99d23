#!/usr/bin/env python3
"""Ranks that mpirun or srun start on one host find each other without being told: test_launchers.py TANDEM"""
import json
import os
import shutil
import subprocess
import sys

tandem = sys.argv[1]
bench = [tandem, "bench", "allreduce", "-b", "8", "-e", "8", "-i", "1", "-w", "1", "--json"]
drop = ("RANK", "WORLD_SIZE", "MASTER_", "SLURM_", "PMI", "OMPI_")
environment = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TANDEM_RDZV_TIMEOUT="30")
failures = 0


def check(name, output, errors):
    global failures
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if not lines or any(line["ranks"] != 2 or line["wrong"] != 0 for line in lines):
        failures += 1
        print(f"{name}: {output}{errors}")


for mpirun, options in ("mpirun.openmpi", ["--oversubscribe"]), ("mpirun.mpich", []):
    if shutil.which(mpirun):
        r = subprocess.run([mpirun, "-n", "2", *options, *bench], capture_output=True, text=True, env=environment, timeout=50)
        check(mpirun, r.stdout, r.stderr)
        r = subprocess.run([mpirun, "-n", "2", *options, "sh", "-c", " ".join(bench) + "; true"], capture_output=True, text=True, env=environment,
                           timeout=50)
        check(mpirun + " of shells", r.stdout, r.stderr)

slurm = dict(environment, SLURM_JOB_ID=str(os.getpid()), SLURM_STEP_ID="0", SLURM_NTASKS="2", SLURM_NNODES="1", SLURM_TASKS_PER_NODE="2", SLURM_NODEID="0")
tasks = [subprocess.Popen(bench, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(slurm, SLURM_PROCID=str(r), SLURM_LOCALID=str(r)))
         for r in range(2)]
outputs = [task.communicate(timeout=50) for task in tasks]
check("srun", outputs[0][0] + outputs[1][0], outputs[0][1] + outputs[1][1])
sys.exit(1 if failures else 0)
