"""What a rank does in a step: loads a batch, runs the model forward and backward under DDP or FSDP, and steps the optimizer."""
from job import US, Kernel, Op, layers, optimizer_ops
from rank import Rank


class Training(Rank):
    def __init__(self, machine, number):
        super().__init__(machine, number)
        self.steps = []  # spans
        self.ready, self.taken = [self.now], []  # batches
        self.loader_ns = self.job.loader_ns * self.slowness("data")

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
