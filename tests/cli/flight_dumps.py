"""Dumps of PyTorch's flight recorder as its versions write them, made for tests.

A job is a list of scripts, one a rank; a script is a list of calls, each a dict (see call()).
"""
import json
import pickle

START_NS = 1_700_000_000_000_000_000


def call(op, size=(16,), dtype="Float", state="completed", group="0", desc="default_pg", seq=None, p2p=False, retired=None, at=("train.py", 31, "step"), out=None, at_ms=None):
    return dict(op=op, size=size, dtype=dtype, state=state, group=group, desc=desc, seq=seq, p2p=p2p, retired=retired, at=at, out=out, at_ms=at_ms)


def dump(script, groups, version="2.10", backend="nccl", first_record=0, frames=True):
    """The object that a rank pickles. groups: name -> (desc, ranks)."""
    numbers, entries = {}, []
    for i, c in enumerate(script):
        p2p = c["p2p"]
        key = (c["group"], p2p)
        if c["seq"] is None:
            numbers[key] = numbers.get(key, 0) + 1
            seq = numbers[key]
        else:
            seq = numbers[key] = c["seq"]
        created = START_NS + (c["at_ms"] if c["at_ms"] is not None else i * 10) * 1_000_000
        done = c["state"] == "completed"
        sizes = [] if c["op"] in ("barrier", "coalesced") else [list(c["size"])]
        entry = {
            "frames": [{"name": "all_reduce", "filename": "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", "line": 2696},
                       {"name": c["at"][2], "filename": "/jobs/user/" + c["at"][0], "line": c["at"][1]}] if frames else [],
            "record_id": first_record + i, "pg_id": 0, "process_group": (c["group"], c["desc"]),
            "collective_seq_id": 0 if p2p else seq, "p2p_seq_id": seq if p2p else 0, "op_id": i + 1, "profiling_name": f"{backend}:{c['op']}",
            "time_created_ns": created, "input_sizes": sizes, "input_dtypes": [c["dtype"]] * len(sizes),
            "output_sizes": sizes if c["out"] is None else [list(c["out"])], "output_dtypes": [c["dtype"]] * len(sizes),
            "state": c["state"], "time_discovered_started_ns": created + 1000 if c["state"] != "scheduled" else None,
            "time_discovered_completed_ns": created + 2000 if done else None, "retired": done if c["retired"] is None else c["retired"],
            "timeout_ms": 600000, "is_p2p": p2p}
        if not frames:
            del entry["frames"]
        if version.startswith("1."):
            entry["seq_id"] = entry.pop("collective_seq_id")
            del entry["process_group"], entry["p2p_seq_id"], entry["op_id"], entry["is_p2p"]
            entry["pg_id"] = int(c["group"])
        entries.append(entry)
    if version == "list":
        return entries
    return {"version": version, "pg_config": {name: {"name": name, "desc": desc, "ranks": str(list(ranks))} for name, (desc, ranks) in groups.items()},
            "nccl_version" if version < "2.6" else "comm_lib_version": "2.21.5",
            "pg_status": {name: {"last_enqueued_collective": 5, "last_started_collective": 4, "last_completed_collective": 4} for name in groups}, "entries": entries}


def as_json(object_):
    """The JSON form has no frames, sorts its members, writes null times as 0 and numbers of the status as texts."""
    object_ = json.loads(json.dumps(object_))
    for entry in object_["entries"]:
        entry.pop("frames", None)
        for name in ("time_discovered_started_ns", "time_discovered_completed_ns"):
            entry[name] = entry[name] or 0
    for status in object_["pg_status"].values():
        for name in status:
            status[name] = str(status[name])
    object_["nccl_comm_state"] = {}
    return json.dumps(object_, sort_keys=True)


def write(folder, scripts, groups=None, form="pickle2", prefix="nccl_trace_rank_", **how):
    """One file a rank; a script of None leaves none. form: pickle0 ... pickle5, json."""
    groups = {"0": ("default_pg", range(len(scripts)))} if groups is None else groups
    paths = []
    for rank, script in enumerate(scripts):
        if script is None:
            continue
        mine = {name: g for name, g in groups.items() if rank in g[1]}
        object_ = dump(script, mine, **how)
        path = f"{folder}/{prefix}{rank}"
        with open(path, "wb") as file:
            file.write(as_json(object_).encode() if form == "json" else pickle.dumps(object_, protocol=int(form[-1])))
        paths.append(path)
    return paths
