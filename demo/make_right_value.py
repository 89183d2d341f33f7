#!/usr/bin/env python3
"""Write what the encoder has to answer for the photograph, computed by transformers in float32 on the CPU.

    python demo/make_right_value.py

The road is the one of a server that runs PyTorch: Pillow decodes, Qwen2VLImageProcessor (torchvision) resizes and
normalises, the vision tower of Qwen2_5_VLForConditionalGeneration makes the rows. The checkpoint's weights are
widened to float32 first. Needs torch, torchvision, transformers, safetensors, Pillow; downloads nothing.
"""
import argparse
import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

HERE = Path(__file__).resolve().parent


def rows(checkpoint, photo):
    """(embeddings [rows, hidden] float32, grid_thw [1, 3] int64)"""
    model, info = Qwen2_5_VLForConditionalGeneration.from_pretrained(
        checkpoint, dtype=torch.float32, attn_implementation="sdpa", output_loading_info=True)
    unread = [k for k in info["missing_keys"] if "visual" in k]
    if unread or info["mismatched_keys"]:
        raise SystemExit(f"the tower was not loaded whole: {unread or info['mismatched_keys']}")
    with Image.open(photo) as im:
        picture = im.convert("RGB")
    got = Qwen2VLImageProcessor.from_pretrained(checkpoint)(images=[picture], return_tensors="pt")
    with torch.no_grad():
        out = model.eval().get_image_features(got["pixel_values"].float(), got["image_grid_thw"])
    return torch.cat(list(out.pooler_output)), got["image_grid_thw"].to(torch.int64)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--checkpoint", type=Path, default=HERE.parent / "tests/golden/checkpoints/qwen2_5_vl")
    ap.add_argument("--photo", type=Path, default=HERE / "photo.jpg")
    ap.add_argument("--out", type=Path, default=HERE / "photo.safetensors")
    args = ap.parse_args()
    embeddings, grid = rows(args.checkpoint, args.photo)
    if embeddings.dtype != torch.float32 or not embeddings.isfinite().all():
        raise SystemExit("the rows are not finite float32 numbers")
    save_file({"embeddings": embeddings.contiguous(), "grid_thw": grid.contiguous()}, args.out)
    args.out.chmod(0o644)
    print(f"{args.out.name}: {tuple(embeddings.shape)} rows, grid {grid.tolist()}")


if __name__ == "__main__":
    main()
