#!/usr/bin/env python3
"""What PyTorch's profiler does in a process that was started with KINETO_USE_DAEMON, without PyTorch: polls, and writes what it is
asked for. Steps of the optimizer pass by the clock, the same in all processes.

kineto_client.py [--step-ms N] [--seconds N] [--poll-ms N] [--delay N] [--mute] [--no-steps] [--worker] [--write-ms N] [--die]
kineto_client.py --agent RANKS ...     starts that many, with RANK and LOCAL_WORLD_SIZE, and polls itself, as torchrun does

--worker   the rank starts a child that polls too, as a spawned loader's worker does
--die      dies of SIGSEGV if it ends while it traces, as PyTorch 2.13 does
"""
import argparse
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid

parser = argparse.ArgumentParser()
parser.add_argument("--step-ms", type=float, default=20)
parser.add_argument("--seconds", type=float, default=30)
parser.add_argument("--poll-ms", type=float, default=100)
parser.add_argument("--delay", type=float, default=0, help="of rank 1's first poll")
parser.add_argument("--idle", type=float, default=0, help="seconds without work at first")
parser.add_argument("--mute", action="store_true", help="rank 1 never polls")
parser.add_argument("--no-steps", action="store_true")
parser.add_argument("--worker", action="store_true")
parser.add_argument("--write-ms", type=float, default=50)
parser.add_argument("--die", action="store_true")
parser.add_argument("--agent", type=int, default=0)
parser.add_argument("--code", type=int, default=0)
arguments = parser.parse_args()
rank = int(os.environ.get("RANK", -1))
begin = float(os.environ.setdefault("FAKE_BEGIN", str(time.time())))
folder = os.environ.get("KINETO_IPC_SOCKET_DIR", "")


def ancestors():
    pid, pids = os.getpid(), []
    while pid > 1 and len(pids) < 12:
        pids.append(pid)
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    return pids


def address(name):
    return f"{folder}/{name}" if folder else b"\0" + name.encode() + b"\0"


def counter():
    """Of the optimizer's steps, from -1."""
    if arguments.no_steps or arguments.agent:
        return -1
    return max(-1, int((time.time() - begin - arguments.idle) / (arguments.step_ms / 1000)) - 1)


def event(category, name, start, seconds):
    return (f'  {{\n    "ph": "X",\n    "cat": "{category}",\n    "name": "{name}",\n    "pid": {os.getpid()},\n    "tid": {os.getpid()},\n'
            f'    "ts": {start * 1e6:.3f},\n    "dur": {seconds * 1e6:.3f},\n    "args": {{\n      "External id": 1\n    }}\n  }}')


def trace(path, start, end, steps):
    """Work in [start, end), and the optimizer's steps that end in it."""
    base = 1700000000
    events = []
    at, length = start - base, max(1e-4, (end - start) / max(steps, 1))
    if not arguments.agent and start - begin > arguments.idle:
        for _ in range(max(steps, 1)):
            events.append(event("cpu_op", "aten::addmm", at, length / 2))
            if steps:
                events.append(event("user_annotation", "Optimizer.step#SGD.step", at + length * 0.8, length * 0.2))
            at += length
    text = '{\n  "schemaVersion": 1,\n  "baseTimeNanoseconds": %d,\n  "traceEvents": [\n%s\n  ]\n}\n' % (base * 10**9, ",\n".join(events))
    with open(path + ".tmp", "w") as file:
        file.write(text)
    os.rename(path + ".tmp", path)


class Request:
    def __init__(self, text):
        keys = dict(line.split("=", 1) for line in text.splitlines() if line)
        now = time.time()
        self.path = keys["ACTIVITIES_LOG_FILE"].replace(".pt.trace.json", f"_{os.getpid()}.pt.trace.json")
        iteration = int(keys.get("PROFILE_START_ITERATION", -1))
        if iteration >= 0 and counter() >= 0:
            multiple = int(keys["PROFILE_START_ITERATION_ROUNDUP"])
            self.steps = int(keys["ACTIVITIES_ITERATIONS"])
            first = -(-(counter() + 1) // multiple) * multiple + 1  # a step of warm-up before
            self.begin = begin + arguments.idle + first * arguments.step_ms / 1000
            self.end = self.begin + self.steps * arguments.step_ms / 1000
        else:
            self.begin = int(keys.get("PROFILE_START_TIME", 0)) / 1000 or now + 0.2
            self.end = self.begin + int(keys["ACTIVITIES_DURATION_MSECS"]) / 1000
            self.steps = 0
            if not arguments.no_steps:
                self.steps = int(max(0, self.end - begin - arguments.idle) * 1000 / arguments.step_ms) - int(
                    max(0, self.begin - begin - arguments.idle) * 1000 / arguments.step_ms)


def serve():
    client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    client.bind(address(f"dynoconfigclient{uuid.uuid4()}"))
    client.settimeout(0.09)
    pids = ancestors()
    request, now, next_poll = None, time.time(), 0
    while now - begin < arguments.seconds:
        tracing = request is not None and now >= request.begin
        if tracing and now >= request.end + arguments.write_ms / 1000:
            trace(request.path, request.begin, request.end, request.steps)
            request, tracing = None, False
        if now >= next_poll:
            next_poll = now + arguments.poll_ms / 1000
            payload = struct.pack(f"<iiq{len(pids)}i", 1 if tracing else 3, len(pids), 0, *pids)
            try:
                client.sendto(struct.pack("<Q32s", len(payload), b"req") + payload, address("dynolog"))
                answer = client.recv(1 << 16)
                if len(answer) > 40 and request is None:
                    request = Request(answer[40:].decode())
            except OSError:
                pass
        time.sleep(0.005)
        now = time.time()
    if request is not None and time.time() >= request.begin and arguments.die:
        os.kill(os.getpid(), signal.SIGSEGV)


if arguments.agent:
    environment = dict(os.environ, LOCAL_WORLD_SIZE=str(arguments.agent), WORLD_SIZE=str(arguments.agent), MASTER_ADDR="localhost", MASTER_PORT="1",
                       TORCHELASTIC_RUN_ID=os.environ.get("FAKE_JOB", "none"))
    at = sys.argv.index("--agent")
    rest = sys.argv[:at] + sys.argv[at + 2:]
    ranks = [subprocess.Popen([sys.executable, *rest], env=dict(environment, RANK=str(r), LOCAL_RANK=str(r)), start_new_session=True)
             for r in range(arguments.agent)]
    signal.signal(signal.SIGTERM, lambda *_: [rank.terminate() for rank in ranks])
    signal.signal(signal.SIGINT, lambda *_: [rank.send_signal(signal.SIGINT) for rank in ranks])
    print(json.dumps({"agent": os.getpid(), "ranks": [rank.pid for rank in ranks]}), flush=True)
    threading.Thread(target=serve, daemon=True).start()
    codes = [rank.wait() for rank in ranks]
    sys.exit(next((code if code > 0 else 128 - code for code in codes if code != 0), arguments.code))
if rank == 1 and arguments.delay:
    time.sleep(arguments.delay)
if rank == 1 and arguments.mute:
    time.sleep(arguments.seconds)
    sys.exit(0)
if arguments.worker and rank >= 0 and "FAKE_WORKER" not in os.environ:
    subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, FAKE_WORKER="1"))
serve()
