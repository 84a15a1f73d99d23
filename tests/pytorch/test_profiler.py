"""What a trace of torch.profiler says of calls: the metadata that its readers look for, and durations that are the calls' own."""
import json
import os
import tempfile
import time

import torch
import torch.distributed as dist
from ranks import on_ranks
from torch.profiler import ProfilerActivity, profile


def trace(rank, size):
    pair = dist.new_group([0, 2], group_desc="edge")
    x = torch.ones(1000)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        dist.all_reduce(x)
        if rank == 1:
            time.sleep(0.2)
        work = dist.all_reduce(x.double(), async_op=True)
        work.wait()
        dist.reduce_scatter([torch.empty(4)][0], [torch.ones(4)] * size)
        dist.all_to_all_single(torch.empty(size * 2), torch.ones(size * 2), [2] * size, [2] * size)
        if rank != 1:
            dist.all_reduce(x.bfloat16(), group=pair)
        if rank == 0:
            dist.send(x[:10], 2)
        if rank == 2:
            dist.recv(x[:10], 0)
        dist.barrier()
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(file)
        with open(file) as opened:
            return [(e["name"], e["dur"], e["args"]) for e in json.load(opened)["traceEvents"]
                    if e.get("ph") == "X" and (e["name"] == "record_param_comms" or e["name"].startswith("tandem:"))]


def test_traces_have_the_metadata_of_collectives():
    events = on_ranks(3, trace, 3)
    for rank in range(3):
        comms = [args for name, _, args in events[rank] if name == "record_param_comms"]
        names = [args["Collective name"] for args in comms]
        edge = [] if rank == 1 else ["allreduce"]
        message = {0: ["send"], 1: [], 2: ["recv"]}[rank]
        assert names == ["allreduce", "allreduce", "reduce_scatter", "all_to_all", *edge, *message, "barrier"]
        first = comms[0]
        assert (first["In msg nelems"], first["Out msg nelems"], first["Group size"], first["dtype"]) == (1000, 1000, 3, "Float")
        assert first["Process Group Name"] == "0" and first["Process Group Description"] == "default_pg"
        assert first["Process Group Ranks"] == "[0, 1, 2]"
        assert comms[1]["dtype"] == "Double"
        assert [args["Seq"] for args in comms[:4]] == [1, 2, 3, 4]
        assert (comms[2]["In msg nelems"], comms[2]["Out msg nelems"]) == (12, 4)
        assert comms[3]["In split size"] == "[2, 2, 2]"
        if rank != 1:
            assert comms[4]["Process Group Description"] == "edge" and comms[4]["Process Group Ranks"] == "[0, 2]"
            assert comms[4]["Group size"] == 2 and comms[4]["dtype"] == "BFloat16"
        titles = [name for name, _, _ in events[rank] if name != "record_param_comms"]
        assert sorted(titles) == sorted(["tandem:all_reduce"] * (2 + len(edge)) + ["tandem:reduce_scatter", "tandem:all_to_all", "tandem:barrier"]
                                        + [f"tandem:{m}" for m in message])
    # Rank 0 waited for rank 1 in its second call, which was asynchronous: its event ends when the call does.
    waits = [duration for name, duration, _ in events[0] if name == "tandem:all_reduce"]
    assert max(waits[:2]) > 100_000
