#!/usr/bin/env python3
"""allreduce between hosts: network namespaces joined by a switch, every link held to a rate by `tc ... tbf`. Needs root.

namespaces.py [--hosts 2] [--ranks 1] [--rate 1gbit] [--sizes 26214400] [--algo ring,...] [--streams 1,...]
              [--slow HOST=RATE | --slow-pair A-B=RATE | --slow-trunk RATE]

    host 0  eth0 --- port --.                     tbf on both ends of every cable: what a host sends and what it
    host 1  eth0 --- port ---- switch             receives each have the rate
    host 2  eth0 --- port --'

--slow       one host's cable has another rate: whatever goes to or from it is slow.
--slow-pair  A and B talk over a cable of their own; all other ways are as above. A ring, a double tree or halving-doubling over
             enough hosts need not use it: 0 copies.
--slow-trunk odd hosts hang on a second switch, and all that goes between the two goes over one cable. A ring of 2 hosts a side
             crosses it once each way, 2 (n-1)/n copies, halving-doubling with the sides in order 1, the double tree of 4 places 2.
With one of the last two every algorithm is measured under TANDEM_SUM_ORDER=fast in the order that the group finds and in the order of
ranks (TANDEM_TUNE_FILE=off measures no links), and `slow copies` are what one call sends over the slow cable each way.

A namespace is held by a process that dies with this one, so nothing is left behind, whatever happens.

What counts as line rate: the bytes of whole Ethernet frames, as tbf counts them: of 1,514 bytes 1,448 are payload, so 100 % is
payload at 95.6 % of the rate. `copies` is what the busiest host sends in one call (its interface's counter, which counts the headers
of a large segment once), in sizes of the buffer; `line` is the share of the rate that it and its headers fill.
Target: ring, 2 and 4 hosts at 1 Gbit/s: 95 % of the line rate.
"""
import argparse
import contextlib
import ctypes
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import harness as h

FRAME, PAYLOAD = 1514, 1448  # Ethernet 14, IP 20, TCP 20 with 12 bytes of timestamps
PORT = 29500


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def bits(rate):
    for suffix, factor in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)):
        if rate.endswith(suffix):
            return float(rate[:-len(suffix)]) * factor
    raise ValueError(f"rate {rate}: write 1gbit, 100mbit or 500kbit")


class Network:
    """`hosts` namespaces at 10.78.0.1, .2, ... on one switch, or two. A context manager."""

    def __init__(self, hosts, rate, slow=None, pair=None, trunk=None):
        """slow: {host: rate}; pair: (a, b, rate); trunk: rate."""
        self.hosts, self.rates = hosts, [(slow or {}).get(i, rate) for i in range(hosts)]
        self.pair, self.trunk = pair, trunk
        self.anchors = []

    def _anchor(self):
        process = subprocess.Popen(["unshare", "-n", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
                                   stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.anchors.append(process)
        if process.stdout.readline() != "up\n":
            raise RuntimeError("a network namespace needs root, unshare and ip")
        return process.pid

    def inside(self, place, *command):
        """A command line that runs in the namespace of host `place` (-1: the switch)."""
        return ["nsenter", "-t", str(self.anchors[place + 1].pid), "-n", *map(str, command)]

    def _do(self, place, line):
        subprocess.run(self.inside(place, *line.split()), check=True)

    def _limit(self, place, device, rate):
        self._do(place, f"tc qdisc add dev {device} root tbf rate {rate} burst 128kb latency 20ms")

    def _join(self, a, b, rate):
        """A cable between two hosts alone."""
        pids = [self.anchors[host + 1].pid for host in (a, b)]
        subprocess.run(f"ip link add pair0 netns {pids[0]} type veth peer name pair0 netns {pids[1]}".split(), check=True)
        for host, other in ((a, b), (b, a)):
            self._do(host, "ip link set pair0 up")
            self._limit(host, "pair0", rate)
            self._do(host, f"ip route add {self.address(other)}/32 dev pair0 src {self.address(host)}")

    def __enter__(self):
        try:
            switch = self._anchor()
            for bridge in range(2 if self.trunk else 1):
                self._do(-1, f"ip link add br{bridge} type bridge")
                self._do(-1, f"ip link set br{bridge} up")
            if self.trunk:
                self._do(-1, "ip link add trunk0 type veth peer name trunk1")
                for end in range(2):
                    self._do(-1, f"ip link set trunk{end} master br{end} up")
                    self._limit(-1, f"trunk{end}", self.trunk)
            for i, rate in enumerate(self.rates):
                host = self._anchor()
                subprocess.run(f"ip link add eth0 netns {host} type veth peer name port{i} netns {switch}".split(), check=True)
                self._do(-1, f"ip link set port{i} master br{i % 2 if self.trunk else 0} up")
                self._do(i, f"ip addr add {self.address(i)}/24 dev eth0")
                self._do(i, "ip link set eth0 up")
                self._limit(i, "eth0", rate)
                self._limit(-1, f"port{i}", rate)
            if self.pair:
                self._join(*self.pair)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.anchors:
            process.kill()
            process.wait()

    @staticmethod
    def address(host):
        return f"10.78.0.{host + 1}"

    def sent(self, host, device="eth0"):
        """Bytes that left a host so far."""
        text = subprocess.run(self.inside(host, "cat", "/proc/net/dev"), check=True, capture_output=True, text=True).stdout
        return int(next(line for line in text.splitlines() if line.strip().startswith(f"{device}:")).split()[9])

    def counters(self):
        """(bytes that left each host, bytes over the slow cable each way)."""
        ends = [(-1, "trunk0"), (-1, "trunk1")] if self.trunk else [(host, "pair0") for host in self.pair[:2]] if self.pair else []
        slow = [self.sent(*end) for end in ends]
        hosts = [self.sent(i) + (self.sent(i, "pair0") if self.pair and i in self.pair[:2] else 0) for i in range(self.hosts)]
        return hosts, slow

    def run(self, ranks_a_host, command, limit_s=120, **variables):
        """One job with its ranks on all hosts -> stdout of rank 0."""
        size, jobs = self.hosts * ranks_a_host, []
        common = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": ranks_a_host, "MASTER_ADDR": self.address(0), "MASTER_PORT": PORT,
                  "TANDEM_JOB_SECRET": secrets.token_hex(16), **variables}
        try:
            for rank in range(size):
                local = {"RANK": rank, "LOCAL_RANK": rank % ranks_a_host}
                jobs.append(subprocess.Popen(
                    self.inside(rank // ranks_a_host, *command), text=True, preexec_fn=die_with_parent,
                    env=os.environ | {name: str(value) for name, value in (common | local).items()},
                    stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stderr=subprocess.PIPE))
            deadline = time.monotonic() + limit_s
            texts = [job.communicate(timeout=max(0.1, deadline - time.monotonic())) for job in jobs]
        finally:
            for job in jobs:
                with contextlib.suppress(ProcessLookupError):
                    job.kill()
                job.wait()
        for rank, job in enumerate(jobs):
            if job.returncode != 0:
                raise RuntimeError(f"rank {rank} ended with {job.returncode}: {texts[rank][1][-1000:]}")
        return texts[0][0]


def measure(network, a, size, algorithm, streams, ordered, folder):
    """-> the time of one allreduce, the bytes that the busiest host sends for it, and those over the slow cable, the busier way."""
    variables = {"TANDEM_TCP_STREAMS": streams, "TANDEM_TUNE_FILE": f"{folder}/links" if ordered else "off"}
    if algorithm != "auto":
        variables |= {"TANDEM_ALGO": f"allreduce={algorithm}"}
    if algorithm != "auto" or network.pair or network.trunk:
        variables |= {"TANDEM_SUM_ORDER": "fast"}

    def bench(calls):
        command = [h.TANDEM, "bench", "allreduce", "-b", size, "-e", size, "-w", 1, "-i", calls, "--json", "-q"]
        before = network.counters()
        lines = [json.loads(line) for line in network.run(a.ranks, command, **variables).splitlines()]
        assert all(line["wrong"] == 0 for line in lines), lines
        return lines, [[now - then for now, then in zip(*pair)] for pair in zip(network.counters(), before)]

    _, few = bench(1)  # the bench also warms up and checks: what more samples send more is theirs
    lines, many = bench(1 + a.calls)
    in_place = next(line for line in lines if line["in_place"])
    # by the busiest of each run: the order of ranks need not be the same in both
    sent, slow = ((max(m, default=0) - max(f, default=0)) / (a.calls * len(lines)) for m, f in zip(many, few))
    return {"time_us": in_place["time_us"], "algo": in_place["algo"], "sent": sent, "slow": slow}


def parse_pair(text):
    hosts, rate = text.split("=")
    bits(rate)
    return *map(int, hosts.split("-")), rate


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hosts", type=int, default=2)
    p.add_argument("--ranks", type=int, default=1, help="on each host")
    p.add_argument("--rate", default="1gbit")
    p.add_argument("--slow", action="append", default=[], metavar="HOST=RATE", help="another rate for one host's cable")
    p.add_argument("--slow-pair", type=parse_pair, metavar="A-B=RATE", help="two hosts that have a cable of their own")
    p.add_argument("--slow-trunk", metavar="RATE", help="even and odd hosts have a switch each, joined by a cable")
    p.add_argument("--sizes", default="26214400")
    p.add_argument("--algo", default="ring", help="names, or auto")
    p.add_argument("--streams", default="1")
    p.add_argument("--calls", type=int, default=5)
    p.add_argument("--runs", type=int, default=1)
    a = p.parse_args()
    if (a.slow != []) + (a.slow_pair is not None) + (a.slow_trunk is not None) > 1:
        p.error("--slow, --slow-pair and --slow-trunk exclude each other")
    if a.slow_pair and (a.slow_pair[0] == a.slow_pair[1] or not all(0 <= host < a.hosts for host in a.slow_pair[:2])):
        p.error(f"--slow-pair needs two of the hosts 0 to {a.hosts - 1}")
    slow = {int(host): rate for host, rate in (item.split("=") for item in a.slow)}
    odd = a.slow_pair is not None or a.slow_trunk is not None
    rate, rows = bits(a.rate), []
    with Network(a.hosts, a.rate, slow, a.slow_pair, a.slow_trunk) as network, tempfile.TemporaryDirectory() as folder:
        for size in map(int, a.sizes.split(",")):
            for algorithm in a.algo.split(","):
                for streams in a.streams.split(","):
                    sides = {ordered: [] for ordered in ([True, False] if odd else [True])}
                    for _ in range(a.runs):
                        for ordered, runs in sides.items():
                            runs.append(measure(network, a, size, algorithm, streams, ordered, folder))
                    for ordered, runs in sides.items():
                        us, sent, over = (statistics.median(run[key] for run in runs) for key in ("time_us", "sent", "slow"))
                        rows.append({"bytes": size, "algo": runs[0]["algo"], "order": "found" if ordered else "of ranks",
                                     "streams": int(streams), "time_us": us, "runs_us": [run["time_us"] for run in runs],
                                     "line": sent * FRAME / PAYLOAD * 8 / (us * 1e-6) / rate, "copies": sent / size,
                                     "slow_copies": over / size})
    where = "".join(f", host {i} at {r}" for i, r in slow.items())
    where += f", between {a.slow_pair[0]} and {a.slow_pair[1]} {a.slow_pair[2]}" if a.slow_pair else ""
    where += f", between even and odd hosts {a.slow_trunk}" if a.slow_trunk else ""
    h.show(f"allreduce, {a.hosts} hosts x {a.ranks} ranks at {a.rate}{where}",
           ["bytes", "algorithm", *(["order"] if odd else []), "streams", "time us", "line", "copies", *(["slow copies"] if odd else [])],
           [[row["bytes"], row["algo"], *([row["order"]] if odd else []), row["streams"], row["time_us"], f"{100 * row['line']:.1f} %",
             row["copies"], *([row["slow_copies"]] if odd else [])] for row in rows])
    h.report("namespaces", {"hosts": a.hosts, "ranks": a.ranks, "rate": a.rate, "slow": slow, "slow_pair": a.slow_pair,
                            "slow_trunk": a.slow_trunk, "rows": rows})


if __name__ == "__main__":
    main()
