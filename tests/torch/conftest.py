"""A fixture that trains."""
import pytest

from training import TOKENS, Run, run_tandem


@pytest.fixture
def train(tmp_path):
    """train(config, ranks, *more options) -> Run"""
    count = 0

    def go(config, ranks, *more, data=TOKENS):
        nonlocal count
        count += 1
        folder = tmp_path / f"run{count}"
        done = run_tandem("train", *config.options(ranks), "--data", data, "--run", folder, *more)
        assert done.returncode == 0, done.stdout + done.stderr
        return Run(folder)

    return go
