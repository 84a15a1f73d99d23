#!/usr/bin/env python3
"""`tandem doctor --lint` over the corpus: test_lint.py TANDEM SOURCE-ROOT

A script of tests/lint/RULE/ that begins with bad_ gives the findings that its comments announce and no other; one that begins with good
gives none. In a script: `# expect: RULE` at the end of a line. `# launch: LINE` is given as --launch, the `# env: LINE`s as a file;
`# expect-launch: RULE` and `# expect-env: RULE LINE` announce findings there.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

tandem, root = sys.argv[1], Path(sys.argv[2])
corpus = root / "tests/lint"
# The interpreter itself first: a wrapper called python3 may take longer to start than a script to read.
os.environ["PATH"] = f"{Path(os.path.realpath(sys.executable)).parent}:{os.environ['PATH']}"


def run(*args, **options):
    return subprocess.run([tandem, "doctor", *map(str, args)], capture_output=True, text=True, timeout=120, **options)


def announced(text):
    found = [("script", number, rule) for number, line in enumerate(text.splitlines(), 1) for rule in re.findall(r"  # expect: (\w+)", line)]
    found += [("launch", 1, rule) for rule in re.findall(r"^# expect-launch: (\w+)", text, re.M)]
    found += [("env", int(line), rule) for rule, line in re.findall(r"^# expect-env: (\w+) (\d+)", text, re.M)]
    return sorted(found)


def check_script(path):
    """What is wrong with the findings in this script; None: nothing."""
    text = path.read_text()
    args = ["--json", "--lint", path]
    launch, settings = re.search(r"^# launch: (.*)", text, re.M), re.findall(r"^# env: (.*)", text, re.M)
    with tempfile.NamedTemporaryFile("w", suffix=".env") as file:
        file.write("\n".join(settings))
        file.flush()
        if launch:
            args += ["--launch", launch.group(1)]
        if settings:
            args += ["--env-file", file.name]
        result = run(*args)
        if result.returncode not in (0, 1) or result.stderr:
            return f"exit code {result.returncode}: {result.stderr}"
        report = json.loads(result.stdout)
        places = {str(path): "script", "--launch": "launch", file.name: "env"}
        found = sorted((places[f["file"]], f["line"], f["id"]) for f in report["findings"])
    if result.returncode != (1 if report["errors"] else 0):
        return f"exit code {result.returncode} with {report['errors']} errors"
    if found != announced(text):
        return f"found {found}, announced {announced(text)}"
    if path.name.startswith("bad_") or path.name == "bad.py":
        rules = {rule for _, _, rule in found}
        return None if rules == {path.parent.name} else f"{rules} is not {path.parent.name}"
    return None if path.name.startswith("good") else "neither bad nor good"


def check_table():
    """Each rule has a bad and a good script, and a row in docs/lint.md with its severity."""
    rules = dict(re.findall(r'^        "(\w+)", ([EWN]),', (root / "src/lint/rules.c").read_text(), re.M))
    rows = dict(re.findall(r"^\| `(\w+)` \| (\w+)", (root / "docs/lint.md").read_text(), re.M))
    names = {"E": "error", "W": "warning", "N": "note"}
    wrong = [f"docs/lint.md: {rule} is {rows.get(rule)}, in the table {names[rules[rule]] if rule in rules else None}"
             for rule in sorted(set(rules) | set(rows)) if rule not in rules or rows.get(rule) != names[rules[rule]]]
    wrong += [f"no {kind} script for {rule}" for rule in rules for kind in ("bad", "good") if not list((corpus / rule).glob(f"{kind}*.py"))]
    wrong += [f"{folder.name} is no rule" for folder in corpus.iterdir() if folder.is_dir() and folder.name not in rules]
    return wrong if len(rules) > 30 else wrong + [f"only {len(rules)} rules found"]


def check_refused(what, source, words, *args):
    """A script that is no script: one line on stderr, exit code 3."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_bytes(source)
        r = run("--lint", path, *args)
    good = r.returncode == 3 and r.stdout == "" and r.stderr.count("\n") == 1 and all(w in r.stderr for w in ("train.py", *words))
    return [] if good else [f"{what}: exit code {r.returncode}, {r.stdout[:300]!r}, {r.stderr[:500]!r}"]


def check_read(what, source, findings):
    """A strange script that is one: what is found in it, as (rule, line, column)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_bytes(source)
        r = run("--json", "--lint", path)
    try:
        found = [(f["id"], f["line"], f["column"]) for f in json.loads(r.stdout)["findings"]]
    except ValueError:
        return [f"{what}: exit code {r.returncode}, {r.stderr[:500]!r}"]
    return [] if found == findings else [f"{what}: {found}"]


def check_input():
    adam = b"import torch\ntorch.optim.Adam([], compression=1)\n"
    wrong = check_refused("a syntax error", b"x = 1\nfor in range(3):\n", ["line 2"])
    wrong += check_refused("Python 2", b"print 'hello'\n", ["line 1"])
    wrong += check_refused("NUL", b"x = 1\n\0\n", ["null"])
    wrong += check_refused("a picture", b"\x89PNG\r\n\x1a\n\xff\xfe" + bytes(range(256)), [])
    wrong += check_refused("an unknown encoding", b"# coding: klingon\nx = 1\n", ["klingon"])
    wrong += check_refused("deep brackets", b"x = " + b"(" * 5000 + b")" * 5000, [])
    wrong += check_refused("deep sums", b"x = " + b"1 + " * 100000 + b"1\n", [])
    wrong += check_refused("too large", b"#" * (8 << 20) + b"\n", ["8388608"])
    wrong += check_read("empty", b"", [])
    wrong += check_read("latin-1", b"# -*- coding: latin-1 -*-\nimport torch\n\xe9t\xe9 = torch.optim.Adam([], '\xe9', compression=1)\n",
                        [("unknown_option", 3, 33)])
    wrong += check_read("a byte order mark, tabs, CRLF", b"\xef\xbb\xbfimport torch\r\nif True:\r\n\ttorch.optim.SGD([], compression=1)\r\n",
                        [("unknown_option", 3, 22)])
    wrong += check_read("100000 lines", b"import torch\n" + b"x = [1, 2, f(y)]\n" * 100000 + b"torch.optim.Adam([], compression=1)\n",
                        [("unknown_option", 100002, 22)])
    if sys.version_info >= (3, 10):
        wrong += check_read("match", b"import torch\nmatch input():\n    case [1, *r] if r:\n        pass\n    case {'k': v, **o} | v:\n        "
                            b"torch.optim.Adam([], compression=v)\n    case None:\n        pass\n", [("unknown_option", 6, 30)])
    return wrong + check_read("walrus, async, lambda", b"import torch\nasync def f(a: int, *, b: 'x' = 1) -> None:\n    async with a as c:\n        "
                              b"async for i in c:\n            await (lambda: (n := torch.optim.Adam([], compression=i)))()\n" + adam,
                              [("unknown_option", 5, 55), ("unknown_option", 7, 22)])


def check_command():
    wrong = []
    bad, good = corpus / "unknown_option/bad_optimizer.py", corpus / "unknown_option/good.py"

    def expect(what, code, words, *args, **options):
        r = run(*args, **options)
        if r.returncode != code or not all(w in r.stdout + r.stderr for w in words):
            wrong.append(f"{what}: exit code {r.returncode}\n{r.stdout}{r.stderr}")

    expect("text", 1, ["bad_optimizer.py:12:9 error unknown_option:", "why:", "instead:", "1 error, 0 warnings, 0 notes"], "--lint", bad)
    expect("silence", 0, ["0 errors, 0 warnings, 0 notes"], "--lint", good)
    expect("two things", 2, ["--lint"], "--lint", bad, good)
    expect("a launch line alone", 2, ["--lint"], "--launch", "torchrun x.py", good)
    expect("an open quote", 2, ["quote"], "--lint", good, "--launch", "torchrun 'x.py")
    expect("assignments only", 2, ["assignments"], "--lint", good, "--launch", "A=1 B=2")
    expect("no file", 3, ["nowhere.py"], "--lint", "nowhere.py")
    expect("a folder", 3, ["regular"], "--lint", corpus)
    expect("a device", 3, ["regular"], "--lint", "/dev/zero")
    expect("no settings", 3, ["nowhere.env"], "--lint", good, "--env-file", "nowhere.env")
    expect("no assignment", 3, ["line 1"], "--lint", good, "--env-file", good)
    expect("no python3", 3, ["python3", "PATH"], "--lint", good, env={"PATH": "/nowhere"})
    return wrong


def main():
    scripts = sorted(corpus.glob("*/*.py"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [f"{path.relative_to(root)}: {why}" for path, why in zip(scripts, pool.map(check_script, scripts)) if why]
    wrong += check_table() + check_input() + check_command()
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"{len(scripts)} scripts")
    return 1 if wrong else 0


sys.exit(main())
