"""Backend "tandem" of torch.distributed: import tandem_torch, then init_process_group("tandem").  docs/pytorch.md"""
import atexit
import os

import torch
import torch.distributed

from .built_with import TORCH_VERSION as _built_with

_found = ".".join(torch.__version__.split(".")[:2])
if _found != _built_with:
    raise ImportError(
        f"tandem_torch was built for torch {_built_with}, but torch {torch.__version__} is installed. "
        f"Build it again for this torch (pip install . in Tandem's folder), or install torch {_built_with}."
    )

from . import _C  # noqa: E402  needs the libraries that torch has loaded
from . import buckets, hooks  # noqa: E402
from .barrier import monitored_barrier  # noqa: E402

__all__ = ["heap_holds", "heap_stats", "heap_trim", "hooks", "monitored_barrier", "version"]


def version():
    """Version of the libtandem in use."""
    return _C.version()


def heap_stats():
    """The shared heap of this process: bytes in_use, peak, shared, resting (free but kept), and the numbers of takes, gives and shares."""
    return _C.heap_stats()


def heap_trim():
    """Gives free memory of the shared heap back to the system; returns how many bytes that was."""
    return _C.heap_trim()


def heap_holds(tensor):
    """Whether the tensor's memory lies in the shared heap."""
    return _C.heap_holds(tensor)


def _create(options, pg_options):
    if pg_options is not None and not isinstance(pg_options, torch._C._distributed_c10d.Backend.Options):
        raise TypeError(f"tandem: pg_options must be a Backend.Options or None, not {type(pg_options).__name__}")
    return _C.create(
        options.store, options.group_rank, options.group_size, options.timeout, options.group_id, options.global_ranks_in_group
    )


# mpirun and srun say in variables of their own what torch's env:// looks for. torchrun and `tandem run` set RANK.
if "RANK" not in os.environ:
    for _name, _value in _C.launcher_variables().items():
        os.environ.setdefault(_name, _value)

_C.install_allocator()
buckets.watch()
torch.distributed.Backend.register_backend("tandem", _create, extended_api=True, devices=["cpu"])
atexit.register(_C.at_exit)
