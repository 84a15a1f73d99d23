"""job.py - a test file that is also the program of its ranks: run by torchrun, it writes what each rank found."""
import json
import subprocess
import sys
from pathlib import Path


def results_of(file, backend, folder, ranks=2, limit_s=120):
    """Runs `file BACKEND FOLDER` under torchrun -> what its ranks gave to answer(), in their order."""
    folder = Path(folder) / backend
    folder.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", file, backend, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"rank{rank}").read_text()) for rank in range(ranks)]


def answer(program):
    """In a rank: program(backend) -> a dict with "rank", for results_of()."""
    backend, folder = sys.argv[1:]
    if backend == "tandem":
        import tandem_torch  # noqa: F401
    found = program(backend)
    Path(folder, f"rank{found['rank']}").write_text(json.dumps(found))
