#!/usr/bin/env python3
"""PyTorch's products and attention on the CPU, the cases of `cargo bench -p ocelli-engine --bench cpu_kernels` by the
same names, float32 and bfloat16: a table on the error stream, JSON on the output. Figures are medians.

    torch_kernels.py [THREADS [ROUNDS [FILTER]]]

To compare on a machine that others use too, run this and the bench in turn, several times.
"""
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

ROWS, HEADS, HEAD_DIM = 1024, 16, 80


def swiglu(x, w, b):
    (gate, up), (gate_bias, up_bias) = w.chunk(2), b.chunk(2)
    return F.silu(F.linear(x, gate, gate_bias)) * F.linear(x, up, up_bias)


PRODUCTS = [
    ("qkv", 3840, 1280, F.linear),
    ("proj", 1280, 1280, F.linear),
    ("gate_up", 6840, 1280, F.linear),
    ("swiglu", 6840, 1280, swiglu),
    ("down", 1280, 3420, F.linear),
    ("gelu_erf", 5120, 1280, lambda x, w, b: F.gelu(F.linear(x, w, b))),
    ("gelu_tanh", 5120, 1280, lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh")),
    ("quick_gelu", 5120, 1280, lambda x, w, b: (y := F.linear(x, w, b)) * torch.sigmoid(1.702 * y)),
]


def cases(wanted):
    """(name, floating-point operations, call)."""
    for dtype, short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        for name, n, k, call in PRODUCTS:
            label = f"{name} {short} {k}→{n}"
            if wanted in label:
                operands = torch.randn(ROWS, k), torch.randn(n, k) * 0.05, torch.randn(n)
                operands = [operand.to(dtype) for operand in operands]
                yield label, 2 * ROWS * n * k, lambda call=call, operands=operands: call(*operands)
        for name, length in (("full", 1024), ("window", 64)):
            label = f"{name} {short} {length}"
            if wanted in label:
                qkv = [torch.randn(ROWS // length, HEADS, length, HEAD_DIM).to(dtype) for _ in range(3)]
                flops = 4 * ROWS * length * HEADS * HEAD_DIM
                yield label, flops, lambda qkv=qkv: F.scaled_dot_product_attention(*qkv)


def main():
    args = sys.argv[1:] + [None] * 3
    threads, rounds, wanted = int(args[0] or 2), int(args[1] or 15), args[2] or ""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    with torch.inference_mode():
        taken = [(name, flops, call, [], []) for name, flops, call in cases(wanted)]
        for round_ in range(rounds + 1):
            for _, _, call, seconds, core_seconds in taken:
                core_start, start = time.process_time(), time.perf_counter()
                call()
                if round_:  # the first round only touches memory
                    seconds.append(time.perf_counter() - start)
                    core_seconds.append(time.process_time() - core_start)
    rows = []
    for name, flops, _, seconds, core_seconds in taken:
        middle = statistics.median(seconds)
        rate, best, core = (flops / 1e9 / t for t in (middle, min(seconds), statistics.median(core_seconds)))
        line = f"{name:24} {middle * 1e3:8.2f} ms {rate:7.1f} GFLOP/s, best {best:7.1f}, a core {core:7.1f}"
        print(line, file=sys.stderr)
        row = {"case": name, "median_ms": round(middle * 1e3, 3), "gflops": round(rate, 1)}
        rows.append(row | {"best_gflops": round(best, 1), "core_gflops": round(core, 1)})
    print(json.dumps({"torch": torch.__version__, "threads": threads, "rounds": rounds, "cases": rows}, ensure_ascii=False))


if __name__ == "__main__":
    main()
