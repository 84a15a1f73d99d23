"""Communication hooks for DistributedDataParallel: model.register_comm_hook(state, hooks.bf16).  docs/pytorch.md"""
import torch
import torch.distributed as dist

from . import _C
from .powersgd import powersgd

__all__ = ["Feedback", "bf16", "f16", "powersgd"]


class Feedback:
    """State of bf16 and f16 that keeps what rounding took away from this rank's gradients and adds it to the next step's.

    It belongs to the training state of a model: reset() it after loading a checkpoint. DDP rebuilds its buckets after the first
    step; a bucket that has other parameters than before begins with zeros.
    """

    def __init__(self, process_group=None):
        self.process_group = process_group
        self._residuals = _C.Residuals()

    def reset(self):
        """Forgets all."""
        self._residuals.forget()

    @property
    def nbytes(self):
        """Memory it holds."""
        return self._residuals.bytes()


def bf16(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages float32 gradients as bfloat16: half the bytes. state: None, a process group or a Feedback."""
    return _average("bf16", state, bucket, torch.bfloat16)


def f16(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages float32 gradients as float16, for gradients below 65504: scale the loss. state: None, a process group or a Feedback."""
    return _average("f16", state, bucket, torch.float16)


def _average(name, state, bucket, half):
    if isinstance(state, Feedback):
        return _C.average(_group(state.process_group), bucket, half, state._residuals)
    if state is not None and not isinstance(state, dist.ProcessGroup):
        raise TypeError(f"tandem: hooks.{name}: state must be None, a process group or a hooks.Feedback, not {type(state).__name__}")
    return _C.average(_group(state), bucket, half, None)


def _group(group):
    return dist.group.WORLD if group is None else group
