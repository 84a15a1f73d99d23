"""The models that training is measured on, and how to train them with `tandem train`."""
import json
import shutil
import tempfile

import numpy as np

import harness as h

MODELS = {
    "small": {"layers": 4, "width": 256, "heads": 4, "seq": 128, "vocab": 256, "batch": 16, "steps": 20},
    "long": {"layers": 12, "width": 768, "heads": 12, "seq": 1024, "vocab": 50257, "batch": 1, "steps": 4},
    "124M": {"layers": 12, "width": 768, "heads": 12, "seq": 64, "vocab": 50257, "batch": 4, "steps": 6},
}
WARM_UP = 3  # steps before those that count


def shape(model):
    return [text for name in ("layers", "width", "heads", "seq", "vocab", "batch") for text in (f"--{name}", str(model[name]))]


def tokens_file(folder, vocab):
    """200,000 uint16 tokens; their values do not matter for speed."""
    file = folder / f"tokens_{vocab}.bin"
    if not file.exists():
        np.random.default_rng(0).integers(0, vocab, 200_000).astype("<u2").tofile(file)
    return file


def tandem_command(model, tokens, ranks, steps, run):
    return [h.TANDEM, "train", "gpt2", "-n", str(ranks), "--data", tokens, *shape(model), "--steps", str(steps + WARM_UP),
            "--lr", "3e-4", "--clip", "0", "--val-fraction", "0", "--run", run, "--quiet"]


def tandem_numbers(run, model, ranks):
    """Medians over the steps after the warm-up."""
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][WARM_UP:]
    step_ms = h.median_of(steps, "step_ms")
    summary = json.loads((run / "summary.json").read_text())
    return {"median_step_ms": step_ms, "tokens_per_s": ranks * model["batch"] * model["seq"] / step_ms * 1e3,
            "comm_share": summary["comm_share"], "exposed_comm_share": summary["exposed_comm_share"]}


def tandem_job(folder, model, tokens, ranks, steps, options=(), **how):
    run = tempfile.mkdtemp(dir=folder) + "/run"
    _, _, peak = h.run([*tandem_command(model, tokens, ranks, steps, run), *options], **how)
    numbers = tandem_numbers(h.Path(run), model, ranks) | {"peak_mb": peak}
    shutil.rmtree(run)
    return numbers
