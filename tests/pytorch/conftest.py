"""Finds the built package, also for processes that tests start."""
import os
import socket
import sys
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("TANDEM_BUILD", Path(__file__).resolve().parents[2] / "build")).resolve()
os.environ["PYTHONPATH"] = os.pathsep.join([str(BUILD / "pytorch"), *filter(None, [os.environ.get("PYTHONPATH")])])
os.environ.setdefault("TANDEM_RECORDER_DIR", str(BUILD / "tests/recordings"))
os.environ.setdefault("TANDEM_TUNE_FILE", "off")
sys.path.insert(0, str(BUILD / "pytorch"))


@pytest.fixture
def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
