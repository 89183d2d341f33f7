#!/usr/bin/env python3
"""Forward time of Qwen2.5-VL's tower in PyTorch on the CPU: 1280 wide, 16 heads, mlp 3420, 4 layers, random weights.

    torch_tower.py [--threads 2] [--runs 5] [--patches 1024]

Prints JSON, milliseconds, medians. The same sizes as `cargo bench -p ocelli-models --bench tower`.
"""
import argparse
import json
import statistics
import time

import torch
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel as Tower

ap = argparse.ArgumentParser()
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--runs", type=int, default=5)
ap.add_argument("--patches", type=int, default=1024)
args = ap.parse_args()
torch.set_num_threads(args.threads)
config = Qwen2_5_VLVisionConfig(depth=4, hidden_size=1280, intermediate_size=3420, num_heads=16, out_hidden_size=2048,
                                fullatt_block_indexes=[3])
config._attn_implementation = "sdpa"
tower = Tower._from_config(config).eval()
side = int(args.patches ** 0.5)
out = {}
for dtype in (torch.float32, torch.bfloat16):
    tower = tower.to(dtype)
    x, grid = torch.randn(side * side, 1176, dtype=dtype), torch.tensor([[1, side, side]])
    times = []
    with torch.inference_mode():
        for _ in range(args.runs + 1):
            start = time.perf_counter()
            tower(x, grid_thw=grid)
            times.append((time.perf_counter() - start) * 1e3)
    out[str(dtype).removeprefix("torch.")] = statistics.median(times[1:])
print(json.dumps(out))
