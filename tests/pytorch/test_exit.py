"""How a program may end, and how the import may: nothing hangs, nothing is aborted."""
import os
import subprocess
import sys
import textwrap

import pytest
import torch

HEAD = """
    import datetime, os, sys, threading, time
    import torch, torch.distributed as dist
    import tandem_torch
    rank = int(os.environ["RANK"])
    dist.init_process_group("tandem", store=dist.FileStore(os.environ["STORE"], 2), rank=rank, world_size=2)
"""
ENDS = {
    "without destroy": "dist.all_reduce(torch.ones(3))",
    "work that nobody waited for": "works = [dist.all_reduce(torch.ones(1000 + i), async_op=True) for i in range(20)]",
    "work that cannot end": "work = dist.all_reduce(torch.ones(9), async_op=True) if rank == 0 else None",
    "futures of python tensors": """
        kept = []
        for i in range(50):
            t = torch.ones(100000)
            dist.all_reduce(t, async_op=True).get_future().then(lambda f: kept.append(f.value()[0]))
    """,
    "a child of fork": """
        t = torch.ones(3)
        dist.all_reduce(t, async_op=True).wait()
        child = os.fork()
        if child == 0:
            try:
                dist.all_reduce(t)
                os.write(2, b"a child of fork() was let in")
            except (ValueError, RuntimeError) as error:
                if "fork" not in str(error):
                    raise
            dist.destroy_process_group()
            sys.exit(7)
        status = os.waitpid(child, 0)[1]
        assert os.waitstatus_to_exitcode(status) == 7, status
        dist.all_reduce(t)
        dist.destroy_process_group()
    """,
}


@pytest.mark.parametrize("end", ENDS)
def test_ends(end, tmp_path):
    program = textwrap.dedent(HEAD) + textwrap.dedent(ENDS[end])
    ranks = [
        subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True,
                         env={**os.environ, "RANK": str(rank), "STORE": str(tmp_path / "store"), "OMP_NUM_THREADS": "1"})
        for rank in range(2)
    ]
    errors = [rank.communicate(timeout=40)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    assert not any("terminate called" in text or "Traceback" in text for text in errors), errors


def test_import_is_clean_and_knows_its_torch(tmp_path):
    run = lambda program: subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)  # noqa: E731
    good = run("import tandem_torch; assert tandem_torch.version()")
    assert (good.returncode, good.stdout, good.stderr) == (0, "", "")
    other = run("import torch; torch.__version__ = '2.1.0'; import tandem_torch")
    assert other.returncode == 1
    assert "ImportError" in other.stderr and "2.1.0" in other.stderr and ".".join(torch.__version__.split(".")[:2]) in other.stderr
