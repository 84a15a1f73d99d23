"""Starts the job from Python, by the old launcher."""
import subprocess
import sys


def start(script, gpus):
    command = [sys.executable, "-m"]
    return subprocess.call(
        command + ["torch.distributed.launch", f"--nproc_per_node={gpus}", script]  # expect: deprecated_launcher
    )


if __name__ == "__main__":
    sys.exit(start("train.py", 8))
