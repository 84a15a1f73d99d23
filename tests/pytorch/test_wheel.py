"""`pip install .`: the wheel has all that it needs, and says what is missing."""
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TDM_BUILD", ROOT / "build"))

RANK = """
import sys, torch, tandem_torch, torch.distributed as dist
rank = int(sys.argv[1])
dist.init_process_group("tandem", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
x = torch.full((1000,), rank + 1.0)
dist.all_reduce(x)
assert x.eq(3).all()
dist.destroy_process_group()
print(tandem_torch.__file__)
print(*{line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}, sep="\\n")
"""


def run(*command, **environment):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, cwd=ROOT, env=os.environ | environment)


def test_a_wheel_brings_what_it_needs(tmp_path):
    made = run(sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, TDM_BUILD=str(BUILD))
    assert made.returncode == 0, made.stdout + made.stderr
    wheel, = tmp_path.glob("*.whl")
    assert "linux" in wheel.name and f"cp{sys.version_info[0]}{sys.version_info[1]}" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(next(n for n in archive.namelist() if n.endswith("METADATA"))).decode()
        assert re.search(r"Requires-Dist: torch<2\.\d+,>=2\.\d+", metadata)
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    for name in ("_C.", "__init__.py", "built_with.py", "libtandem.so.0", "libsodium.so"):
        assert any(n.startswith(f"tandem_torch/{name}") for n in names), names

    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), tmp_path / "store"], stdout=subprocess.PIPE, text=True, cwd=tmp_path,
                              env=os.environ | {"PYTHONPATH": str(tmp_path / "site")}) for rank in range(2)]
    try:
        for rank in ranks:
            out = rank.communicate(timeout=120)[0].splitlines()
            assert rank.returncode == 0
            assert out[0].startswith(str(tmp_path))
            for name in ("libtandem.so.0", "libsodium.so"):
                assert all(path.startswith(str(tmp_path)) for path in out if name in path)
    finally:
        for rank in ranks:
            rank.kill()


def test_without_torch_one_line_says_what_to_do():
    code = "import sys; sys.executable = '/bin/false'; __file__ = 'setup.py'; exec(open('setup.py').read())"
    done = run(sys.executable, "-c", code)
    assert done.returncode == 1
    assert "no PyTorch in /bin/false: first `/bin/false -m pip install torch`" in done.stderr.splitlines()[-1]
