"""Finds the built package, also for processes that tests start."""
import os
import socket
import sys

import pytest

from built import BUILD

os.environ["PYTHONPATH"] = os.pathsep.join([str(BUILD / "pytorch"), *filter(None, [os.environ.get("PYTHONPATH")])])
os.environ.setdefault("TANDEM_RECORDER_DIR", str(BUILD / "tests/recordings"))
os.environ.setdefault("TANDEM_TUNE_FILE", "off")
sys.path.insert(0, str(BUILD / "pytorch"))


@pytest.fixture
def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
