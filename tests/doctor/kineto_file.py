"""Writes a rank of a simulated job as PyTorch's profiler does: Chrome's trace events as JSON.

style new: as PyTorch 2.13 (nanoseconds as decimals, baseTimeNanoseconds, collective metadata); old: whole microseconds since
1970, no metadata of collectives, as PyTorch 1.13.
"""
import gzip
import json

from job import GPUS, US
from rank import HOST_STREAM

BASE_NS = 1767189312000000000  # a multiple of 7889238 s, as Kineto's is
RUNTIME_IDS = {"cudaLaunchKernel": 211, "cudaLaunchKernelExC": 430, "cudaMemcpyAsync": 41, "cudaStreamSynchronize": 131, "cudaEventRecord": 135, "cudaStreamWaitEvent": 147}


class File:
    def __init__(self, rank, style="new", stacks=False, memory=False, skew_ns=0):
        self.rank, self.job, self.new, self.stacks, self.memory, self.skew_ns = rank, rank.job, style == "new", stacks, memory, skew_ns
        self.device = rank.number % 8
        self.process = rank.main
        self.rows, self.ids, self.correlation, self.sequence = [], 0, 3, 100
        self.external = {}  # span -> id
        self.allocated = 2 << 30  # bytes of the device

    # ---- numbers as the writer has them ----

    def time(self, ns):
        ns += self.skew_ns
        return f"{ns // US}.{ns % US:03d}" if self.new else str((ns + BASE_NS) // US)

    def length(self, start, end):
        ns = end - start
        return f"{ns // US}.{ns % US:03d}" if self.new else str(ns // US)

    def row(self, cat, name, process, thread, start, end, args):
        self.rows.append('  {\n    "ph": "X",\n    "cat": "%s",\n    "name": %s,\n    "pid": %s,\n    "tid": %s,\n    "ts": %s,\n    "dur": %s,\n    "args": {\n      %s\n    }\n  }'
                         % (cat, json.dumps(name), process, thread, self.time(start), self.length(start, end), args))

    def flow(self, end, number, process, thread, at):
        self.rows.append('  {\n    "ph": "%s",\n    "id": %d,\n    "pid": %s,\n    "tid": %s,\n    "ts": %s,\n    "cat": "ac2g",\n    "name": "ac2g"%s\n  }'
                         % (end, number, process, thread, self.time(at), ',\n    "bp": "e"' if end == "f" else ""))

    # ---- rows ----

    def span(self, span):
        args = span.args
        if span.cat == "cuda_runtime":
            if span not in self.calls:  # launches nothing
                self.correlation += 1
                self.row(span.cat, span.name, self.process, span.thread, span.start, span.end, f'"cbid": {RUNTIME_IDS[span.name]}, "correlation": {self.correlation}')
            return
        self.ids += 1
        self.external[span] = self.ids
        text = f'"External id": {self.ids}, "Record function id": 0'
        if args.get("seq"):
            self.sequence += 1
            text += f', "Sequence number": {self.sequence}, "Fwd thread id": {args["fwd"]}'
        if args.get("dims"):
            inputs = _inputs(args["dims"])
            text += f', "Concrete Inputs": [{", ".join(inputs * [chr(34) * 2])}], "Input type": [{", ".join(inputs * [chr(34) + "float" + chr(34)])}], "Input Dims": {args["dims"]}'
        if args.get("meta") and self.new:
            text += f', "Rank": {self.rank.number}, ' + _meta(args["meta"])
        self.row(span.cat, span.name, self.process, span.thread, span.start, span.end, text + f', "Ev Idx": {self.ids}')
        if self.stacks and span.cat == "cpu_op" and (args.get("stack") or args.get("seq")):
            self.frames(span)
        if self.memory and span.cat == "cpu_op" and args.get("dims") and self.ids % 6 == 0:
            self.memory_row(span)

    def frames(self, span):
        line = span.args.get("stack") or "train.py(41): forward"
        self.ids += 2
        self.row("python_function", line, self.process, span.thread, span.start - 700, span.end + 400, f'"Python parent id": null, "Python id": {self.ids}, "Ev Idx": {self.ids}')
        self.row("python_function", "<built-in function " + span.name.split("::")[-1] + ">", self.process, span.thread, span.start - 300, span.end + 200,
                 f'"Python parent id": {self.ids}, "Python id": {self.ids + 1}, "Ev Idx": {self.ids + 1}')

    def memory_row(self, span):
        nbytes = (1 << 20) * (1 + self.ids % 5) * (1 if span.thread == self.rank.main else -1)
        self.allocated = max(1 << 30, self.allocated + nbytes)
        self.rows.append('  {\n    "ph": "i",\n    "cat": "cpu_instant_event",\n    "s": "t",\n    "name": "[memory]",\n    "pid": %d,\n    "tid": %d,\n    "ts": %s,\n    "args": {\n      "Total Reserved": %d, "Total Allocated": %d, "Bytes": %d, "Addr": %d, "Device Id": %d, "Device Type": %d, "Ev Idx": %d\n    }\n  }'
                         % (self.process, span.thread, self.time(span.start + 300), 12 << 30, self.allocated, nbytes, 139926520725504 + 512 * self.ids, self.device, 1 if self.job.gpu else 0, self.ids))

    def activity(self, work):
        """A kernel or copy with the call that launched it; gloo's work on its thread."""
        if work.stream == HOST_STREAM:
            self.ids += 1
            thread = self.rank.main + 8 + self.ids % 2
            self.row("user_annotation", work.name, self.process, thread, work.start, work.end, f'"External id": {self.ids}, "Record function id": 0, "Concrete Inputs": [""], "Input type": ["float"], "Input Dims": {work.args["dims"]}, "Ev Idx": {self.ids}')
            return
        self.correlation += 1
        number, external = self.correlation, self.external.get(work.parent, 0)
        text = f'"External id": {external}, "device": {self.device}, "context": 1, "stream": {work.stream}, "correlation": {number}'
        if work.cat == "kernel":
            text = '"queued": 0, ' + text + ', "registers per thread": 64, "shared memory": 16384, "blocks per SM": 9.481482, "warps per SM": 75.851852, "grid": [1024, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 38'
        else:
            text += f', "bytes": {work.args["bytes"]}, "memory bandwidth (GB/s)": {work.args["bytes"] / max(1, work.end - work.start):.9f}'
        if work.args.get("meta") and self.new:
            text += ", " + _meta(work.args["meta"])
        call = work.call
        self.row(work.cat, work.name, self.device, work.stream, work.start, work.end, text)
        self.flow("f", number, self.device, work.stream, work.start)
        self.row("cuda_runtime", call.name, self.process, call.thread, call.start, call.end, f'"External id": {external}, "cbid": {RUNTIME_IDS[call.name]}, "correlation": {number}')
        self.flow("s", number, self.process, call.thread, call.start)

    def named(self, kind, process, thread, key, value):
        self.rows.append('  {\n    "ph": "M",\n    "name": "%s",\n    "ts": %s,\n    "pid": %s,\n    "tid": %s,\n    "args": {\n      "%s": %s\n    }\n  }'
                         % (kind, self.time(self.rank.steps[0].start), process, thread, key, json.dumps(value)))

    # ---- the file ----

    def head(self):
        job, machine = self.job, self.rank.machine
        gpu = GPUS.get(job.gpu)
        devices = "" if not gpu else ", ".join(
            '{"id": %d, "name": "%s", "totalGlobalMem": %d, "computeMajor": %d, "computeMinor": %d, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": %d}'
            % (i, gpu["name"], gpu["memory"], gpu["major"], gpu["minor"], gpu["sms"]) for i in range(min(8, job.ranks)))
        backend = "nccl" if job.gpu else "gloo"
        mine = [g for g in [machine.world] + machine.pairs if self.rank.number in g.ranks]
        groups = ", ".join('{"pg_name": "%s", "pg_desc": "%s", "backend_config": "%s", "pg_size": %d, "ranks": %s}'
                           % (g.name, g.label, "cuda:nccl" if job.gpu else "cpu:gloo", len(g.ranks), g.ranks) for g in mine)
        more = f', "pg_count": {len(mine)}, "pg_config": [{groups}]' if self.new else ""
        info = '' if job.ranks == 1 else '  "distributedInfo": {"backend": "%s", "rank": %d, "world_size": %d%s},\n' % (backend, self.rank.number, job.ranks, more)
        base = f'  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {BASE_NS},\n' if self.new else ""
        cuda = '  "cupti_version": 28,\n  "cuda_runtime_version": 12080,\n' if job.gpu else ""
        flags = "".join(f'  "{flag}": 1,\n' for flag, on in (("record_shapes", True), ("with_stack", self.stacks), ("profile_memory", self.memory)) if on)
        return '{\n  "schemaVersion": 1,\n  "deviceProperties": [%s],\n%s%s%s%s  "traceEvents": [\n' % (devices, cuda, flags, info, base)

    def text(self):
        rank = self.rank
        self.calls = {work.call for work in rank.activities}
        self.named("process_name", self.process, 0, "name", "python3")
        self.named("process_labels", self.process, 0, "labels", "CPU")
        self.named("thread_name", self.process, rank.main, "name", f"thread {rank.main} (python3)")
        if self.job.gpu:
            self.named("thread_name", self.process, rank.autograd, "name", f"thread {rank.autograd} (pt_autograd_0)")
            self.named("process_name", self.device, 0, "name", "python3")
            self.named("process_labels", self.device, 0, "labels", f"GPU {self.device}")
            for number in rank.streams:
                self.named("thread_name", self.device, number, "name", f"stream {number} ")
        for span in rank.spans:
            self.span(span)
        for work in rank.activities:
            self.activity(work)
        end = rank.steps[-1].end
        self.rows.append('  {\n    "ph": "X",\n    "cat": "Trace",\n    "ts": %s,\n    "dur": %s,\n    "pid": "Spans",\n    "tid": "PyTorch Profiler",\n    "name": "PyTorch Profiler (0)",\n    "args": {\n      "Op count": 0\n    }\n  }'
                         % (self.time(rank.steps[0].start), self.length(rank.steps[0].start, end)))
        self.rows.append('  {\n    "ph": "i",\n    "name": "Record Window End",\n    "s": "g",\n    "pid": "",\n    "tid": "",\n    "ts": %s\n  }' % self.time(end))
        return self.head() + ",\n".join(self.rows) + '\n  ],\n  "traceName": "rank%d.pt.trace.json"\n}\n' % rank.number


def _inputs(dims):
    """How many inputs a text like [[8, 3], [], []] lists."""
    depth = count = 0
    for c in dims:
        if c == "[":
            depth += 1
            count += depth == 2
        elif c == "]":
            depth -= 1
    return count


def _meta(meta):
    return ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in meta.items())


def write(rank, path, **how):
    text = File(rank, **how).text().encode()
    with open(path, "wb") as file:
        file.write(gzip.compress(text, 4, mtime=0) if str(path).endswith(".gz") else text)
    return len(text)
