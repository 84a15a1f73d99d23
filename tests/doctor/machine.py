"""Runs a Job on simulated machines: all ranks together, event by event.

A rank is a host program (a generator: it stops where it must wait for something not known yet) and streams. A kernel starts
when its launch has arrived, its stream is free and what it waits for has ended; a collective's kernels start on each rank when
that rank is ready and end on all of them when the last one has come, plus the transfer. So a slow rank shows as long
collectives on the others. A stream takes QUEUE launches ahead of its work: then the launch call waits.
"""
from job import GPUS, MB, MS, US, Kernel, Op, bucket_plan, layers, optimizer_ops, ready_order

BEGIN_NS = 4_200_000_123 * MS
QUEUE = 1024
LAUNCH_DELAY = 6 * US  # from the call to the earliest start of a kernel on a free stream
KERNEL_GAP = 1_100  # between kernels of a stream, back to back
COMPUTE, COMM, PAIR = 7, 20, 24  # streams
HOST_STREAM = -1  # gloo's own thread
NOISE_SEEDS = 1 << 12


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


class Collective:
    def __init__(self, group, transfer_ns):
        self.group, self.transfer_ns, self.arrived = group, transfer_ns, {}


class Group:
    """Ranks that make the same calls in the same order."""

    def __init__(self, name, label, ranks):
        self.name, self.label, self.ranks, self.calls = name, label, ranks, []

    def call(self, number, transfer_ns):
        if number == len(self.calls):
            self.calls.append(Collective(self, transfer_ns))
        return self.calls[number]


class Rank:
    def __init__(self, machine, number):
        job = machine.job
        self.machine, self.job, self.number = machine, job, number
        self.now = BEGIN_NS + number * 137 * US
        self.main, self.autograd = 4100 + number, 4190 + number if job.gpu else 4100 + number
        self.thread = self.main
        self.streams = {n: Stream(n) for n in ((COMPUTE, COMM, PAIR) if job.gpu else (HOST_STREAM,))}
        self.spans, self.activities = [], []
        self.steps = []  # spans
        self.waits = []  # of the compute stream's next kernel
        self.calls_made = {}
        self.ready, self.taken = [self.now], []  # batches
        slow = job.slow if job.slow and job.slow.rank == number else None
        self.host = job.host * (slow.factor if slow and slow.kind == "host" else 1)
        self.speed = slow.factor if slow and slow.kind == "compute" else 1
        self.loader_ns = job.loader_ns * (slow.factor if slow and slow.kind == "data" else 1)
        self.drawn = 0

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

    # ---- the step ----

    def program(self, count, warm_up):
        for number in range(count + warm_up):
            if number == warm_up:
                self.machine.begin_recording(self)
            yield from self.step(number)

    def load(self):
        job = self.job
        single = job.workers == 0
        span = self.open("user_annotation", f"enumerate(DataLoader)#_{'SingleProcess' if single else 'MultiProcessing'}DataLoaderIter.__next__")
        ns = int(self.loader_ns * self.noise(0.03))
        if single:
            self.now += ns
        else:  # workers run ahead by two batches each, then wait until one is taken
            ahead = 2 * job.workers
            free = self.taken[-ahead] if len(self.taken) >= ahead else self.ready[0]
            self.ready.append(max(self.ready[-1], free) + ns)
            self.now = max(self.now + 40 * US, self.ready[-1])
            self.taken.append(self.now)
        self.close(span)
        self.spend(15 * US)

    def step(self, number):
        job, machine = self.job, self.machine
        self.drawn = number * 1_000_003
        step = self.open("user_annotation", f"ProfilerStep#{machine.first_step + number}")
        self.steps.append(step)
        self.spend(2000)
        self.load()
        if job.gpu:
            yield from self.copy_in()
        zero = self.open("user_annotation", "Optimizer.zero_grad#AdamW.zero_grad")
        self.spend(30 * US)
        self.close(zero)
        yield from (self.fsdp() if job.parallel == "fsdp" else self.forward_backward())
        self.spend(25 * US)
        update = self.open("user_annotation", "Optimizer.step#AdamW.step")
        self.spend(20 * US)
        for op in optimizer_ops(job):
            yield from self.op(op, numbered=False)
        self.close(update)
        self.spend(10 * US)
        if job.gpu and job.read_loss:
            yield from self.read_back()
        self.spend(20 * US)
        self.close(step)

    def layer_forward(self, layer, recompute=False):
        for op in layer.forward:
            yield from self.op(op)
        if self.job.pairs and not recompute:
            yield from self.over_the_pair()

    def over_the_pair(self):
        work = yield from self.collective("allreduce", 8192 * self.job.width // 4, self.machine.pair(self.number), self.last())
        self.runtime("cudaStreamWaitEvent")
        self.waits.append(work)

    def layer_backward(self, layer, reducer=None):
        if self.job.recompute:
            outer = self.open("cpu_op", "autograd::engine::evaluate_function: CheckpointFunctionBackward", seq=True, fwd=1)
            inner = self.open("cpu_op", "CheckpointFunctionBackward", seq=True, fwd=1)
            self.spend(25 * US)
            yield from self.layer_forward(layer, True)
            self.close(inner)
            self.close(outer)
        for op in layer.backward:
            yield from self.op(op, node=True)
            for elements in op.grads:
                yield from self.accumulate(elements, reducer)
        if self.job.pairs:
            yield from self.over_the_pair()

    def accumulate(self, elements, reducer):
        """A gradient is complete: DDP writes it into its bucket, and sends the buckets that are full, in their order."""
        outer = self.open("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad")
        self.spend(700)
        inner = self.open("cpu_op", "torch::autograd::AccumulateGrad", dims=f"[[{elements}]]")
        self.spend(1200)
        self.close(inner)
        if reducer:
            self.spend(800)
            yield from self.op(Op("torch::distributed::reducer::mul_out", "aten::mul", (Kernel(MUL_OUT, reducer.write_ns(elements)),), f"[[{elements}], [], [{elements}]]"), numbered=False)
            yield from reducer.completed()
        self.spend(500)
        self.close(outer)
        self.spend(900)

    def forward_backward(self):
        job = self.job
        forward = self.open("user_annotation", "DistributedDataParallel.forward") if job.parallel == "ddp" else None
        self.spend(60 * US)
        for place, layer in enumerate(layers(job)):
            yield from self.layer_forward(layer)
            if place < job.syncs:
                if job.sync_waits:
                    yield from self.read_back()
                self.spend(job.sync_host_ns)
        if forward:
            self.close(forward)
        self.spend(30 * US)
        reducer = Reducer(self) if job.parallel == "ddp" else None
        self.thread = self.autograd
        self.spend(15 * US)
        for layer in reversed(layers(job)):
            yield from self.layer_backward(layer, reducer)
        if reducer:
            yield from reducer.finish()
        self.thread = self.main
        self.spend(15 * US)

    def fsdp(self):
        """Each layer is a unit: its parameters are gathered before use, its gradients scattered after."""
        units = layers(self.job)
        sizes = [sum(g for op in unit.backward for g in op.grads) for unit in units]
        group, ahead = self.machine.world, self.job.prefetch
        ended = {}  # unit -> last kernel of its computation

        def gather(unit, after):
            span = self.open("user_annotation", f"FSDP::all_gather ({units[unit].name})")
            self.spend(3000)
            work = yield from self.collective("_allgather_base", sizes[unit], group, after)
            self.close(span)
            return work

        def compute(unit, work, layer_pass):
            self.runtime("cudaStreamWaitEvent")
            self.waits.append(work)
            yield from layer_pass(units[unit])
            ended[unit] = self.last()

        forward = self.open("user_annotation", "FullyShardedDataParallel.forward")
        self.spend(60 * US)
        work = yield from gather(0, ())
        for unit in range(len(units)):
            if ahead and unit + 1 < len(units):  # no more than two units' parameters at a time
                following = yield from gather(unit + 1, ended.get(unit - 1, ()))
            yield from compute(unit, work, self.layer_forward)
            if not ahead and unit + 1 < len(units):
                following = yield from gather(unit + 1, ended[unit])
            work = following if unit + 1 < len(units) else None
        self.close(forward)
        self.spend(30 * US)
        self.thread = self.autograd
        work = yield from gather(len(units) - 1, ended[len(units) - 1])
        ended = {}
        for unit in reversed(range(len(units))):
            if ahead and unit:
                following = yield from gather(unit - 1, ended.get(unit + 1, ()))
            yield from compute(unit, work, self.layer_backward)
            span = self.open("user_annotation", f"FSDP::post_backward_reduce ({units[unit].name})")
            scattered = yield from self.collective("_reduce_scatter_base", sizes[unit], group, ended[unit])
            self.close(span)
            if not ahead and unit:
                following = yield from gather(unit - 1, ended[unit])
            work = following if unit else None
        self.thread = self.main
        self.runtime("cudaStreamWaitEvent")
        self.waits.append(scattered)


MUL_OUT = "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, ...)"


class Reducer:
    """DDP's: fills buckets, sends them in their order."""

    def __init__(self, rank):
        self.rank = rank
        self.plan = rank.machine.plan
        self.sizes = rank.machine.sizes
        self.complete = set()
        self.sent = []

    def write_ns(self, elements):
        return 2 * US + elements * 8 / 1500.0 if self.rank.job.gpu else elements * 0.15

    def completed(self):
        self.complete.add(len(self.complete))
        while len(self.sent) < len(self.plan) and self.complete.issuperset(self.plan[len(self.sent)]):
            elements = sum(self.sizes[place] for place in self.plan[len(self.sent)])
            after = self.rank.last() if self.rank.job.gpu else ()
            self.sent.append((yield from self.rank.collective("allreduce", elements, self.rank.machine.world, after)))

    def finish(self):
        rank = self.rank
        if rank.job.gpu:
            rank.runtime("cudaStreamWaitEvent")
            rank.waits.append(self.sent[-1])
            return
        for bucket, work in zip(self.plan, self.sent):
            while work.end is None:
                yield
            rank.now = max(rank.now + 5 * US, work.end + 15 * US)
            for place in bucket:
                span = rank.open("cpu_op", "torch.distributed.ddp.reducer::copy_bucket_to_grad", dims=f"[[{self.sizes[place]}]]")
                rank.spend(1 * US + self.sizes[place] * 0.15)
                rank.close(span)


class Machine:
    def __init__(self, job, seed=1, first_step=10, record=True):
        self.job, self.seed, self.first_step, self.record = job, seed, first_step, record
        self.world = Group("0", "default_pg", list(range(job.ranks)))
        self.pairs = [Group(str(1 + p), "tp", [2 * p, 2 * p + 1]) for p in range(job.ranks // 2)] if job.pairs else []
        self.plan, self.sizes = bucket_plan(job), ready_order(job)
        self.recording = False
        self.ranks = [Rank(self, r) for r in range(job.ranks)]

    def pair(self, rank):
        return self.pairs[rank // 2]

    def begin_recording(self, rank):
        """Each rank's window opens at its own first recorded step."""
        self.recording = self.record
        rank.spans, rank.activities, rank.steps = [], [], []

    def run(self, steps, warm_up=None):
        """Returns itself when every rank has done its steps. The window opens in a steady state."""
        if warm_up is None:
            warm_up = 2 if self.job.read_loss else 8
        programs = [rank.program(steps, warm_up) for rank in self.ranks]
        still = 0
        while programs:
            left = [program for program in programs if next(program, "over") != "over"]
            still = 0 if self.settle() or len(left) < len(programs) else still + 1
            if still > 3:
                raise RuntimeError("the job stands still: a rank waits for what nobody sends")
            programs = left
        self.settle()
        return self

    def settle(self):
        """Gives every activity its start and end as far as they are known."""
        streams = [(rank, stream) for rank in self.ranks for stream in rank.streams.values()]
        ever, moved = False, True
        while moved:
            moved = False
            for rank, stream in streams:
                while stream.settled < len(stream.queue) and self.settle_one(rank, stream):
                    stream.settled += 1
                    ever = moved = True
        return ever

    @staticmethod
    def settle_one(rank, stream):
        work = stream.queue[stream.settled]
        if work.end is not None:
            return True
        if work.start is None:
            start = work.earliest
            for other in work.after:
                if other.end is None:
                    return False
                start = max(start, other.end + US)
            if stream.settled:
                start = max(start, stream.queue[stream.settled - 1].end + KERNEL_GAP)
            work.start = start
        call = work.collective
        if call is None:
            work.end = work.start + work.ns
            return True
        call.arrived[rank.number] = work
        if len(call.arrived) < len(call.group.ranks):
            return False
        end = max(w.start for w in call.arrived.values()) + call.transfer_ns + 1200
        for w in call.arrived.values():
            w.end = end
        return True

    def step_ns(self):
        """The mean over steps and ranks."""
        return sum((r.steps[-1].end - r.steps[0].start) / len(r.steps) for r in self.ranks) / len(self.ranks)
