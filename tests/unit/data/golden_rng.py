#!/usr/bin/env python3
"""Prints golden_rng.h: what PyTorch draws on the CPU. Run with PyTorch 2.13 in the environment:

    python3 tests/unit/data/golden_rng.py > tests/unit/data/golden_rng.h
"""
import os
import subprocess
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data.distributed import DistributedSampler


def gen(seed):
    return torch.Generator().manual_seed(seed)


def hashed(tensor):
    """Polynomial hash over 32-bit patterns: h = h * 1000003 + bits, modulo 2^64."""
    bits = tensor.detach().contiguous().flatten().numpy().view(np.uint32).astype(np.uint64)
    powers = np.ones(len(bits), dtype=np.uint64)
    if len(bits) > 1:
        powers[1:] = np.uint64(1000003)
        powers = np.cumprod(powers, dtype=np.uint64)
    return int(np.sum(bits * powers[::-1], dtype=np.uint64))


def floats(name, tensor):
    words = ", ".join("0x%08x" % v for v in tensor.detach().flatten().numpy().view(np.uint32))
    print(f"static const uint32_t {name}[] = {{{words}}};")


def integers(name, values, kind="uint32_t"):
    print(f"static const {kind} {name}[] = {{{', '.join(map(str, values))}}};")


def variant(suffix):
    """Values that depend on how PyTorch's kernels were compiled."""
    floats(f"randn16_{suffix}", torch.randn(16, generator=gen(0)))
    floats(f"randn20_{suffix}", torch.randn(20, generator=gen(0)))
    floats(f"normal18_{suffix}", torch.empty(18).normal_(0, 0.02, generator=gen(1234)))
    floats(f"uniform4_{suffix}", torch.empty(4).uniform_(-0.3, 0.3, generator=gen(0)))
    torch.manual_seed(0)
    layer = nn.Linear(3, 2)
    floats(f"linear_weight_{suffix}", layer.weight)
    floats(f"linear_bias_{suffix}", layer.bias)
    print(f"static const uint64_t normal_hash_{suffix} = 0x{hashed(torch.empty(1000003).normal_(0, 0.02, generator=gen(42))):016x}u;")
    print(f"static const uint64_t uniform_hash_{suffix} = 0x{hashed(torch.empty(300001).uniform_(-0.05, 0.05, generator=gen(7))):016x}u;")
    torch.manual_seed(99)
    layer, table = nn.Linear(300, 77), nn.Embedding(1000, 65)
    print(f"static const uint64_t linear_hash_{suffix} = 0x{hashed(torch.cat([layer.weight.flatten(), layer.bias])):016x}u;")
    print(f"static const uint64_t embedding_hash_{suffix} = 0x{hashed(table.weight):016x}u;")


def common():
    torch.set_num_threads(1)
    for name, n, seed in (("perm10_0", 10, 0), ("perm10_42", 10, 42), ("perm10_wrapped", 10, 2**32 + 42), ("perm16_1", 16, 1), ("perm6_negative", 6, -5)):
        integers(name, torch.randperm(n, generator=gen(seed)).tolist())
    for name, n, seed in (("perm1000_hash", 1000, 7), ("perm100003_hash", 100003, 3)):
        print(f"static const uint64_t {name} = 0x{hashed(torch.randperm(n, generator=gen(seed)).int()):016x}u;")
    integers("randint8", torch.randint(0, 100, (8,), generator=gen(0)).tolist(), "int64_t")
    integers("randint_wide", torch.randint(-5, 1 << 40, (6,), generator=gen(3)).tolist(), "int64_t")
    floats("rand4", torch.rand(4, generator=gen(0)))
    floats("randn5", torch.randn(5, generator=gen(0)))
    g = gen(0)
    floats("randn3_then_2", torch.cat([torch.randn(3, generator=g), torch.randn(2, generator=g)]))
    for name, p in (("bernoulli_half", 0.5), ("bernoulli_tenth", 0.1)):
        bits = torch.empty(48).bernoulli_(p, generator=gen(0)).int().tolist()
        print(f'static const char {name}[] = "{"".join(map(str, bits))}";')
    print(f"static const uint64_t bernoulli_hash = 0x{hashed(torch.empty(100003).bernoulli_(0.9, generator=gen(5)).int()):016x}u;")
    for rank in range(3):
        sampler = DistributedSampler(range(10), 3, rank, seed=42)
        sampler.set_epoch(1)
        integers(f"sampler_10_3_rank{rank}", list(sampler))
    g = gen(11)
    mixed = [torch.randn(3, generator=g), torch.rand(5, generator=g), torch.randn(33, generator=g), torch.randn(2, generator=g)]
    torch.randperm(9, generator=g)
    mixed += [torch.empty(1).normal_(1, 2, generator=g), torch.rand(1, generator=g)]
    print(f"static const uint64_t mixed_hash_avx2 = 0x{hashed(torch.cat(mixed)):016x}u;")


if "--variant" in sys.argv:
    variant("default")
else:
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        sys.exit("needs a CPU with AVX2 and ATEN_CPU_CAPABILITY unset")
    print("/* golden_rng.h - values PyTorch %s drew; made by golden_rng.py, do not edit. */" % torch.__version__.split("+")[0])
    print("#ifndef GOLDEN_RNG_H\n#define GOLDEN_RNG_H\n\n#include <stdint.h>\n")
    common()
    variant("avx2")
    environment = dict(os.environ, ATEN_CPU_CAPABILITY="default")
    print(subprocess.run([sys.executable, __file__, "--variant"], env=environment, check=True, capture_output=True, text=True).stdout, end="")
    print("\n#endif")
