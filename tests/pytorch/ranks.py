"""ranks.py - the ranks of a test: processes under a deadline. A rank returns values or raises; only the parent asserts.

    def body(rank, factor):                                  # of the module: it travels by name
        tensor = torch.full((3,), float(rank * factor))
        dist.all_reduce(tensor)
        return tensor.tolist()

    assert on_ranks(3, body, 2) == [[6.0] * 3] * 3

The ranks are forked from a server that has imported PyTorch and nothing else (not the backend: a process that has used it
cannot be forked and go on using it), which takes milliseconds instead of the seconds of an import.
"""
import faulthandler
import importlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path

MODULES = {"tandem": "tandem_torch"}  # backend -> the module that registers it

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when PyTorch is loaded, in the server
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["numpy", "torch", "torch.distributed", "torch.testing"])


class RankFailed(AssertionError):
    """Some rank raised, died or did not end; the text has each one's trace and output."""


def rank_main(pipe, folder, rank, size, limit_s, env, init, body, arguments):
    log = open(folder / f"log{rank}", "w", buffering=1)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    sys.stdout = sys.stderr = log
    faulthandler.enable(log)
    faulthandler.dump_traceback_later(limit_s, file=log)  # where it hung, for the parent's report
    os.environ.update(env, RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size))
    try:
        import torch.distributed as dist
        module = MODULES.get(init.get("backend"))
        if module:
            importlib.import_module(module)
        if init:
            dist.init_process_group(init_method=f"file://{folder}/store", rank=rank, world_size=size, **init)
        result = body(rank, *arguments)
        if dist.is_initialized():
            dist.destroy_process_group()
        pipe.send((True, result))
    except BaseException:
        pipe.send((False, traceback.format_exc()))
    pipe.close()


def start(folder, rank, size, *rest):
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=rank_main, args=(writer, folder, rank, size, *rest))
    process.start()
    writer.close()
    return process, reader


def collect(ranks, deadline):
    """What each rank sent: {rank: (good, value)}; a rank that died or hung is not in it."""
    found, open_pipes = {}, {reader: rank for rank, (_, reader) in enumerate(ranks)}
    while open_pipes and time.monotonic() < deadline:
        for reader in wait(list(open_pipes), deadline - time.monotonic()):
            rank = open_pipes.pop(reader)
            with suppress(EOFError):
                found[rank] = reader.recv()
    return found


def on_ranks(size, body, *arguments, backend="tandem", limit_s=60, timeout_s=30, env=None, init=True, dead=()):
    """Calls body(rank, *arguments) on `size` ranks and returns the list of what they return.

    backend    of the default process group, made before body and destroyed after it; init=False: body makes its own
    limit_s    all of it; ranks that are not over by then are killed
    timeout_s  of the process group
    dead       ranks that body kills: theirs is None
    """
    options = {"backend": backend, "timeout": timedelta(seconds=timeout_s)} if init else {}
    folder = Path(tempfile.mkdtemp(prefix="tandem-ranks-"))
    deadline = time.monotonic() + limit_s
    ranks = [start(folder, rank, size, limit_s - 0.5, dict(env or {}), options, body, arguments) for rank in range(size)]
    try:
        found = collect(ranks, deadline)
        for process, _ in ranks:
            process.join(max(0.0, min(5.0, deadline - time.monotonic())))
        ends = [process.exitcode for process, _ in ranks]
        report = [describe(folder, rank, found.get(rank), ends[rank]) for rank in range(size) if rank not in dead]
        report = [text for text in report if text]
        if report:
            raise RankFailed("\n".join(report))
        return [found[rank][1] if rank in found else None for rank in range(size)]
    finally:
        for process, reader in ranks:
            process.kill()
            process.join()
            reader.close()
        shutil.rmtree(folder, ignore_errors=True)


def describe(folder, rank, sent, end):
    """None for a rank that went well, else what it did."""
    if sent and sent[0] and end == 0:
        return None
    what = "is not over" if end is None else f"died with {end}" if not sent or sent[0] else "raised"
    log = (folder / f"log{rank}").read_text(errors="replace")[-4000:]
    return f"--- rank {rank} {what}\n{sent[1] if sent and not sent[0] else ''}{log}"
