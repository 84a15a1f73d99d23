"""Runs a Job on simulated machines: all ranks together, event by event.

A rank is a host program (a generator: it stops where it must wait for something not known yet) and streams. A kernel starts
when its launch has arrived, its stream is free and what it waits for has ended; a collective's kernels start on each rank when
that rank is ready and end on all of them when the last one has come, plus the transfer. So a slow rank shows as long
collectives on the others. A stream takes QUEUE launches ahead of its work: then the launch call waits.
"""
from job import US, bucket_plan, ready_order
from training import Training

KERNEL_GAP = 1_100  # between kernels of a stream, back to back


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


class Machine:
    def __init__(self, job, seed=1, first_step=10, record=True):
        self.job, self.seed, self.first_step, self.record = job, seed, first_step, record
        self.world = Group("0", "default_pg", list(range(job.ranks)))
        self.pairs = [Group(str(1 + p), "tp", [2 * p, 2 * p + 1]) for p in range(job.ranks // 2)] if job.pairs else []
        self.plan, self.sizes = bucket_plan(job), ready_order(job)
        self.recording = False
        self.ranks = [Training(self, r) for r in range(job.ranks)]

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
