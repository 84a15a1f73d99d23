"""Packs the Python package tandem_torch: `pip install .` at the root of the repository (docs/pytorch.md).

Meson compiles libtandem and the extension, here they are put into a wheel with the libraries they need. PyTorch is looked for
in the interpreter that runs pip, outside pip's isolated build environment. With TDM_BUILD the files come from that Meson
build folder (configured with -Dpytorch=enabled; pip needs --no-build-isolation then, for the same Meson), else from a temporary one.
"""
import atexit
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PACKAGE = "tandem_torch"
# What every Linux with a glibc has; all else that libtandem needs goes into the wheel.
SYSTEM = re.compile(r"(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+)\.so")


def torch_version():
    """(major, minor) of the PyTorch that the extension is built for."""
    # -E: pip points PYTHONPATH at its build environment and switches the user's own packages off.
    facts = subprocess.run([sys.executable, "-E", ROOT / "pytorch/facts.py"], capture_output=True, text=True)
    if facts.returncode != 0:
        sys.exit(f"{PACKAGE}: no PyTorch in {sys.executable}: first `{sys.executable} -m pip install torch` (2.9 or later; the "
                 "CPU build is enough), then `pip install .` with the same pip (not python -m build, whose isolated "
                 "environment has none)")
    return [int(part) for part in facts.stdout.split()[0].split(".")]


def missing_packages():
    """Names of Debian packages without which the build would fail with a less clear text."""
    header = Path(sysconfig.get_path("include")) / "Python.h"
    package_config = shutil.which("pkg-config")
    found = {
        "gcc": shutil.which(os.environ.get("CC", "cc").split()[-1]),
        "g++": shutil.which(os.environ.get("CXX", "c++").split()[-1]),
        "python3-dev": header.exists(),
        "pkg-config": package_config,
        "libsodium-dev": package_config and subprocess.run([package_config, "--exists", "libsodium"]).returncode == 0,
    }
    return [name for name, there in found.items() if not there]


def temporary_folder():
    folder = tempfile.mkdtemp(prefix="tandem-wheel-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def run(*command):
    command = [str(part) for part in command]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        sys.exit(f"{PACKAGE}: `{' '.join(command)}` failed; the lines above say why")


def compiled():
    """A Meson build folder in which the extension is up to date."""
    if os.environ.get("TDM_BUILD"):
        folder = Path(os.environ["TDM_BUILD"]).resolve()
        run("ninja", "-C", folder)
        return folder
    missing = missing_packages()
    if missing:
        sys.exit(f"{PACKAGE}: to build it, run as root:  apt-get install {' '.join(missing)}")
    folder = temporary_folder()
    run("meson", "setup", folder, ROOT, "-Dwheel=true", "-Dmpi=disabled", "-Dpytorch=enabled", f"-Dpytorch_python={sys.executable}")
    run("ninja", "-C", folder)
    return folder


def needed_libraries(library):
    """Files of the libraries it needs that are no part of the system, theirs included."""
    lines = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    return [Path(path) for name, path in re.findall(r"^\s*(\S+) => (/\S+)", lines, re.M) if not SYSTEM.match(name)]


class MesonBuild(build_ext):
    """The one extension is what Meson installs for a wheel."""

    def run(self):
        if self.inplace or getattr(self, "editable_mode", False):
            sys.exit(f"{PACKAGE}: there is no editable install; use PYTHONPATH=build/pytorch of a build with -Dpytorch=enabled")
        folder = compiled()
        staged = temporary_folder()
        run("meson", "install", "-C", folder, "--no-rebuild", "--quiet", "--strip", "--destdir", staged, "--tags", "wheel")
        target = Path(self.build_lib) / PACKAGE
        target.mkdir(parents=True, exist_ok=True)
        library = next(staged.rglob("libtandem.so.0"))
        written = (folder / "pytorch" / PACKAGE).glob("*.py")  # one of them by Meson
        for file in [*written, next(staged.rglob("_C.*so")), library, *needed_libraries(library)]:
            shutil.copy(file, target / file.name)

    def get_outputs(self):
        return [str(file) for file in (Path(self.build_lib) / PACKAGE).glob("*.so*")]


major, minor = torch_version()
setup(
    version=re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1],
    install_requires=[f"torch>={major}.{minor},<{major}.{minor + 1}"],
    packages=[PACKAGE],
    package_dir={PACKAGE: f"pytorch/{PACKAGE}"},
    ext_modules=[Extension(f"{PACKAGE}._C", sources=[])],  # makes the wheel one of this platform and Python
    cmdclass={"build_ext": MesonBuild},
    # The source folder stays as it is.
    options={"build": {"build_base": str(temporary_folder())}, "egg_info": {"egg_base": str(temporary_folder())}},
    zip_safe=False,
)
