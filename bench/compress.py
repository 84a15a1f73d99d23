#!/usr/bin/env python3
"""`tandem train --compress` between two hosts on a slow link: network namespaces held to a rate by `tc ... tbf`. Needs root.

compress.py [--rates 100mbit,1gbit] [--codecs none,powersgd:4,onebit] [--steps 3] [--model 124M]
compress.py --loss TEXT [--codecs ...] [--steps 300]

Without --loss: GPT-2's smallest, float32, batch 4 x 64, one rank a host, one core a rank. tokens/s is the mean over the steps that count: not the first,
which warms up, and of onebit those behind its warm-up, which is one step here. `sent` is what Tandem says a rank sends in a step, `link` what left its
interface, headers and all.
With --loss: the demo's model and settings on a text (tools/demo_data.sh writes one), two ranks on this machine: the loss on what is held
out, beside the uncompressed run's.
Targets: 8 x the tokens/s of uncompressed at 100 Mbit/s, 1.7 x at 1 Gbit/s; loss after 300 steps within 2 %.
"""
import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path

import harness as h
import models
import namespaces

DEMO = ["--tokenizer", "bytes", "--layers", "4", "--width", "256", "--heads", "4", "--seq", "128", "--vocab", "256", "--batch", "8", "--lr", "2e-3",
        "--warmup", "40", "--schedule", "cosine", "--clip", "1.0"]
ADAMW_STEPS = 1  # of onebit, where speed is measured


def steps_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def speed(network, folder, model, tokens, codec, steps):
    first = 1 + (ADAMW_STEPS if codec == "onebit" else 0)
    run = Path(tempfile.mkdtemp(dir=folder)) / "run"
    command = [h.TANDEM, "train", "gpt2", "--data", tokens, *models.shape(model), "--steps", first + steps, "--val-fraction", "0", "--clip", "0", "--lr", "1e-6", "--quiet",
               "--run", run, "--compress", f"{codec}:{ADAMW_STEPS}" if codec == "onebit" else codec]
    before, _ = network.counters()
    network.run(1, command, limit_s=1800, OMP_NUM_THREADS=1, TANDEM_TIMEOUT=900)
    after, _ = network.counters()
    counted = steps_of(run)[first:]
    shutil.rmtree(run.parent)
    step_ms = statistics.mean(step["step_ms"] for step in counted)
    return {"tokens_per_s": network.hosts * model["batch"] * model["seq"] / step_ms * 1e3, "step_ms": step_ms,
            "compute_ms": statistics.mean(step["forward_ms"] + step["backward_ms"] for step in counted),
            "exposed_ms": statistics.mean(step["comm_exposed_ms"] for step in counted),
            "sent_mb": counted[-1]["sent_mb"], "link_mb": max(b - a for a, b in zip(before, after)) / 1e6 / (first + steps)}


def measure_speed(a, folder):
    model, rows, results = models.MODELS[a.model], [], {}
    tokens = models.tokens_file(Path(folder), model["vocab"])
    for rate in a.rates.split(","):
        with namespaces.Network(2, rate) as network:
            for codec in a.codecs.split(","):
                r = results.setdefault(rate, {})[codec] = speed(network, folder, model, tokens, codec, a.steps or 3)
                base = results[rate].get("none")
                r["faster"] = r["tokens_per_s"] / base["tokens_per_s"] if base else None
                rows.append([rate, codec, r["tokens_per_s"], r["faster"], r["step_ms"], r["compute_ms"], r["exposed_ms"], r["sent_mb"], r["link_mb"]])
    h.show(f"{a.model} between two hosts", ["rate", "codec", "tokens/s", "x none", "step ms", "compute ms", "exposed ms", "sent MB", "link MB"], rows)
    return results


def measure_loss(a, folder):
    results = {}
    for codec in a.codecs.split(","):
        run = Path(folder) / codec.replace(":", "-")
        h.run([h.TANDEM, "train", "gpt2", "-n", "2", "--data", a.loss, *DEMO, "--steps", str(a.steps or 300), "--eval-every", "100", "--quiet", "--run", run,
               "--compress", codec], OMP_NUM_THREADS="1")
        summary = json.loads((run / "summary.json").read_text())
        results[codec] = {"val_loss": summary["val_loss"], "train_loss": summary["train_loss"], "sent_mb": summary["sent_mb"],
                          "over_none": summary["val_loss"] / results.get("none", {"val_loss": summary["val_loss"]})["val_loss"] - 1}
    h.show("the demo's model, held-out loss", ["codec", "loss", "over none", "sent MB a step"],
           [[codec, r["val_loss"], r["over_none"], r["sent_mb"]] for codec, r in results.items()])
    return results


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rates", default="100mbit,1gbit")
    p.add_argument("--codecs", default="none,powersgd:4,onebit")
    p.add_argument("--model", choices=models.MODELS, default="124M")
    p.add_argument("--steps", type=int)
    p.add_argument("--loss", metavar="TEXT")
    a = p.parse_args()
    with h.scratch() as folder:
        h.report("compress", {"loss" if a.loss else "speed": (measure_loss if a.loss else measure_speed)(a, folder)})


main()
