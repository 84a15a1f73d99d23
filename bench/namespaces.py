#!/usr/bin/env python3
"""allreduce between hosts: network namespaces joined by a switch, every link held to a rate by `tc ... tbf`. Needs root.

namespaces.py [--hosts 2] [--ranks 1] [--rate 1gbit] [--slow HOST=RATE] [--sizes 26214400] [--algo ring,...] [--streams 1,...]

    host 0  eth0 --- port --.                     tbf on both ends of every cable: what a host sends and what it
    host 1  eth0 --- port ---- bridge             receives each have the rate
    host 2  eth0 --- port --'

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
    """`hosts` namespaces at 10.78.0.1, .2, ... on one switch. A context manager."""

    def __init__(self, hosts, rate, slow=None):
        self.hosts, self.rates = hosts, [(slow or {}).get(i, rate) for i in range(hosts)]
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

    def __enter__(self):
        try:
            switch = self._anchor()
            self._do(-1, "ip link add br0 type bridge")
            self._do(-1, "ip link set br0 up")
            for i, rate in enumerate(self.rates):
                host = self._anchor()
                subprocess.run(f"ip link add eth0 netns {host} type veth peer name port{i} netns {switch}".split(), check=True)
                self._do(-1, f"ip link set port{i} master br0 up")
                self._do(i, f"ip addr add {self.address(i)}/24 dev eth0")
                self._do(i, "ip link set eth0 up")
                for place, device in ((i, "eth0"), (-1, f"port{i}")):
                    self._do(place, f"tc qdisc add dev {device} root tbf rate {rate} burst 128kb latency 20ms")
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

    def sent(self, host):
        """Bytes that left the host so far."""
        text = subprocess.run(self.inside(host, "cat", "/proc/net/dev"), check=True, capture_output=True, text=True).stdout
        return int(next(line for line in text.splitlines() if line.strip().startswith("eth0:")).split()[9])

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


def measure(network, a, size, algorithm, streams):
    """-> the time of one allreduce, and the bytes that the busiest host sends for it."""
    variables = {"TANDEM_TCP_STREAMS": streams}
    if algorithm != "auto":
        variables |= {"TANDEM_ALGO": f"allreduce={algorithm}", "TANDEM_SUM_ORDER": "fast"}

    def bench(calls):
        command = [h.TANDEM, "bench", "allreduce", "-b", size, "-e", size, "-w", 1, "-i", calls, "--json", "-q"]
        before = [network.sent(i) for i in range(network.hosts)]
        lines = [json.loads(line) for line in network.run(a.ranks, command, **variables).splitlines()]
        assert all(line["wrong"] == 0 for line in lines), lines
        return lines, [network.sent(i) - before[i] for i in range(network.hosts)]

    _, few = bench(1)  # the bench also warms up and checks: what more samples send more is theirs
    lines, many = bench(1 + a.calls)
    in_place = next(line for line in lines if line["in_place"])
    sent = max(m - f for m, f in zip(many, few)) / (a.calls * len(lines))
    return {"time_us": in_place["time_us"], "algo": in_place["algo"], "sent": sent}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hosts", type=int, default=2)
    p.add_argument("--ranks", type=int, default=1, help="on each host")
    p.add_argument("--rate", default="1gbit")
    p.add_argument("--slow", action="append", default=[], metavar="HOST=RATE", help="another rate for one host's cable")
    p.add_argument("--sizes", default="26214400")
    p.add_argument("--algo", default="ring", help="names, or auto")
    p.add_argument("--streams", default="1")
    p.add_argument("--calls", type=int, default=5)
    p.add_argument("--runs", type=int, default=1)
    a = p.parse_args()
    slow = {int(host): rate for host, rate in (item.split("=") for item in a.slow)}
    rate, rows = bits(a.rate), []
    with Network(a.hosts, a.rate, slow) as network:
        for size in map(int, a.sizes.split(",")):
            for algorithm in a.algo.split(","):
                for streams in a.streams.split(","):
                    runs = [measure(network, a, size, algorithm, streams) for _ in range(a.runs)]
                    us = statistics.median(run["time_us"] for run in runs)
                    sent = statistics.median(run["sent"] for run in runs)
                    rows.append({"bytes": size, "algo": runs[0]["algo"], "streams": int(streams), "time_us": us,
                                 "line": sent * FRAME / PAYLOAD * 8 / (us * 1e-6) / rate, "copies": sent / size})
    h.show(f"allreduce, {a.hosts} hosts x {a.ranks} ranks at {a.rate}" + "".join(f", host {i} at {r}" for i, r in slow.items()),
           ["bytes", "algorithm", "streams", "time us", "line", "copies"],
           [[row["bytes"], row["algo"], row["streams"], row["time_us"], f"{100 * row['line']:.1f} %", row["copies"]] for row in rows])
    h.report("namespaces", {"hosts": a.hosts, "ranks": a.ranks, "rate": a.rate, "slow": slow, "rows": rows})


if __name__ == "__main__":
    main()
