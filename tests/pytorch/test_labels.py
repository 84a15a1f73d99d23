"""Errors and the flight recorder name calls as PyTorch does: operation, process group, parameters of a bucket; on every rank."""
import gc
import json
import pickle
import time
from contextlib import suppress
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks
from torch.nn.parallel import DistributedDataParallel


def text_of(call):
    try:
        call()
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


def seconds(n):
    return timedelta(seconds=n)


# different calls

def differ(rank):
    told = []
    for description in ("tp", None):
        group = dist.new_group(group_desc=description)
        t = torch.ones(7)
        call = (lambda: dist.broadcast(t, 1, group=group)) if rank else (lambda: dist.all_reduce(t, group=group))
        told.append((group.group_name, text_of(lambda: (call(), dist.barrier(group)))))
    return told


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_mismatch_names_each_ranks_call_on_every_rank(transport):
    for told in on_ranks(3, differ, env={"TANDEM_TRANSPORT": transport}):
        for (name, text), of in zip(told, ('"tp"', "group NAME")):
            of = of.replace("NAME", name)
            assert f"rank 0 makes allreduce of 7 float32 (sum) [all_reduce of {of}], but rank " in text, text
            assert f" makes broadcast of 7 float32 from rank 1 [broadcast of {of}]; " in text, text


# ranks that are elsewhere: rank 0 in a call of all, rank 1 in one of a pair or in a recv, rank 2 asleep

def apart(rank):
    pair = dist.new_group([1, 2], group_desc="pair", timeout=seconds(2))
    trio = dist.new_group(group_desc="trio", timeout=seconds(0.8))
    rest = dist.new_group(timeout=seconds(10))
    dist.barrier()
    t, own = torch.ones(3), ""
    if rank == 1:
        own = text_of(lambda: dist.all_reduce(t, group=pair))
    if rank == 2:
        time.sleep(2.4)
    missed = text_of(lambda: dist.all_reduce(t))
    dist.barrier(rest)
    if rank == 2:
        time.sleep(1.2)
    return missed, own, text_of(lambda: dist.recv(t, 2, group=trio, tag=4) if rank == 1 else dist.all_reduce(t, group=trio))


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_time_out_says_where_the_missing_ranks_are(transport):
    results = on_ranks(3, apart, timeout_s=1.2, env={"TANDEM_TRANSPORT": transport})
    for text, _, in_recv in results:
        assert " Timed out " in text and "allreduce of 3 float32 (sum) [all_reduce of default_pg]: ranks 1, 2 did not arrive within 1.2 s" in text, text
        assert "; rank 1 waits in call 1 of group " in text and 'allreduce of 3 float32 (sum) [all_reduce of "pair"]' in text, text
        assert "; rank 2 is in no call that is known here" in text, text
        assert transport == "tcp" or ", barrier [barrier of default_pg]" in text, text
        assert 'rank 1 waits for a message from rank 2 with tag 4 [recv of "trio"]' in in_recv, in_recv
        assert "rank 2 is in no call that is known here" in in_recv, in_recv
    text = results[1][1]
    assert 'allreduce of 3 float32 (sum) [all_reduce of "pair"]: rank 1 did not arrive within 2 s; rank 1 is in no call' in text, text


# buckets of DDP

class Named(DistributedDataParallel):
    pass


KINDS = {"plain": {}, "static": {"static_graph": True, "gradient_as_bucket_view": True}, "unused": {"find_unused_parameters": True},
         "compiled": {}, "bf16": {}, "stops": {}}


def model(layers=3):
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(layers)))


def step(ddp):
    ddp(torch.ones(2, 64)).sum().backward()


def train(rank, kind):
    import tandem_torch

    group = dist.new_group(group_desc=kind, timeout=seconds(0.7 if kind == "stops" else 20))
    if kind == "plain":
        dying = DistributedDataParallel(model(2), process_group=group)
        step(dying)
        del dying
        gc.collect()
    make = Named if kind == "static" else DistributedDataParallel
    cap = 2 if kind == "compiled" else 0.02  # a bucket a layer, once it is rebuilt; torch's compiler wants more than its first bucket
    ddp = make(model(), process_group=group, bucket_cap_mb=cap, **KINDS[kind])
    if kind == "bf16":
        ddp.register_comm_hook(group, tandem_torch.hooks.bf16)
    runs = torch.compile(ddp, backend="eager") if kind == "compiled" else ddp
    if kind != "static":  # which does not know no_sync at first
        with ddp.no_sync():
            step(runs)
    with torch.no_grad():
        runs(torch.ones(1, 64))
    for _ in range(3):
        step(runs)
    pickle.loads(pickle.dumps(ddp.module))
    if rank == 1:  # it leaves out the rest
        return text_of(lambda: dist.barrier(group)) if kind != "stops" else time.sleep(1)
    return text_of(lambda: (step(runs), dist.barrier(group)))


def train_all(rank):
    torch.set_num_threads(1)
    with suppress(RuntimeError):
        DistributedDataParallel(torch.nn.ReLU())  # no parameters: no model, and no names
    return {kind: train(rank, kind) for kind in KINDS}


def bucket_calls(dump, kind):
    """(parameters, elements) of each all_reduce of that kind's buckets."""
    calls = [call for call in json.loads(dump.read_text())["calls"] if call["label"].startswith(f'all_reduce of "{kind}"') and call["count"] > 64]
    return [(call["label"].partition(", gradients of ")[2], call["count"]) for call in calls]


def test_a_bucket_is_named_by_its_parameters(tmp_path):
    texts = on_ranks(2, train_all, env={"TANDEM_RECORDER_DIR": str(tmp_path)})
    [dump] = tmp_path.glob("*/rank-0-*.json")
    whole, first = ("0.weight ... 2.bias (6 parameters)", 12480), ("2.bias ... 1.weight (4 parameters)", 8320)
    second = ("0.bias ... 0.weight (2 parameters)", 4160)
    expected = dict.fromkeys(KINDS, [whole] + [first, second] * 3) | {
        "static": [whole, whole] + [first, second] * 2,
        "unused": [("1.bias ... 2.bias (3 parameters)", 4224), ("0.weight ... 1.weight (3 parameters)", 8256)] * 4,
        "compiled": [whole] + [("2.bias ... 0.weight (6 parameters)", 12480)] * 3,
    }
    for kind, buckets in expected.items():
        found = bucket_calls(dump, kind)
        if kind == "plain":
            assert found.pop(0) == ("0.weight ... 1.bias (4 parameters)", 8320)
        assert found == buckets[:len(found)] and len(found) >= 4, (kind, found)
        how = "bfloat16 (avg)" if kind == "bf16" else "float32 (sum)"
        last = f'allreduce of {buckets[-2][1]} {how} [all_reduce of "{kind}", gradients of {buckets[-2][0]}]'
        assert last in texts[0][kind], texts[0][kind]
        if kind != "stops":
            assert last in texts[1][kind] and f'rank 1 makes barrier [barrier of "{kind}"]' in texts[1][kind], texts[1][kind]
    assert " Timed out " in texts[0]["stops"] and "rank 1 is in no call" in texts[0]["stops"], texts[0]["stops"]
