"""Running `tandem train` from tests."""
import json
import os
import subprocess
from pathlib import Path

from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
TANDEM = Path(os.environ.get("TDM_BUILD", ROOT / "build")) / "tandem"
TOKENS = ROOT / "tests/golden/tokens.bin"


class Run:
    """A finished training run."""

    def __init__(self, folder):
        self.folder = folder
        self.metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        self.loss = [step["loss"] for step in self.metrics]
        self.grad_norm = [step["grad_norm"] for step in self.metrics]

    def checkpoint(self, step):
        return self.folder / f"step-{step}"

    def weights(self, step):
        return load_file(self.checkpoint(step) / "model.safetensors")


def run_tandem(*arguments):
    return subprocess.run([str(a) for a in (TANDEM, *arguments)], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
