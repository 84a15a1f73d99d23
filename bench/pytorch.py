#!/usr/bin/env python3
"""torch.distributed over "tandem" and over gloo: the same programs, the word changed.

pytorch.py [PART...] [--turns 5]      parts: allreduce crowded mlp gpt2 bf16 fsdp2 start
Needs the package in BUILD/pytorch (docs/pytorch.md), of the torch in $TDM_VENV. Targets: docs/pytorch.md.
"nothing" is a backend that does nothing: where it runs, it shows what torch itself takes.
"""
import argparse
import functools
import json
from pathlib import Path

import harness as h
import models

SIZES = [8, 1024, 16384, 262144, 1 << 20, 4 << 20, 25 << 20, 100 << 20]
CROWD = 8


def job(ranks, script, *arguments):
    text, _, _ = h.run(h.torchrun(ranks, script, *arguments), OMP_NUM_THREADS="1", PYTHONPATH=str(h.BUILD / "pytorch"))
    return text


def allreduce(backend, ranks, sizes):
    lines = job(ranks, "torch_allreduce.py", backend, *map(str, sizes)).splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines}


def compare(title, sides, turns, unit):
    """-> key -> {side: median, "gloo / tandem": ratio}; a side gives {key: number}."""
    rows = h.alternate(sides, turns)
    found = {}
    for key in rows["gloo"][0]:
        found[key] = {side: h.median_of(times, key) for side, times in rows.items()}
        found[key]["range"] = {side: h.spread_of(times, key) for side, times in rows.items()}
        found[key]["gloo / tandem"] = h.ratio(found[key]["gloo"], found[key]["tandem"])
    h.show(f"{title} (medians of {turns} runs), {unit}", ["", *sides, "gloo / tandem"],
           [[key, *(row[side] for side in sides), row["gloo / tandem"]] for key, row in found.items()])
    return found


def sides_of(function, *arguments, nothing=False):
    names = ["tandem", "gloo"] + (["nothing"] if nothing else [])
    return {name: functools.partial(function, name, *arguments) for name in names}


def part_allreduce(turns, folder):
    return compare("all_reduce, 2 ranks", sides_of(allreduce, h.RANKS, SIZES, nothing=True), turns, "microseconds")


def part_crowded(turns, folder):
    return compare(f"all_reduce, {CROWD} ranks", sides_of(allreduce, CROWD, SIZES[:-1]), turns, "microseconds")


def steps_of(text):
    """Of the last line's numbers the times."""
    return {key: value for key, value in json.loads(text.splitlines()[-1]).items() if key.endswith("_ms")}


def part_mlp(turns, folder):
    def step(backend):
        return steps_of(job(h.RANKS, "torch_mlp.py", backend))

    return compare("DDP step, MLP 4 x 4096, batch 16, SGD", sides_of(step), turns, "milliseconds")


def gpt2(turns, folder, *more):
    model = models.MODELS["124M"]
    tokens = models.tokens_file(folder, model["vocab"])

    def step(backend):
        text = job(h.RANKS, "gpt2_ddp.py", "--backend", backend, "--tokens", str(tokens), "--steps", str(model["steps"]), *models.shape(model), *more)
        return steps_of(text)

    return compare(f"GPT-2 124M, batch 4 x 64 {' '.join(more)}", sides_of(step), turns, "milliseconds")


def part_start(turns, folder):
    def start(backend):
        return {"ms": float(job(CROWD, "torch_start.py", backend))}

    return compare(f"init_process_group to the first all_reduce done, {CROWD} ranks", sides_of(start, nothing=True), turns, "milliseconds")


PARTS = {"allreduce": part_allreduce, "crowded": part_crowded, "mlp": part_mlp, "gpt2": gpt2,
         "bf16": lambda turns, folder: gpt2(turns, folder, "--amp", "bf16"),
         "fsdp2": lambda turns, folder: gpt2(turns, folder, "--fsdp"), "start": part_start}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    p.add_argument("--turns", type=int, default=5)
    a = p.parse_args()
    with h.scratch() as folder:
        h.report("pytorch", {name: PARTS[name](a.turns, Path(folder)) for name in a.parts or PARTS})


main()
