"""One rank of a simulated job: its host's clock and its streams, and what a host can do: launch, wait, run operators, send collectives.

What may have to wait is a generator: it stops where it must wait for something not known yet.
"""
from job import GPUS, MS, US

BEGIN_NS = 4_200_000_123 * MS
QUEUE = 1024
LAUNCH_DELAY = 6 * US  # from the call to the earliest start of a kernel on a free stream
COMPUTE, COMM, PAIR = 7, 20, 24  # streams
HOST_STREAM = -1  # gloo's own thread


class Span:
    """A row of the trace that belongs to a host thread."""
    __slots__ = ("cat", "name", "thread", "start", "end", "args")

    def __init__(self, cat, name, thread, start, args):
        self.cat, self.name, self.thread, self.start, self.end, self.args = cat, name, thread, start, None, args


class Activity:
    """Work of a stream: a kernel, a copy or a rank's part of a collective."""
    __slots__ = ("cat", "name", "stream", "ns", "earliest", "after", "start", "end", "collective", "call", "parent", "args")

    def __init__(self, cat, name, stream, ns, earliest, after, collective, call, parent, args):
        self.cat, self.name, self.stream, self.ns, self.earliest, self.after = cat, name, stream, ns, earliest, after
        self.collective, self.call, self.parent, self.args = collective, call, parent, args
        self.start = self.end = None


class Stream:
    def __init__(self, number):
        self.number, self.queue, self.settled = number, [], 0


class Rank:
    def __init__(self, machine, number):
        job = machine.job
        self.machine, self.job, self.number = machine, job, number
        self.now = BEGIN_NS + number * 137 * US
        self.main, self.autograd = 4100 + number, 4190 + number if job.gpu else 4100 + number
        self.thread = self.main
        self.streams = {n: Stream(n) for n in ((COMPUTE, COMM, PAIR) if job.gpu else (HOST_STREAM,))}
        self.spans, self.activities = [], []
        self.waits = []  # of the compute stream's next kernel
        self.calls_made = {}
        self.host = job.host * self.slowness("host")
        self.speed = self.slowness("compute")
        self.drawn = 0

    def slowness(self, kind):
        slow = self.job.slow
        return slow.factor if slow and slow.rank == self.number and slow.kind == kind else 1

    # ---- the host's clock, and what it writes into the trace ----

    def noise(self, spread):
        """A factor about 1, the same sequence in each run of a step so that two runs differ by their cause alone."""
        self.drawn += 1
        x = (self.machine.seed * 7919 + self.number * 104729 + self.drawn * 2654435761) % (1 << 32)
        x ^= x >> 15
        x = x * 2246822519 % (1 << 32)
        x ^= x >> 13
        return 1 + spread * (2 * (x / (1 << 32)) - 1)

    def spend(self, ns):
        self.now += int(ns * self.host)

    def open(self, cat, name, **args):
        span = Span(cat, name, self.thread, self.now, args)
        if self.machine.recording:
            self.spans.append(span)
        return span

    def close(self, span):
        span.end = self.now

    # ---- the GPU ----

    def launch(self, cat, name, ns, stream=COMPUTE, api="cudaLaunchKernel", collective=None, after=(), parent=None, **args):
        call = self.open("cuda_runtime", api)
        queue = self.streams[stream].queue
        if len(queue) >= QUEUE:
            oldest = queue[-QUEUE]
            while oldest.start is None:
                yield
            self.now = max(self.now, oldest.start)
        waits = tuple(after)
        if stream == COMPUTE and self.waits:
            waits += tuple(self.waits)
            self.waits = []
        activity = Activity(cat, name, stream, int(ns), call.start + LAUNCH_DELAY, waits, collective, call, parent, args)
        activity.earliest = self.now - 100 + (LAUNCH_DELAY - 4 * US) if self.now - call.start > 20 * US else activity.earliest
        queue.append(activity)
        if self.machine.recording:
            self.activities.append(activity)
        self.spend(4500 * self.noise(0.15))
        self.close(call)
        return activity

    def synchronize(self, activity, api="cudaStreamSynchronize"):
        call = self.open("cuda_runtime", api)
        while activity.end is None:
            yield
        self.now = max(self.now + 2 * US, activity.end + 3 * US)
        self.close(call)

    def runtime(self, name, ns=700):
        span = self.open("cuda_runtime", name)
        self.spend(ns)
        self.close(span)

    def last(self, stream=COMPUTE):
        queue = self.streams[stream].queue
        return queue[-1:]

    # ---- operators ----

    def op(self, op, node=False, numbered=True):
        """One operator on the present thread. node: below the autograd engine's own row; numbered: it takes part in autograd."""
        outer = None
        if node:
            outer = self.open("cpu_op", "autograd::engine::evaluate_function: " + op.name, seq=True, fwd=1)
            self.spend(700)
        span = self.open("cpu_op", op.name, dims=op.dims, seq=numbered, fwd=1 if node else 0)
        self.spend(1300)
        inner = self.open("cpu_op", op.inner, dims=op.dims) if op.inner else None
        self.spend(900)
        for kernel in op.kernels:
            ns = kernel.ns * self.speed * self.noise(0.03)
            if self.job.gpu:
                yield from self.launch("kernel", kernel.name, max(1500, ns), parent=inner or span)
                self.spend(500)
            else:
                self.now += int(ns)
        if inner:
            self.spend(500)
            self.close(inner)
        self.spend(500)
        self.close(span)
        if outer:
            self.spend(400)
            self.close(outer)
        self.spend(2200 + op.host_ns)

    def copy_in(self):
        """The batch goes to the GPU: on its way while the host goes on if it lies in pinned memory, else the host waits."""
        job = self.job
        outer = self.open("cpu_op", "aten::to", dims="[[64, 3, 224, 224], [], [], [], [], [], [], []]")
        self.spend(1500)
        inner = self.open("cpu_op", "aten::copy_", dims="[[64, 3, 224, 224], [64, 3, 224, 224], []]")
        self.spend(2000)
        gbps = GPUS[job.gpu]["pinned_gbps"] if job.pinned else job.pageable_gbps
        kind = "Pinned" if job.pinned else "Pageable"
        copy = yield from self.launch("gpu_memcpy", f"Memcpy HtoD ({kind} -> Device)", 2 * US + job.input_bytes / gbps, api="cudaMemcpyAsync", parent=inner, bytes=job.input_bytes)
        if not job.pinned:
            while copy.end is None:  # the driver reads pageable memory itself: the call returns when it has
                yield
            copy.call.end = self.now = max(self.now, copy.end - 2 * US)
            yield from self.synchronize(copy)
        self.spend(1500)
        self.close(inner)
        self.spend(1000)
        self.close(outer)
        self.spend(3000)

    def read_back(self):
        """tensor.item(): the host waits until the GPU has come so far."""
        outer = self.open("cpu_op", "aten::item", dims="[[]]", stack="train.py(57): training_step")
        self.spend(1200)
        inner = self.open("cpu_op", "aten::_local_scalar_dense", dims="[[]]")
        self.spend(1500)
        copy = yield from self.launch("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 2200, api="cudaMemcpyAsync", parent=inner, bytes=4)
        yield from self.synchronize(copy)
        self.spend(800)
        self.close(inner)
        self.spend(700)
        self.close(outer)
        self.spend(3000)

    # ---- collectives ----

    def transfer_ns(self, kind, nbytes, group):
        job, n = self.job, len(group.ranks)
        if job.free_collectives or n < 2:
            return 0
        gbps = job.busbw_gbps
        if group.label == "tp":
            gbps = job.pair_gbps / (job.slow_pair_factor if group.ranks[0] // 2 == job.slow_pair else 1)
        return int(job.latency_ns + nbytes * (2 if kind == "allreduce" else 1) * (n - 1) / n / gbps)

    NAMES = {"allreduce": ("c10d::allreduce_", "nccl:all_reduce", "AllReduce_Sum_f32_RING_LL"),
             "_allgather_base": ("c10d::_allgather_base_", "nccl:_all_gather_base", "AllGather_RING_LL"),
             "_reduce_scatter_base": ("c10d::_reduce_scatter_base_", "nccl:_reduce_scatter_base", "ReduceScatter_Sum_f32_RING_LL")}

    def collective(self, kind, elements, group, after):
        """Sent from the present thread; `elements`: of float, of the whole. The activity that carries it."""
        number = self.calls_made.get(group, 0)
        self.calls_made[group] = number + 1
        call = group.call(number, self.transfer_ns(kind, 4 * elements, group))
        op, label, kernel = self.NAMES[kind]
        n = len(group.ranks)
        sent = elements // n if kind == "_allgather_base" else elements
        received = elements // n if kind == "_reduce_scatter_base" else elements
        meta = {"Collective name": kind, "In msg nelems": sent, "Out msg nelems": received, "Group size": n, "dtype": "Float", "In split size": "[]", "Out split size": "[]",
                "Process Group Name": group.name, "Process Group Description": group.label, "Process Group Ranks": str(group.ranks), "Seq": number + 1}
        outer = self.open("cpu_op", op, dims=f"[[[{sent}]], [], [], [], []]")
        if not self.job.gpu:
            work = Activity("gloo", "gloo:all_reduce", HOST_STREAM, 0, self.now + 20 * US, (), call, None, None, {"dims": f"[[{elements}]]"})
            self.streams[HOST_STREAM].queue.append(work)
            if self.machine.recording:
                self.activities.append(work)
            self.spend(26 * US)
            self.close(outer)
            return work
        self.spend(1500)
        inner = self.open("cpu_op", "record_param_comms", meta=meta, dims=f"[[{sent}], [], [], [], [], [], [], [], [], []]")
        self.spend(2500)
        self.runtime("cudaEventRecord")
        self.runtime("cudaStreamWaitEvent")
        mark = self.open("user_annotation", label, dims=f"[[{sent}]]")
        self.spend(2500)
        work = yield from self.launch("kernel", f"ncclDevKernel_{kernel}(ncclDevKernelArgsStorage<4096ul>)", 0, PAIR if group.label == "tp" else COMM,
                                      "cudaLaunchKernelExC", call, after, inner, meta=meta)
        self.spend(1500)
        self.close(mark)
        self.runtime("cudaEventRecord")
        self.spend(1200)
        self.close(inner)
        self.spend(800)
        self.close(outer)
        self.spend(3000)
        return work
