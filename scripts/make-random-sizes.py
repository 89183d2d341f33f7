#!/usr/bin/env python3
"""Write crates/ocelli-models/tests/data/random_sizes.json: for pictures of random sizes, the digest of the bytes
that the reference resizes and patchifies them to (torchvision backend; before rescaling, one frame of a patch).

Needs torch, torchvision, transformers. The pictures are a formula, which the test has too.
"""
import hashlib
import json
import random
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

SETTINGS = {
    "qwen2_vl": dict(size=dict(shortest_edge=3136, longest_edge=12845056), patch_size=14),
    "qwen2_vl_capped": dict(size=dict(shortest_edge=12544, longest_edge=18816), patch_size=14),
    "qwen3_vl": dict(size=dict(shortest_edge=65536, longest_edge=16777216), patch_size=16),
}
OUT = Path(__file__).resolve().parent.parent / "crates/ocelli-models/tests/data/random_sizes.json"


def picture(width, height):
    """Noise: byte i of the picture is (i * 2654435761 mod 2^32) >> 11, cut to 8 bits."""
    i = np.arange(width * height * 3, dtype=np.uint32)
    return ((i * np.uint32(2654435761)) >> np.uint32(11)).astype(np.uint8).reshape(height, width, 3)


def main():
    chance = random.Random(20)
    sizes = [(chance.randint(1, 700), chance.randint(1, 700)) for _ in range(170)]
    sizes += [(chance.randint(500, 1500), chance.randint(20, 1500)) for _ in range(24)]
    sizes += [(chance.randint(1500, 2600), chance.randint(1500, 2600)) for _ in range(6)]
    cases = []
    for n, (width, height) in enumerate(sizes):
        large = width * height > 1_500_000
        name = "qwen2_vl_capped" if large else list(SETTINGS)[n % 3]
        processor = Qwen2VLImageProcessor(**SETTINGS[name], do_rescale=False, do_normalize=False)
        pixels = torch.from_numpy(picture(width, height)).permute(2, 0, 1)
        try:
            out = processor(images=[pixels], return_tensors="pt", input_data_format="channels_first")
        except ValueError as error:
            print(width, height, error)
            continue
        patch = SETTINGS[name]["patch_size"]
        values = out["pixel_values"].numpy().reshape(-1, 3, 2, patch * patch)
        assert (values[:, :, 0] == values[:, :, 1]).all() and (values == np.round(values)).all()
        data = values[:, :, 0].astype(np.uint8).tobytes()
        grid = out["image_grid_thw"][0].tolist()
        cases.append(dict(width=width, height=height, processor=name, grid=grid, sha256=hashlib.sha256(data).hexdigest()))
    head = dict(transformers=transformers.__version__, torch=torch.__version__)
    rows = ",\n".join("  " + json.dumps(case) for case in cases)
    OUT.write_text(f'{{\n "versions": {json.dumps(head)},\n "cases": [\n{rows}\n ]\n}}\n')
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
