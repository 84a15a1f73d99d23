"""PowerSGD for DistributedDataParallel, on the state of PyTorch's own hook.  Vogels, Karimireddy, Jaggi, NeurIPS 2019.

Of the gradients M [n, m] of a matrix the ranks average P = M Q [n, r] and then Q = M' P [m, r], with P made orthonormal; M's average is about
P Q'. Every collective is made in the hook, which DDP calls for its buckets in one order, so all ranks make them in the same one:

    hook(0)  P0        hook(1)  P1 Q0        hook(2)  P2 Q1        hook(3), the last  P3 Q2 Q3

What travels as it is goes with P. With error feedback error_dict holds M while the bucket is under way, and what of it was not sent afterwards.
"""
import logging

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
from torch.utils.weak import WeakIdKeyDictionary

from . import _C

_NOTHING = 64 * torch.finfo(torch.float32).eps  # of a column, against the longest one: rounding
_log = logging.getLogger(__name__)
_under_way = {}  # id of a state -> its buckets of this step that are not over
_layouts = WeakIdKeyDictionary()  # a bucket's first parameter -> what the bucket was in the step before


def powersgd(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages matrices of float32 and float64 by PowerSGD, all else as it is. state: PyTorch's PowerSGDState."""
    _check(state)
    if bucket.index() == 0:
        _abandon(state)  # what a backward left that did not come to its end
    try:
        return _next(state, bucket)
    except BaseException:
        _abandon(state)
        raise


def _check(state):
    if not isinstance(state, PowerSGDState):
        raise TypeError(f"tandem: hooks.powersgd: state must be PyTorch's PowerSGDState, not {type(state).__name__}")
    if state.matrix_approximation_rank < 1:
        raise ValueError(f"tandem: hooks.powersgd: matrix_approximation_rank is {state.matrix_approximation_rank}: give 1 or more")
    if state.start_powerSGD_iter < 2 and (state.use_error_feedback or state.warm_start):
        raise ValueError(
            f"tandem: hooks.powersgd: start_powerSGD_iter is {state.start_powerSGD_iter}, but DDP rebuilds its buckets after the first "
            "step, which mixes up what error feedback and warm start keep: give 2 or more, or turn both off"
        )


def _abandon(state):
    """Its memory may hold this rank's part only."""
    for one in _under_way.pop(id(state), []):
        state.error_dict.pop(one.index, None)
        state.q_memory_dict.pop(one.index, None)


def _next(state, bucket):
    group = dist.group.WORLD if state.process_group is None else state.process_group
    buckets = _under_way.setdefault(id(state), [])
    is_compressed = _is_settled(bucket) and _can_compress(bucket.buffer()) and state.iter >= state.start_powerSGD_iter
    older = buckets[::-1]
    if is_compressed:
        one = _Bucket(state, group, bucket)
        buckets.append(one)
        future = one.future
    else:
        if state.iter >= state.start_powerSGD_iter:
            _count(state, bucket.buffer().numel(), bucket.buffer().numel())
        future = _C.average(group, bucket, None, None)
    _advance(buckets, older)
    while bucket.is_last() and buckets:
        _advance(buckets, buckets[::-1])
    if bucket.is_last():
        _end_step(state, bucket)
    return future


def _advance(buckets, some):
    for one in some:
        one.advance()
        if one.is_over:
            buckets.remove(one)


def _is_settled(bucket):
    """Whether it holds the same parameters as in the step before: they move after a model's first step, also when the state is
    that of a training taken up again."""
    parameters = bucket.parameters()
    layout = (bucket.index(), [id(parameter) for parameter in parameters])
    before = _layouts.get(parameters[0])
    _layouts[parameters[0]] = layout
    return layout == before


def _can_compress(buffer):
    return buffer.dtype in (torch.float32, torch.float64) and buffer.layout == torch.strided and buffer.device.type == "cpu"


def _count(state, before, after):
    state.total_numel_before_compression += before
    state.total_numel_after_compression += after


def _end_step(state, bucket):
    del _under_way[id(state)]
    if not state.warm_start:
        state.p_memory_dict.clear()
        state.q_memory_dict.clear()
    if state.iter >= max(state.start_powerSGD_iter, state.next_stats_report):
        rate, before, after = state.compression_stats()
        _log.info("PowerSGD, step %d: %d of %d elements sent so far, %.1f times less", state.iter, after, before, rate)
        state.next_stats_report = state.iter + state.compression_stats_logging_frequency
    state.maybe_increase_iter(bucket)


class _Bucket:
    """A bucket under way, from gradients to averages: its P is under way, then its Q, then it is over."""

    def __init__(self, state, group, bucket):
        self.state, self.group, self.index = state, group, bucket.index()
        self.buffer = bucket.buffer()
        self.future = torch.futures.Future()
        self.is_over = False
        source = self._with_error()
        self._sort(source, bucket.gradients())
        self._lay_out()
        self._fill_q()
        for part, (_, gradient) in zip(self.plain_parts, self.plain):
            part.copy_(gradient)
        for matrices, p, q in zip(self.matrices, self.ps, self.qs):
            _multiply(matrices, q, p)
        self._average(self.sent, self._start_q)

    def advance(self):
        """Waits for what is under way, and begins what comes next."""
        self.work.wait()
        self.then()

    def _average(self, tensor, then):
        self.work, self.then = dist.all_reduce(tensor, dist.ReduceOp.AVG, self.group, async_op=True), then

    def _with_error(self):
        if not self.state.use_error_feedback:
            return self.buffer
        error = self.state.error_dict.get(self.index)
        if error is None or not _fits(error, self.buffer.numel(), self.buffer.dtype):
            error = torch.zeros_like(self.buffer)
        self.state.error_dict[self.index] = error
        return error.add_(self.buffer)

    def _sort(self, source, gradients):
        """(where the average goes, where the gradient is) of what travels as it is, and of matrices, by shape."""
        self.plain, self.stacks = [], {}
        for target in gradients:
            begin = target.storage_offset() - self.buffer.storage_offset()
            gradient = source[begin:begin + target.numel()].view(target.shape)
            rows, columns = (target.shape[0], target[0].numel()) if target.dim() > 1 and target.numel() else (target.numel(), 1)
            rank = min(rows, columns, self.state.matrix_approximation_rank)
            sent = (rows + columns) * rank
            if sent * max(1, self.state.min_compression_rate) < rows * columns:
                pair = (target.view(rows, columns), gradient.view(rows, columns))
                self.stacks.setdefault((rows, columns, rank), []).append(pair)
            else:
                self.plain.append((target, gradient))
                sent = target.numel()
            _count(self.state, target.numel(), sent)

    def _lay_out(self):
        """matrices [b, n, m], with what they are in the bucket, and their ps and qs; these in the order of torch's hook."""
        self.pairs, shapes = [], []
        for shape, pairs in self.stacks.items():
            together = [pairs] if self.state.batch_tensors_with_same_shape else [[pair] for pair in pairs]
            self.pairs += together
            shapes += [(len(pairs), *shape) for pairs in together]
        self.matrices = [
            pairs[0][1].unsqueeze(0) if len(pairs) == 1 else torch.stack([gradient for _, gradient in pairs]) for pairs in self.pairs
        ]
        ps, qs = [(b, n, r) for b, n, m, r in shapes], [(b, m, r) for b, n, m, r in shapes]
        self.sent = self._p_memory(sum(map(_size, ps)), sum(target.numel() for target, _ in self.plain))
        self.ps, self.plain_parts = _cut(self.sent, ps, [target.shape for target, _ in self.plain])
        self.has_q = self._q_memory(sum(map(_size, qs)))
        self.q = self.state.q_memory_dict[self.index]
        (self.qs,) = _cut(self.q, qs)

    def _p_memory(self, count, more):
        """One tensor for what is sent first; the state knows the front of it, which holds the ps."""
        front = self.state.p_memory_dict.get(self.index)
        if front is None or not _fits(front, count, self.buffer.dtype) or front.untyped_storage().nbytes() != (count + more) * front.element_size():
            front = torch.empty(count + more, dtype=self.buffer.dtype)[:count]
        self.state.p_memory_dict[self.index] = front
        return front.as_strided((count + more,), (1,), 0)

    def _q_memory(self, count):
        """Whether it holds the qs of the step before."""
        q = self.state.q_memory_dict.get(self.index)
        is_there = q is not None and _fits(q, count, self.buffer.dtype)
        if not is_there:
            self.state.q_memory_dict[self.index] = torch.empty(count, dtype=self.buffer.dtype)
        return is_there

    def _fill_q(self):
        """Orthonormal columns, the same on all ranks."""
        draw = torch.Generator()
        if not self.has_q or not self.state.warm_start:
            draw.manual_seed(self.state.rng.randint(1_000_000_000))
            for q in self.qs:
                q.copy_(torch.randn(q.shape, generator=draw, dtype=q.dtype))
        draw.manual_seed(self.state.iter)
        for q in self.qs:
            orthonormalise(q, draw)

    def _start_q(self):
        for part, (target, gradient) in zip(self.plain_parts, self.plain):
            target.copy_(part)
        for matrices, p, q in zip(self.matrices, self.ps, self.qs):
            orthonormalise(p)
            q.copy_(torch.bmm(p.transpose(1, 2), matrices).transpose(1, 2))  # half the time of M' P
        if self.state.use_error_feedback:
            self._keep_error()
        if self.qs:
            self._average(self.q, self._finish)
        else:
            self._finish()

    def _keep_error(self):
        if not self.q.isfinite().all():
            self.state.error_dict[self.index].zero_()  # overflow: it leaves nothing behind
            return
        for _, gradient in self.plain:
            gradient.zero_()
        for pairs, matrices, p, q in zip(self.pairs, self.matrices, self.ps, self.qs):
            matrices.baddbmm_(p, q.transpose(1, 2), alpha=-1)
            if len(pairs) > 1:
                for (_, gradient), matrix in zip(pairs, matrices):
                    gradient.copy_(matrix)

    def _finish(self):
        for pairs, p, q in zip(self.pairs, self.ps, self.qs):
            for (target, _), left, right in zip(pairs, p, q):
                torch.mm(left, right.t(), out=target)
        self.is_over = True
        self.future.set_result(self.buffer)


def _fits(memory, count, dtype):
    return memory.numel() == count and memory.dtype == dtype


def _size(shape):
    return torch.Size(shape).numel()


def _cut(memory, *lists):
    """Views of these shapes, one behind the other."""
    views, begin = [], 0
    for shapes in lists:
        views.append([])
        for shape in shapes:
            views[-1].append(memory[begin:begin + _size(shape)].view(shape))
            begin += _size(shape)
    return views


def _multiply(matrices, q, p):
    """p = M q, by (q' M')' where that is faster: two to four rows, as measured with MKL."""
    if 2 <= q.shape[2] <= 4:
        p.copy_(torch.bmm(q.transpose(1, 2).contiguous(), matrices.transpose(1, 2)).transpose(1, 2))
    else:
        torch.bmm(matrices, q, out=p)


def orthonormalise(matrices, draw=None):
    """Makes the columns of each [n, r] of [b, n, r] orthonormal, in place. A column that those before it span, but for rounding, has no direction of
    its own that all ranks would agree on: it becomes 0, or, with `draw`, random. With `draw` so does one that is not finite."""
    q, r = torch.linalg.qr(matrices)
    if all(_are_independent(sizes) for sizes in r.diagonal(dim1=1, dim2=2).abs().tolist()):
        matrices.copy_(q)
        return
    for matrix in matrices:
        _gram_schmidt(matrix, draw)


def _are_independent(sizes):
    """By what is left of each column; not if one is not finite."""
    return all(size > _NOTHING * max(sizes) for size in sizes)


def _gram_schmidt(matrix, draw):
    smallest = _NOTHING * torch.linalg.vector_norm(matrix, dim=0).max()
    for i in range(matrix.shape[1]):
        column, before = matrix[:, i], matrix[:, :i]
        size = _reject(column, before)
        if size > smallest:
            column /= size
        elif draw is None:
            column *= 0  # not finite: it stays so, for all to see
        else:
            column.copy_(torch.randn(column.shape, generator=draw, dtype=column.dtype))
            column /= _reject(column, before)


def _reject(column, before):
    """Takes away from a column what lies along those before it; the length that is left. Twice, for rounding."""
    for _ in range(2):
        column -= before @ (before.t() @ column)
    return torch.linalg.vector_norm(column)
