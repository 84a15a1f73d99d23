#!/usr/bin/env python3
"""test_tune.py TANDEM - what `tandem tune` writes and prints, and that groups follow it."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TANDEM = sys.argv.pop(1)
SHORT = ["--collectives", "-n", "2", "-b", "2K", "-e", "8K", "--seconds", "1"]


def tandem(*arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TANDEM_") and k not in ("RANK", "WORLD_SIZE")}
    return subprocess.run([TANDEM, *arguments], capture_output=True, text=True, timeout=60, env={**environment, **variables})


class Tune(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = os.path.join(self.folder.name, "table")

    def test_each_operation_and_memory_has_choices_without_gaps(self):
        done = tandem("tune", *SHORT, "--json", TANDEM_TUNE_FILE=self.file)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        for op in "allreduce reduce_scatter all_gather broadcast reduce gather scatter alltoall".split():
            for memory in "tandem", "any":
                mine = [line for line in found if (line["op"], line["memory"]) == (op, memory)]
                self.assertEqual(mine[0]["min_bytes"], 0)
                self.assertIsNone(mine[-1]["max_bytes"])
                for one, next_one in zip(mine, mine[1:]):
                    self.assertEqual(one["max_bytes"], next_one["min_bytes"])
        with open(self.file) as f:
            self.assertEqual(sum(line.startswith("best 2x1/shm/") for line in f), len(found))

    def test_groups_follow_the_table_and_say_so(self):
        self.assertEqual(tandem("tune", *SHORT, "--transport", "tcp", TANDEM_TUNE_FILE=self.file).returncode, 0)
        shown = tandem("bench", "allreduce", "-n", "2", "-b", "2K", "-e", "2K", "--transport", "tcp", "--explain",
                       TANDEM_TUNE_FILE=self.file)
        self.assertIn("measured to be the fastest here", shown.stdout)
        other = tandem("bench", "allreduce", "-n", "3", "-b", "2K", "-e", "2K", "--transport", "tcp", "--explain",
                       TANDEM_TUNE_FILE=self.file)
        self.assertIn("cost model", other.stdout)

    def test_show_prints_the_place_and_the_table(self):
        nothing = tandem("tune", "--show", TANDEM_TUNE_FILE=self.file)
        self.assertEqual((nothing.returncode, nothing.stdout), (0, ""))
        self.assertIn("there is no table yet", nothing.stderr)
        cache = tandem("tune", "--show", XDG_CACHE_HOME=self.folder.name)
        self.assertIn(os.path.join(self.folder.name, "tandem", "collectives-"), cache.stderr)
        self.assertEqual(tandem("tune", *SHORT, TANDEM_TUNE_FILE=self.file).returncode, 0)
        shown = tandem("tune", "--show", TANDEM_TUNE_FILE=self.file)
        self.assertTrue(shown.stdout.startswith(f"# {self.file}\ntandem-tuning 1\n"))

    def test_usage(self):
        for arguments, text in [([], "there is --collectives"), (["gpt2"], "no arguments"), (["--collectives", "-b", "2", "-e", "1"], "no size")]:
            done = tandem("tune", *arguments, TANDEM_TUNE_FILE=self.file)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr.lower() if text == "there is --collectives" else done.stderr)
        self.assertEqual(tandem("tune", "--collectives", TANDEM_TUNE_FILE="off").returncode, 2)


if __name__ == "__main__":
    unittest.main()
