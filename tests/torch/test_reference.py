"""What is committed as PyTorch's numbers is what PyTorch gives: golden numbers, and the reference of its generator."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command, **variables):
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_golden_numbers_are_pytorchs():
    run("tools/make_golden.py", "--check")


@pytest.mark.parametrize("capability", ["avx2", "default"])
def test_the_reference_of_the_generator_agrees_with_pytorch(capability):
    run("tools/rng_ref.py", "--verify", ATEN_CPU_CAPABILITY=capability)


def output_of(script):
    return subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=300).stdout


def test_the_committed_vectors_are_the_references():
    assert output_of("tools/rng_ref.py") == (ROOT / "tools/rng_vectors.txt").read_text()


def test_the_values_that_unit_tests_compare_with_are_pytorchs():
    """Random numbers and DistributedSampler's orders; updates of optimizers; initial weights."""
    assert output_of("tests/unit/data/golden_rng.py") == (ROOT / "tests/unit/data/golden_rng.h").read_text()
    assert output_of("tests/unit/optim/make_golden.py") == (ROOT / "tests/unit/optim/golden.h").read_text()
    assert output_of("tests/unit/models/golden_init.py") == (ROOT / "tests/unit/models/golden_init.h").read_text()
