#!/usr/bin/env python3
"""Prints golden_init.h: hashes of the initial weights PyTorch draws. Run with PyTorch 2.13 in the environment:

    python3 tests/unit/models/golden_init.py > tests/unit/models/golden_init.h

Hash: 64-bit FNV-1a over the float32 bytes of a parameter as the graph holds it ([out, in]).
"""
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "torch"))
import reference  # noqa: E402


def fnv1a64(tensor):
    value = 0xCBF29CE484222325
    for byte in tensor.detach().contiguous().numpy().astype("<f4").tobytes():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def gpt2(layers, width, heads, vocab, positions, seed):
    """The graph's names and layout; reference.hf_views has Conv1D's transposed."""
    reference.GPT2.POSITIONS = positions
    model = reference.new_model(reference.Config(layers=layers, width=width, heads=heads, vocab=vocab, seed=seed))
    linears = (".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight", ".mlp.c_proj.weight")
    return {name: view.T if name.endswith(linears) else view for name, view in reference.hf_views(model).items()}


def mlp(layers, width, seq, vocab, seed):
    config = reference.Config(model="mlp", layers=layers, width=width, heads=0, seq=seq, vocab=vocab, seed=seed)
    return reference.new_model(config).state_dict()


def table(name, config, seed, tensors):
    print(f"\nstatic const golden_weights {name} = {{\n    .config = {{{config}}}, .seed = {seed}, .count = {len(tensors)}, .of = {{")
    for parameter, tensor in tensors.items():
        print(f'        {{"{parameter}", {tensor.numel()}, 0x{fnv1a64(tensor):016x}u}},')
    print("    }};")


def main():
    print(f"""/* golden_init.h - initial weights as PyTorch {torch.__version__} draws them: number of elements, and 64-bit FNV-1a over the
 * float32 bytes. Made by golden_init.py. */
#ifndef TESTS_MODELS_GOLDEN_INIT_H
#define TESTS_MODELS_GOLDEN_INIT_H

#include "models/model.h"

typedef struct golden_weights {{
    tdmi_model_config config;
    uint64_t seed;
    int count;
    struct {{
        const char *name;
        size_t count;
        uint64_t hash;
    }} of[64];
}} golden_weights;""")
    table("golden_gpt2", ".layers = 2, .width = 24, .heads = 3, .seq = 8, .vocab = 65, .positions = 40", 3, gpt2(2, 24, 3, 65, 40, 3))
    # Tensors below 16 elements are drawn in another way.
    table("golden_gpt2_tiny", ".layers = 1, .width = 2, .heads = 1, .seq = 3, .vocab = 5, .positions = 3", 0, gpt2(1, 2, 1, 5, 3, 0))
    table("golden_mlp", ".layers = 3, .width = 12, .seq = 5, .vocab = 29", 11, mlp(3, 12, 5, 29, 11))
    print("\n#endif")


main()
