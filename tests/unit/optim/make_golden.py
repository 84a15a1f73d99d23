#!/usr/bin/env python3
"""Makes golden.h: what torch.optim and torch.nn.utils.clip_grad_norm_ give, for test_optimizer.c and test_clip.c.

make_golden.py > golden.h      needs PyTorch; exact values, as hexadecimal floats
"""
import torch

COUNT, STEPS = 37, 5  # no multiple of a vector
CASES = {
    "adamw": (torch.optim.AdamW, dict(lr=2e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)),
    "adamw_decay": (torch.optim.AdamW, dict(lr=1e-2, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1)),
    "sgd": (torch.optim.SGD, dict(lr=0.1, momentum=0.0, dampening=0.0, nesterov=False, weight_decay=0.0)),
    "sgd_decay": (torch.optim.SGD, dict(lr=0.1, momentum=0.0, dampening=0.0, nesterov=False, weight_decay=0.05)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, dampening=0.0, nesterov=False, weight_decay=0.01)),
    "sgd_dampening": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, dampening=0.3, nesterov=False, weight_decay=0.0)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=0.05, momentum=0.8, dampening=0.0, nesterov=True, weight_decay=0.02)),
}


def array(values):
    return "{" + ", ".join(float(v).hex() + "f" for v in values) + "}"


def number(value):
    return str(value).lower() if isinstance(value, bool) else repr(float(value))


def main():
    generator = torch.Generator().manual_seed(20)
    start = torch.randn(COUNT, generator=generator)
    gradients = [torch.randn(COUNT, generator=generator) * 10.0 ** (k - 2) for k in range(STEPS)]
    print(f"/* golden.h - made by make_golden.py with PyTorch {torch.__version__}; do not edit. */")
    print("/* clang-format off */")
    print(f"enum {{ GOLDEN_COUNT = {COUNT}, GOLDEN_STEPS = {STEPS} }};")
    print(f"static const float golden_start[GOLDEN_COUNT] = {array(start)};")
    print("static const float golden_gradient[GOLDEN_STEPS][GOLDEN_COUNT] = {")
    print(",\n".join("    " + array(g) for g in gradients) + "};")
    print("static const struct {\n    const char *name;\n    tdmi_optimizer optimizer;\n    double lr;")
    print("    float after[GOLDEN_STEPS][GOLDEN_COUNT];\n} golden_cases[] = {")
    for name, (kind, options) in CASES.items():
        weight = torch.nn.Parameter(start.clone())
        optimizer = kind([weight], **options)
        after = []
        for gradient in gradients:
            weight.grad = gradient.clone()
            optimizer.step()
            after.append(array(weight.detach()))
        fields = {k: number(v) for k, v in options.items() if k not in ("lr", "betas")}
        if "betas" in options:
            fields["beta1"], fields["beta2"] = map(number, options["betas"])
        text = ", ".join(f".{k} = {v}" for k, v in fields.items())
        print(f'    {{"{name}", {{.kind = TDMI_OPTIMIZER_{kind.__name__.upper()}, {text}}}, {number(options["lr"])},')
        print("     {" + ",\n      ".join(after) + "}},")
    print("};")
    print("/* Gradient k of golden_gradient, clipped to max_norm. */")
    print("static const struct {\n    int gradient;\n    double max_norm, norm;\n    float clipped[GOLDEN_COUNT];\n} golden_clips[] = {")
    for k, max_norm in ((0, 1.0), (2, 1.0), (3, 0.5), (4, 1000.0)):
        weight = torch.nn.Parameter(start.clone())
        weight.grad = gradients[k].clone()
        norm = torch.nn.utils.clip_grad_norm_([weight], max_norm)
        print(f"    {{{k}, {max_norm!r}, {norm.item()!r}, {array(weight.grad)}}},")
    print("};")


main()
