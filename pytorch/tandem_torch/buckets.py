"""Names for the buckets of DistributedDataParallel: which parameters' gradients a call carries.

DDP tells its backend nothing about them, so this watches its models: after construction, and again after the forward in which
DDP has rebuilt its buckets in the order in which gradients come, it reads them and tells the backend their sizes and names.
The names stand in labels (errors, flight recorder) and are no more than that: a torch that cannot say them is no error.
"""
import functools
import itertools
import weakref

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from . import _C

LONGEST_NAME = 32  # of two in a label of 127 bytes

_keys = itertools.count(1)
_watched = weakref.WeakKeyDictionary()  # model -> the key of its names, forwards seen


class _Watched:
    def __init__(self, key):
        self.key, self.forwards, self.hook = key, 0, None


def watch():
    """Every DistributedDataParallel made from now on over backend tandem says its buckets."""
    DistributedDataParallel.__init__ = _wrapped(DistributedDataParallel.__init__)


def _wrapped(init):
    @functools.wraps(init)
    def init_and_watch(self, *args, **kwargs):
        init(self, *args, **kwargs)
        _begin(self)

    return init_and_watch


def _begin(ddp):
    if not _is_ours(ddp) or not _say(ddp, key := next(_keys)):
        return
    watched = _watched[ddp] = _Watched(key)
    weakref.finalize(ddp, _C.forget_bucket_names, key).atexit = False
    if ddp.static_graph or not ddp.find_unused_parameters:  # others are never rebuilt
        watched.hook = ddp.register_forward_hook(_after_forward)


def _is_ours(ddp):
    try:
        return "tandem" in dist.get_backend_config(ddp.process_group)
    except (AttributeError, RuntimeError, ValueError):
        return False


@torch._disable_dynamo
def _after_forward(ddp, inputs, output):
    watched = _watched.get(ddp)
    if watched is None or watched.hook is None:
        return  # a copy of a model that is watched
    watched.forwards += torch.is_grad_enabled() and ddp.require_backward_grad_sync
    if getattr(ddp, "_has_rebuilt_buckets", watched.forwards == 2):
        watched.hook.remove()
        watched.hook = None
        _say(ddp, watched.key)


def _say(ddp, key):
    """Whether torch told the buckets of the model."""
    names = {id(parameter): name for name, parameter in ddp.module.named_parameters()}
    try:
        buckets = [(bucket.buffer(), bucket.parameters()) for bucket in ddp.reducer._get_zeros_like_grad_buckets()]
    except (AttributeError, RuntimeError):
        return False
    sizes = [(buffer.numel(), buffer.nbytes) for buffer, _ in buckets]
    texts = [_text([names.get(id(parameter), "?") for parameter in parameters]) for _, parameters in buckets]
    _C.set_bucket_names(key, ddp.process_group.group_name, [(*size, text) for size, text in zip(sizes, texts)])
    return True


def _text(names):
    first, last = _short(names[0]), _short(names[-1])
    return f"gradient of {first}" if len(names) == 1 else f"gradients of {first} ... {last} ({len(names)} parameters)"


def _short(name):
    return name if len(name) <= LONGEST_NAME else ".." + name[2 - LONGEST_NAME:]
