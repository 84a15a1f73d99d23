#!/usr/bin/env python3
"""run_suite.py - PyTorch's own distributed tests, those in its wheel, for one backend: one line a test, and the sums.

  run_suite.py                             tandem: what gloo passes (gloo_passed_N.txt, N ranks), and all_to_all
  run_suite.py --world-size 3 -k '*scatter*'   some of them
  run_suite.py --backend gloo --record     gloo, every test that needs no GPU; writes gloo_passed_N.txt

All of it is run with 3 and 4 ranks, and with 8 what wants 8 ("small world size" below it). skip.txt says what cannot pass, and why: an entry that passes is an error, as a test that fails without an entry is.

The tests are written for processes that import PyTorch anew, which takes longer than the tests. Here one process imports
PyTorch, and the tests and their ranks are forked from it. A rank imports the backend after that, as a user's would.
Decorators, and some tests, decide by the backend's name what applies, and know gloo, mpi and nccl only: the name they see
equals "gloo" (for all_to_all, which they allow to MPI alone, "mpi") as well as what it is.
"""
import argparse
import ast
import fnmatch
import importlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
BUILD = Path(os.environ.get("TDM_BUILD", HERE.parents[2] / "build")).resolve()
MODULES = {"tandem": "tandem_torch"}  # backend -> the module that registers it
LIMIT_S = 90                          # a test's time; its processes are killed LIMIT_S / 3 later
NEVER_ON_CPU = {"skip_if_lt_x_gpu", "skip_if_no_gpu", "skip"}  # decorators


def decorator_name(node):
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def cpu_tests():
    """Names of the tests that a machine without GPUs can run, read from the source."""
    source = Path(find_spec("torch").origin).parent / "testing/_internal/distributed/distributed_test.py"
    classes = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.ClassDef)]
    body = next(node for node in classes if node.name == "_DistTestBase").body
    tests = [node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return sorted({test.name for test in tests if not NEVER_ON_CPU & set(map(decorator_name, test.decorator_list))
                   and not re.search("cuda|gpu|nccl", test.name, re.I)})


def listed(path):
    """The lines of a list: what stands before '#' in each, split into words."""
    lines = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return [words for words in lines if words]


def skips(backend, world):
    """{name: reason} of skip.txt for this number of ranks: `name  ranks or *  reason`."""
    if backend == "gloo":
        return {}
    rows = [words for words in listed(HERE / "skip.txt") if words[1] in ("*", str(world))]
    return {name: " ".join(reason) for name, _, *reason in rows}


class Alias(str):
    """A name that equals another one too."""
    like = ""

    def __eq__(self, other):
        return str(self) == other or self.like == other

    __hash__ = str.__hash__


def prepare(backend, like, world):
    """Imports the tests in this process and returns their class."""
    os.environ.update(BACKEND=like, WORLD_SIZE=str(world), INIT_METHOD="file://",
                      DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(LIMIT_S), OMP_NUM_THREADS="1")
    sys.argv = sys.argv[:1]           # torch's test utilities parse it
    import torch.multiprocessing
    from torch.testing._internal.common_distributed import DistTestCases
    for sets in (DistTestCases.backend_feature, DistTestCases.skip_collective):
        for members in sets.values():
            if like in members:
                members.add(backend)
    from torch.testing._internal.distributed import distributed_test
    distributed_test.BACKEND = Alias(backend)
    distributed_test.BACKEND.like = like

    class TestDist(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            distributed_test.INIT_METHOD = f"file://{self.file_name}.second"
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, *arguments, **more):
            os.environ["RANK"] = str(arguments[0])
            if backend in MODULES:
                importlib.import_module(MODULES[backend])
            super()._run(*arguments, **more)

        def _check_return_codes(self, fn, elapsed_time):
            ends = [process.exitcode for process in self.processes]
            if any(end in (1, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS) for end in ends):
                raise RuntimeError(f"the ranks ended with {ends}; their output says why")
            super()._check_return_codes(fn, elapsed_time)  # looks at rank 0 alone where no rank told of an exception

    return TestDist


def verdict(result):
    """('pass' | 'fail' | 'skip', why)"""
    bad = result.errors + result.failures
    if not bad:
        return ("skip", result.skipped[0][1]) if result.skipped else ("pass", "")
    lines = bad[0][1].strip().splitlines()
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Timeout)\b", line)]
    return "fail", (named or lines)[-1]


def forked(body, log, limit_s):
    """body() in a process and session of its own, all it prints into log; its answer, or why there is none."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        with open(log, "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        try:
            answer = body()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        print("\n@@%s@@%s" % (answer[0], answer[1].splitlines()[0] if answer[1] else ""), flush=True)
        os._exit(0)
    deadline = time.monotonic() + limit_s
    while (done := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.02)
    try:
        os.killpg(pid, signal.SIGKILL)  # its ranks, if it left some
    except ProcessLookupError:
        pass
    if done == (0, 0):
        os.waitpid(pid, 0)
        return "fail", f"not over after {limit_s} s"
    found = re.findall(r"^@@(\w+)@@(.*)$", Path(log).read_text(errors="replace"), re.M)
    return found[-1] if found else ("fail", f"no verdict: the test's process ended with {done[1]}")


def judge(word, name, known):
    """The verdict with skip.txt applied: what is skipped without an entry there fails, what passes in spite of one too."""
    if name in known:
        return "fail" if word == "pass" else "known"
    return "fail" if word == "skip" else word


def run(options, world, like, names):
    """Runs names with this many ranks; prints a line for each; returns [(word, name)]."""
    known, verdicts = skips(options.backend, world), []
    cls = prepare(options.backend, like, world)
    check_import(options)
    for name in names:
        log, began = options.logs / f"{name}.{world}.log", time.monotonic()
        test = lambda: verdict(unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite([cls(name)])))
        raw, why = forked(test, log, LIMIT_S * 4 // 3) if hasattr(cls, name) else ("fail", "PyTorch has no such test")
        word = raw if options.record else judge(raw, name, known)
        if word == "fail" and raw != "fail":
            why = f"{raw} {why}; skip.txt says: {known.get(name, 'nothing')}"
        verdicts.append((word, name))
        print(f"{word:5} {time.monotonic() - began:6.1f} {name} {world}" + (f"  # {why[:300]}" if why else ""), flush=True)
        if word != "fail":
            log.unlink(missing_ok=True)
    return verdicts


def check_import(options):
    """Ends the run if the backend cannot be imported. In a process of its own, as this one is forked from."""
    name = MODULES.get(options.backend)
    word, why = forked(lambda: ("pass", str(name and importlib.import_module(name))), options.logs / "import.log", LIMIT_S)
    if word != "pass":
        sys.exit(f"run_suite: {name} cannot be imported ({why}):\n" + (options.logs / "import.log").read_text())


def batch(options, world, like, names):
    """run() in a process of its own, which may import the tests for this world and name."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        code = 1
        try:
            lines = "".join(f"{word} {name}\n" for word, name in run(options, world, like, names))
            with os.fdopen(writer, "w") as file:
                file.write(lines)
            code = 0
        except SystemExit as end:
            print(end, flush=True)
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as file:
        verdicts = [tuple(line.split()) for line in file]
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit("run_suite: the tests could not be prepared; the lines above say why")
    return verdicts


def passed(world):
    return [words[0] for words in listed(HERE / f"gloo_passed_{world}.txt")]


def chosen(options, world):
    """[(like, names)] of one number of ranks."""
    if options.record:
        done = {name for smaller in (3, 4) if world > 4 for name in passed(smaller)}
        plan = [("gloo", [name for name in cpu_tests() if name not in done])]
    else:
        plan = [("gloo", passed(world))]
        if options.backend != "gloo":
            plan.append(("mpi", [name for name in cpu_tests() if name.startswith("test_all_to_all")]))
    wanted = lambda name: not options.k or any(fnmatch.fnmatch(name, part) for part in options.k)
    plan = [(like, [name for name in names if wanted(name)]) for like, names in plan]
    return [(like, names) for like, names in plan if names]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tandem", choices=["tandem", "gloo"])
    parser.add_argument("--world-size", type=int, nargs="+", default=[3, 4, 8])
    parser.add_argument("-k", action="append", metavar="NAME", help="only these names, '*' allowed; may be repeated")
    parser.add_argument("--logs", type=Path, default=Path("torch-suite-logs"), help="folder for the output of tests that fail")
    parser.add_argument("--record", action="store_true", help="every test for CPUs; those that pass become gloo_passed_N.txt")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(BUILD / "pytorch"))
    shutil.rmtree(options.logs, ignore_errors=True)
    options.logs.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        total = {"pass": 0, "fail": 0, "skip": 0, "known": 0}
        began = time.monotonic()
        for world in options.world_size:
            verdicts = [v for like, names in chosen(options, world) for v in batch(options, world, like, names)]
            for word, _ in verdicts:
                total[word] += 1
            if options.record:
                names = "".join(f"{name}\n" for word, name in verdicts if word == "pass")
                (HERE / f"gloo_passed_{world}.txt").write_text(names)
    print(f"# {options.backend}: {total['pass']} passed, {total['fail']} failed, {total['skip']} skipped, {total['known']} known "
          f"from skip.txt, {time.monotonic() - began:.0f} s")
    return 1 if total["fail"] or not total["pass"] else 0


if __name__ == "__main__":
    sys.exit(main())
