"""What the tests of `tandem doctor` share: the command run, whose path is a test's first argument; checks that count; simulated jobs."""
import json
import subprocess
import sys
from pathlib import Path

TANDEM = sys.argv[1]
SHOWN = 4000  # characters of what a failed check saw
failures = 0


def run(*args, **options):
    return subprocess.run([TANDEM, "doctor", *map(str, args)], **{"capture_output": True, "text": True, **options})


def check(good, what, seen=""):
    """seen: what there was instead, or the run of the command that gave it."""
    global failures
    if good:
        return
    failures += 1
    if isinstance(seen, subprocess.CompletedProcess):
        seen = f"exit code {seen.returncode}\n{seen.stderr}{seen.stdout}"
    print(f"{what}: {str(seen)[:SHOWN]}")


def simulate(simulator, folder, scenario, *options):
    """Traces of a job by tests/doctor/simulate.py, and the truth about it."""
    subprocess.run([sys.executable, simulator, "--out", folder, "--scenario", scenario, "--most-ranks", "4", *options], check=True, stdout=subprocess.DEVNULL)
    return json.loads((Path(folder) / "truth.json.txt").read_text())


def finish():
    sys.exit(1 if failures else 0)
