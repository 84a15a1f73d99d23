#!/usr/bin/env python3
"""Makes tests/golden/: fixed tokens, and what PyTorch makes of them (needs the packages of tools/requirements.txt).

make_golden.py           writes tokens.bin and NAME.json for each configuration
make_golden.py --check   fails if PyTorch here does not give the committed numbers (losses to 1e-6, weights' hashes exactly)

NAME.json: the configuration; loss and gradient norm of each step, and the validation loss at the end, of DDP on 1, 2 and 4 ranks
(the same windows a step, split over the ranks); shape, hash and first values of each initial weight, in Hugging Face's names and
layout (hash: 64-bit FNV-1a over the float32 bytes, little endian).
"""
import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/torch"))
import reference  # noqa: E402

GOLDEN = ROOT / "tests/golden"
CONFIGS = {
    "gpt2_small": reference.Config(),
    # Sizes that no vector width or tile divides, and DistributedSampler's shuffled order over two epochs.
    "gpt2_odd": reference.Config(layers=3, width=51, heads=3, seq=19, vocab=101, batch=20, order="shuffle", seed=7, clip=0.5),
    "mlp_sgd": reference.Config(model="mlp", layers=2, width=40, heads=0, seq=9, vocab=101, optimizer="sgd", lr=0.5, batch=16),
    "mlp_adamw": reference.Config(model="mlp", layers=1, width=24, heads=0, seq=5, vocab=101, clip=0, order="shuffle", seed=3),
}
TOKENS = 6000


def make_tokens():
    """Tokens below 101 with something to learn: mostly a fixed walk, now and then a jump."""
    state, token, out = 12345, 0, []
    for _ in range(TOKENS):
        state = (state * 1103515245 + 12345) % 2**31
        token = (token * 7 + 3) % 101 if state >> 16 & 3 else (state >> 20) % 101
        out.append(token)
    return np.array(out, dtype=np.uint16)


def fnv1a64(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def describe(tensor):
    flat = tensor.numpy().astype("<f4").reshape(-1)
    return {"shape": list(tensor.shape), "fnv1a64": fnv1a64(flat.tobytes()), "first": [float(x) for x in flat[:4]]}


def make(tokens):
    """name -> what NAME.json holds"""
    jobs = [(config, tokens, None) for config in CONFIGS.values()]
    runs = {ranks: reference.train_all(jobs, ranks) for ranks in (1, 2, 4)}
    return {name: {
        "made_by": f"tools/make_golden.py, PyTorch {torch.__version__}, CPU capability {torch.backends.cpu.get_cpu_capability()}",
        "config": asdict(config),
        "runs": {str(ranks): results[i][0] for ranks, results in runs.items()},
        "initial_weights": {parameter: describe(tensor) for parameter, tensor in
                            reference.hf_tensors(reference.new_model(config)).items()},
    } for i, (name, config) in enumerate(CONFIGS.items())}


def close(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    return abs(a - b) <= 1e-6 * abs(a) if isinstance(a, float) else a == b


def main():
    check, bad = "--check" in sys.argv, 0
    tokens = make_tokens()
    if check:
        bad += (np.fromfile(GOLDEN / "tokens.bin", "<u2") != tokens).any()
    else:
        GOLDEN.mkdir(exist_ok=True)
        tokens.astype("<u2").tofile(GOLDEN / "tokens.bin")
    for name, made in make(tokens).items():
        file = GOLDEN / f"{name}.json"
        if not check:
            file.write_text(json.dumps(made, indent=1) + "\n")
            continue
        committed = json.loads(file.read_text())
        for part in ("config", "runs", "initial_weights"):
            if not close(committed[part], made[part]):
                print(f"{file.name}: {part} is not what PyTorch {torch.__version__} gives here")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
