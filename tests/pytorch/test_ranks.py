"""The ranks of the other tests: values come back, and what goes wrong is told."""
import os
import time

import pytest
import torch
import torch.distributed as dist
from ranks import RankFailed, on_ranks


def total(rank, factor):
    tensor = torch.full((3,), float(rank * factor))
    dist.all_reduce(tensor)
    return tensor.tolist()


def trouble(rank):
    if rank == 0:
        raise ValueError("no luck")
    if rank == 1:
        print("last words", flush=True)
        os._exit(7)
    if rank == 2:
        time.sleep(60)


def test_values_come_back():
    assert on_ranks(3, total, 2, backend="gloo") == [[6.0] * 3] * 3


def test_each_kind_of_trouble_is_told():
    with pytest.raises(RankFailed) as told:
        on_ranks(4, trouble, init=False, limit_s=3)
    text = str(told.value)
    assert "rank 0 raised" in text and "no luck" in text
    assert "rank 1 died with 7" in text and "last words" in text
    assert "rank 2 is not over" in text and "in trouble" in text
    assert "rank 3" not in text
