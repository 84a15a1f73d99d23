"""Prints what a build against this Python's torch needs, without importing torch: version, folder of its libraries, suffix of
extension modules, folders of headers (separated by colons)."""
import importlib.metadata
import importlib.util
import pathlib
import sys
import sysconfig

spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    sys.exit(f"{sys.executable} has no torch; install one (torch 2.9 or later, CPU) or name another Python with -Dpytorch_python")
root = pathlib.Path(spec.origin).parent
print(".".join(importlib.metadata.version("torch").split(".")[:2]))
print(root / "lib")
print(sysconfig.get_config_var("EXT_SUFFIX"))
print(":".join(map(str, [root / "include", root / "include/torch/csrc/api/include", sysconfig.get_paths()["include"]])))
