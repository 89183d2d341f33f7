#!/usr/bin/env python3
"""Time from JPEG bytes to pixel_values on one thread: Hugging Face (torchvision and PIL backends) and, where
sglang is installed with its Rust extensions, sglang's own module. Prints JSON, milliseconds.

    hf_preprocess.py [--runs 9] [--processor qwen2_5_vl|qwen3_vl] PICTURE.jpg...

Needs torch, torchvision, transformers, Pillow. Pin it to one core (`taskset -c 1`) for figures to compare.
"""
import argparse
import io
import json
import os
import statistics
import sys
import time

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
import torch
import transformers
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

CLIP = dict(image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711])
HALF = dict(image_mean=[0.5, 0.5, 0.5], image_std=[0.5, 0.5, 0.5])
SETTINGS = {
    "qwen2_5_vl": dict(size=dict(shortest_edge=3136, longest_edge=12845056), patch_size=14, temporal_patch_size=2, merge_size=2, **CLIP),
    "qwen3_vl": dict(size=dict(shortest_edge=65536, longest_edge=16777216), patch_size=16, temporal_patch_size=2, merge_size=2, **HALF),
}


def timed(runs, work):
    """Best and median of `runs`, after one that does not count; and the last result."""
    result, times = work(), []
    for _ in range(runs):
        start = time.perf_counter()
        result = work()
        times.append((time.perf_counter() - start) * 1e3)
    return dict(best_ms=round(min(times), 3), median_ms=round(statistics.median(times), 3)), result


def sglang_preprocess(settings):
    """sglang's module as a function of bytes, or why it is not there."""
    try:
        from sglang.srt.rust_extensions.loader import load_rust_extension

        module = load_rust_extension("sglang.srt.rust_extensions._multimodal")
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    spec = json.dumps(dict(
        family="qwen_vl", feature_shm=False, image_token_id=0, resample="aten_u8",
        min_pixels=settings["size"]["shortest_edge"], max_pixels=settings["size"]["longest_edge"],
        **{key: value for key, value in settings.items() if key != "size"},
    ))
    return (lambda data: module.qwen_vl.preprocess(data, spec)), None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--processor", choices=SETTINGS, default="qwen2_5_vl")
    args = parser.parse_args()
    torch.set_num_threads(1)
    settings = SETTINGS[args.processor]
    torchvision_backend, pil_backend = Qwen2VLImageProcessor(**settings), Qwen2VLImageProcessorPil(**settings)
    native, why_not = sglang_preprocess(settings)

    rows = []
    for path in args.files:
        with open(path, "rb") as file:
            data = file.read()

        def decode():
            return Image.open(io.BytesIO(data)).convert("RGB")

        decoding, image = timed(args.runs, decode)
        backends = {}
        for name, processor in (("torchvision", torchvision_backend), ("pil", pil_backend)):
            whole, out = timed(args.runs, lambda: processor(images=[decode()], return_tensors="pt"))
            alone, _ = timed(args.runs, lambda: processor(images=[image], return_tensors="pt"))
            backends[name] = dict(whole=whole, processor=alone)
            if name == "torchvision":
                right = out["pixel_values"].numpy()
                grid = out["image_grid_thw"][0].tolist()
        if native:
            try:
                whole, (values, native_grid) = timed(args.runs, lambda: native(data))
                values = np.asarray(values, dtype=np.float32).reshape(right.shape)
                backends["sglang_rust"] = dict(
                    whole=whole, equal_to_torchvision=bool(np.array_equal(values, right)),
                    largest_difference=float(np.abs(values - right).max()), grid=list(native_grid))
            except Exception as error:
                backends["sglang_rust"] = dict(error=f"{type(error).__name__}: {error}")
        else:
            backends["sglang_rust"] = dict(error=why_not)
        rows.append(dict(file=os.path.basename(path), bytes=len(data), size=image.size, grid=grid, decode_pil=decoding, **backends))
    versions = dict(transformers=transformers.__version__, torch=torch.__version__, pillow=Image.__version__)
    json.dump(dict(processor=args.processor, threads=1, runs=args.runs, versions=versions, pictures=rows), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
