#!/usr/bin/env python3
"""test_bench.py TANDEM WRONG_SUM - what `tandem bench` prints, and how it ends."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

TANDEM, WRONG_SUM = sys.argv.pop(1), sys.argv.pop(1)
FIELDS = ["op", "bytes", "count", "dtype", "redop", "ranks", "engine", "transport", "algo", "memory", "in_place", "time_us",
          "time_us_p10", "time_us_p90", "algbw_gbps", "busbw_gbps", "wrong"]
REDUCE = ["allreduce", "reduce_scatter", "reduce", "parameter_server", "data_parallel"]
ROOTED = ["broadcast", "reduce", "gather", "scatter"]
OPS = REDUCE + ["all_gather", "broadcast", "gather", "scatter", "alltoall", "sendrecv", "barrier"]
FEW = ["-w", "1", "-i", "3"]


def bench(*arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TANDEM_") and k not in ("RANK", "WORLD_SIZE")}
    return subprocess.run([TANDEM, "bench", *arguments], capture_output=True, text=True, timeout=60,
                          env={**environment, "TANDEM_TUNE_FILE": "off", **variables})


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


def lines(*arguments, **variables):
    done = bench(*arguments, "--json", *FEW, **variables)
    assert done.returncode == 0, done.stderr
    return [json.loads(line, parse_constant=no_constant) for line in done.stdout.splitlines()]


class Bench(unittest.TestCase):
    def test_bus_bandwidth_of_four_ranks(self):
        """Case 66 of the field's reports: ratios, and one parsable line a case on stdout while logs are on."""
        for op, factor in [("allreduce", 1.5), ("reduce_scatter", 0.75), ("all_gather", 0.75), ("broadcast", 1), ("reduce", 1),
                           ("gather", 0.75), ("scatter", 0.75), ("alltoall", 0.75), ("sendrecv", 1), ("parameter_server", 1.5),
                           ("data_parallel", 1.5)]:
            found = lines(op, "-n", "4", "-b", "64K", "-e", "64K", TANDEM_LOG="debug")
            places = {"broadcast": [True], "sendrecv": [False]}
            self.assertEqual([line["in_place"] for line in found], places.get(op, [False, True]))
            for line in found:
                self.assertAlmostEqual(line["busbw_gbps"] / line["algbw_gbps"], factor, places=4)
                self.assertAlmostEqual(line["algbw_gbps"], 65536 / line["time_us"] * 1e-3, places=2)
                self.assertEqual((line["bytes"], line["ranks"], line["wrong"]), (65536, 4, 0))
                self.assertEqual(line["count"], 4096 if factor == 0.75 else 16384)
                self.assertLessEqual(line["time_us_p10"], line["time_us"])
                self.assertLessEqual(line["time_us"], line["time_us_p90"])

    def test_a_wrong_element_is_counted_and_fails_the_command(self):
        """Case 66 too: one element of rank 1's result is wrong, in place and out of place."""
        done = bench("allreduce", "-n", "2", "-b", "4K", "-e", "4K", "--json", *FEW, LD_PRELOAD=WRONG_SUM)
        self.assertEqual([json.loads(line)["wrong"] for line in done.stdout.splitlines()], [1, 1], done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_json_has_these_fields_even_with_debug_logs(self):
        for line in lines("allreduce", "-n", "2", "-b", "2K", "-e", "8K", "-d", "int8", "-o", "max", TANDEM_LOG="debug"):
            self.assertEqual(list(line), FIELDS)
            self.assertEqual((line["dtype"], line["redop"], line["engine"], line["transport"]), ("int8", "max", "native", "shm"))
            self.assertEqual((line["memory"], line["algo"]), ("tandem", "direct"))
        self.assertIsNone(lines("broadcast", "-n", "2", "-b", "8", "-e", "8")[0]["redop"])

    def test_one_rank_has_no_bus(self):
        for op in OPS:
            for line in lines(op, "-n", "1", "-b", "1K", "-e", "1K", *(["-o", "avg"] if op in REDUCE else [])):
                self.assertEqual((line["busbw_gbps"], line["wrong"], line["transport"]), (0, 0, "self"))

    def test_every_type_and_operation_is_right(self):
        for dtype in ("float32", "float64", "bfloat16", "float16", "int32", "int64", "int8", "uint8"):
            for redop in ("sum", "avg", "min", "max", "prod"):
                for line in lines("allreduce", "-n", "3", "-b", "3001", "-e", "3001", "-d", dtype, "-o", redop):
                    self.assertEqual(line["wrong"], 0)

    def test_every_root_and_the_baselines_algorithms(self):
        for op in ROOTED:
            for root in ("0", "2"):
                found = lines(op, "-n", "3", "-b", "3001", "-e", "3001", "--root", root, "-d", "int8")
                self.assertEqual({line["wrong"] for line in found}, {0})
            table = bench(op, "-n", "3", "-b", "3K", "-e", "3K", "-r", "1", *FEW)
            self.assertEqual([line.split()[4] for line in table.stdout.splitlines() if not line.startswith("#")], ["1"])
        for op, algorithm in [("parameter_server", "parameter_server"), ("data_parallel", "gather_to_one"), ("sendrecv", "messages")]:
            self.assertEqual({line["algo"] for line in lines(op, "-n", "3", "-b", "1K", "-e", "1K")}, {algorithm})

    def test_memory_and_sizes(self):
        found = lines("allreduce", "-n", "2", "-b", "16", "-e", "1M", "-f", "256", "--memory", "malloc")
        self.assertEqual([line["bytes"] for line in found], [16, 16, 4096, 4096, 1048576, 1048576])
        self.assertEqual({line["memory"] for line in found}, {"malloc"})
        self.assertNotIn("direct", {line["algo"] for line in found})

    def test_table_has_the_columns_of_nccl_tests(self):
        done = bench("allreduce", "-n", "2", "-b", "8", "-e", "2K", "-f", "16", *FEW)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual([row[0] for row in rows], ["8", "128", "2048"])
        for row in rows:
            self.assertEqual(len(row), 13)
            self.assertEqual(row[1:5], [str(int(row[0]) // 4), "float32", "sum", "-1"])
            self.assertEqual((row[8], row[12]), ("0", "0"))
        self.assertEqual([line for line in done.stdout.splitlines() if "algorithm" in line],
                         ["# algorithm: eager", "# algorithm: direct"])

    def test_csv_has_one_head_and_the_same_fields(self):
        done = bench("all_gather", "-n", "2", "-b", "8", "-e", "64", "-f", "8", "--csv", *FEW)
        self.assertEqual(done.stdout.splitlines()[0].split(","), FIELDS)
        self.assertEqual({len(line.split(",")) for line in done.stdout.splitlines()}, {len(FIELDS)})

    def test_all_algorithms_are_right_over_both_transports(self):
        names = {"allreduce": {"halving_doubling", "pairwise", "ring"}, "reduce_scatter": {"halving_doubling", "pairwise", "ring"},
                 "all_gather": {"bruck", "halving_doubling", "pairwise", "ring"}, "broadcast": {"binomial", "ring"}, "barrier": {"dissemination"}}
        for op, links in names.items():
            for transport, expected in [("tcp", links), ("shm", links | {"direct", "direct_staged"})]:
                found = lines(op, "-n", "3", "-b", "4K", "-e", "4K", "--algo", "all", "--transport", transport)
                self.assertLessEqual(expected, {line["algo"] for line in found})
                self.assertEqual({(line["wrong"], line["transport"]) for line in found}, {(0, transport)})

    def test_a_ring_of_sums_must_be_allowed(self):
        done = bench("allreduce", "-n", "3", "-b", "4K", "-e", "4K", "--algo", "all", "--sum-order", "canonical", "--json", *FEW)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('"ring"', done.stdout)
        self.assertIn("skipped: allreduce over 3 ranks: algorithm ring adds in another order", done.stderr)
        found = lines("allreduce", "-n", "3", "-b", "4K", "-e", "4K", "--algo", "ring", "--sum-order", "fast")
        self.assertEqual({line["algo"] for line in found}, {"ring"})

    def test_html_has_a_line_for_each_algorithm(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "plot.html"
            found = lines("allreduce", "-n", "2", "-b", "1K", "-e", "64K", "-f", "8", "--algo", "all", "--html", page)
            root = xml.etree.ElementTree.fromstring(page.read_text().removeprefix("<!DOCTYPE html>"))
            shown = [text.text for text in root.iterfind(".//{*}g[@class='series']/{*}text")]
            self.assertEqual(sorted(shown), sorted({line["algo"] for line in found}))
            self.assertEqual(len(root.findall(".//{*}polyline")), len(shown))
            looks = {(g.get("color"), g.get("stroke-dasharray")) for g in root.iterfind(".//{*}g[@class='series']")}
            self.assertEqual(len(looks), len(shown))  # no two alike
            self.assertEqual(len(root.findall(".//{*}circle")), sum(line["in_place"] for line in found))
            self.assertEqual(root.find(".//title").text, "allreduce of float32, sum, 2 ranks, shm")
            self.assertNotIn("http", page.read_text().replace("http://www.w3.org/2000/svg", ""))  # needs nothing else
            lines("barrier", "-n", "2", "--html", page)
            self.assertIn("No result has a bus bandwidth", page.read_text())
        done = bench("allreduce", "-n", "2", "-b", "8", "-e", "8", "--html", "/nowhere/plot.html", *FEW)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--html /nowhere/plot.html cannot be written: No such file", done.stderr)

    def test_compare_says_what_is_not_installed_and_goes_on(self):
        done = bench("allreduce", "-n", "2", "-b", "8", "-e", "8", "--compare", "mpi,gloo", "--json", *FEW, PATH="/nowhere", VIRTUAL_ENV="")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([json.loads(line)["engine"] for line in done.stdout.splitlines()], ["native", "native"])
        self.assertEqual(len(done.stderr.splitlines()), 2, done.stderr)
        self.assertIn("no MPI beside it: install Open MPI (openmpi-bin, libopenmpi-dev) or MPICH", done.stderr)
        self.assertIn("no gloo beside it: `pip install torch`", done.stderr)

    def test_compare_takes_turns_with_programs_beside_it(self):
        """The MPIs are scripts here: one whose times are known, one that cannot start."""
        scripts = {"mpirun.mpich": 'if [ "$1" = --version ]; then echo "HYDRA Version: 9.8.7"; exit; fi\n'
                                   'while [ "$1" != allreduce ]; do shift; done\nshift\n'
                                   'for size; do echo "$size out 2e3 1e3 3e3"; echo "$size in 4e3 3e3 5e3"; done\n',
                   "mpicc.mpich": 'for last; do :; done\n: >"$last"\n',
                   "mpirun.openmpi": '[ "$1" = --version ] && echo "Open MPI 7.6" && exit\necho "no slots" >&2\nexit 3\n',
                   "mpicc.openmpi": 'for last; do :; done\n: >"$last"\n'}
        with tempfile.TemporaryDirectory() as folder:
            for name, text in scripts.items():
                (Path(folder) / name).write_text("#!/bin/sh\n" + text)
                (Path(folder) / name).chmod(0o755)
            page = Path(folder) / "plot.html"
            arguments = ["allreduce", "-n", "2", "-b", "8", "-e", "1K", "-f", "128", "--compare", "mpi", *FEW]
            done = bench(*arguments, "--json", "--html", page, PATH=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr.splitlines(), ["tandem bench: openmpi 7.6 is left out: exit code 3: no slots"])
            found = [json.loads(line, parse_constant=no_constant) for line in done.stdout.splitlines()]
            self.assertEqual([(line["engine"], line["bytes"], line["in_place"]) for line in found],
                             [(engine, size, place) for engine in ("native", "mpich") for size in (8, 1024) for place in (False, True)])
            for line in found:
                self.assertEqual(list(line), FIELDS)
                if line["engine"] == "mpich":
                    self.assertEqual([line[f] for f in ("transport", "algo", "wrong", "memory")], [None, None, None, "malloc"])
                    self.assertEqual(line["time_us"], 4e3 if line["in_place"] else 2e3)
                else:
                    self.assertEqual(line["wrong"], 0)
            root = xml.etree.ElementTree.fromstring(page.read_text().removeprefix("<!DOCTYPE html>"))
            self.assertEqual([text.text for text in root.iterfind(".//{*}g[@class='series']/{*}text")], ["tandem", "mpich"])
            table = bench(*arguments, PATH=folder).stdout.splitlines()
            rows = [line.split() for line in table if not line.startswith("#")]
            self.assertEqual([row[:3] for row in rows], [["8", "2", "no"], ["8", "2", "yes"], ["1024", "256", "no"], ["1024", "256", "yes"]])
            for row in rows:  # tandem, its bandwidth; openmpi and its ratio; mpich and its ratio
                self.assertEqual(row[5:7], ["N/A", "N/A"])
                self.assertAlmostEqual(float(row[8]) * float(row[3]) / float(row[7]), 1, places=1)
        self.assertEqual(list(Path("/tmp").glob("tandem-bench-*/mpich-9.8.7")), [])

    @unittest.skipUnless(shutil.which("mpicc.mpich") and shutil.which("mpirun.mpich"), "no MPICH here")
    def test_the_program_for_mpi_measures(self):
        source = Path(__file__).resolve().parents[2] / "bench/peers/collective_mpi.c"
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["mpicc.mpich", source, "-o", f"{folder}/peer"], check=True, timeout=60)
            done = subprocess.run(["mpirun.mpich", "-n", "1", f"{folder}/peer", "-i", "3", "alltoall", "64", "1024"], capture_output=True,
                                  text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual([row[:2] for row in rows], [["64", "out"], ["64", "in"], ["1024", "out"], ["1024", "in"]])
        self.assertTrue(all(0 < float(row[3]) <= float(row[2]) <= float(row[4]) for row in rows), rows)

    def test_explain_shows_steps_and_measures_nothing(self):
        done = bench("allreduce", "-n", "2", "-b", "64", "-e", "64", "--algo", "direct", "--explain")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("allreduce of 16 float32, sum, rank 0 of 2: direct; forced by TANDEM_ALGO\n     0  publish\n"), done.stdout)

    def test_what_cannot_be_is_said_once_and_exits_with_2(self):
        for arguments, text in [
                (["allreduce", "--algo", "oak"], 'tandem bench: TANDEM_ALGO: "oak" is no algorithm; there are direct,'),
                (["allreduce", "-n", "3", "--algo", "ring", "--transport", "shm"], "algorithm ring adds in another order"),
                (["allreduces"], "there are allreduce reduce_scatter all_gather broadcast reduce gather scatter alltoall sendrecv barrier"),
                (["allreduce", "--root", "1"], "there is no root in allreduce"),
                (["reduce", "--root", "2", "-n", "2"], "--root 2, but there are ranks 0 to 1"),
                (["parameter_server", "--algo", "ring"], "there is only one way of parameter_server"),
                (["allreduce", "--compare", "mpi,nccl"], "--compare: there are mpi and gloo, not mpi,nccl"),
                (["allreduce", "--compare", "mpi", "--algo", "all"], "--compare measures one algorithm a size"),
                (["parameter_server", "--engine", "mpi"], "only engine native has parameter_server"),
                (["sendrecv", "--explain"], "there are no steps in sendrecv"),
                ([], "no operation"),
                (["allreduce", "-d", "float31"], "not float31"),
                (["allreduce", "-b", "2M", "-e", "1M"], "no size to measure"),
                (["allreduce", "--csv", "--json"], "choose one"),
                (["allreduce", "--engine", "mpi"], "engine mpi needs mpirun or srun"),
                (["allreduce", "--engine", "mpi", "--algo", "ring"], "not those of engine mpi"),
                (["allreduce", "--engines", "mpi"], "unknown option --engines"),
                (["allreduce", "-n", "-1"], "-n -1")]:
            done = bench(*arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            self.assertEqual(done.stderr.count(text), 1, done.stderr)
            self.assertEqual([line for line in done.stdout.splitlines() if not line.startswith("#")], [])

    def test_it_joins_the_ranks_of_tandem_run(self):
        arguments = [TANDEM, "run", "-n", "2", "-q", "--", TANDEM, "bench", "barrier", "--json", *FEW]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [json.loads(line.removeprefix("[0] ")) for line in done.stdout.splitlines()]
        self.assertEqual([line["ranks"] for line in found], [2])
        wrong = subprocess.run(arguments + ["-n", "3"], capture_output=True, text=True, timeout=60)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("-n 3, but this job has 2 ranks", wrong.stderr)


unittest.main(verbosity=0)
