#!/usr/bin/env python3
"""Take the part of a full golden folder that the supported families need into tests/golden.

    scripts/take-goldens.py FULL_GOLDEN_DIR

The layout stays the same, so the golden runner reads either folder.
"""
import json
import shutil
import sys
from pathlib import Path

MODELS = {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"}
PROCESSORS = {"qwen2_vl", "qwen2_vl_capped", "qwen3_vl"}

src = Path(sys.argv[1])
dst = Path(__file__).resolve().parent.parent / "tests" / "golden"


def dump(value, path):
    """One case a line, as the full manifests have them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    out = ["{"]
    for n, (key, part) in enumerate(value.items()):
        end = "," if n + 1 < len(value) else ""
        if isinstance(part, list) and part and isinstance(part[0], dict):
            rows = ",\n".join("  " + json.dumps(row) for row in part)
            out.append(f' {json.dumps(key)}: [\n{rows}\n ]{end}')
        elif isinstance(part, dict) and len(part) > 15:
            rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in part.items())
            out.append(f' {json.dumps(key)}: {{\n{rows}\n }}{end}')
        else:
            out.append(f" {json.dumps(key)}: {json.dumps(part)}{end}")
    path.write_text("\n".join(out + ["}"]) + "\n")


def copy(name):
    target = dst / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(src / name, target)


media = json.loads((src / "media/manifest.json").read_text())
media["media"] = {k: v for k, v in media["media"].items() if v["kind"] in ("image", "bad")}
dump(media, dst / "media/manifest.json")
for name in media["media"]:
    copy(f"media/{name}")
for name in ("data_uris.json", "SOURCES.md"):
    copy(f"media/{name}")

pre = json.loads((src / "preprocess/manifest.json").read_text())
pre["image_processors"] = {k: v for k, v in pre["image_processors"].items() if k in PROCESSORS}
pre["video_processors"], pre["audio_processors"] = {}, {}
for key in ("cases", "batches", "refused"):
    pre[key] = [c for c in pre[key] if c["processor"] in PROCESSORS and c.get("modality", "image") == "image"
                and "video" not in str(c.get("media")) and ".mp4" not in str(c.get("media"))]
dump(pre, dst / "preprocess/manifest.json")
copy("preprocess/decoded.safetensors")
for name in PROCESSORS:
    for part in ("full", "samples"):
        copy(f"preprocess/image.{name}.{part}.safetensors")

emb = json.loads((src / "embeddings/manifest.json").read_text())
emb["cases"] = [c for c in emb["cases"] if c["model"] in MODELS and c["modality"] == "image"]
emb["observed"] = {k: v for k, v in emb["observed"].items() if k in MODELS}
dump(emb, dst / "embeddings/manifest.json")
for name in MODELS:
    copy(f"embeddings/{name}.safetensors")
    copy(f"embeddings/{name}.inputs.safetensors")
    for part in (src / "checkpoints" / name).iterdir():
        copy(f"checkpoints/{name}/{part.name}")

hashes = json.loads((src / "hashes/hashes.json").read_text())
dump(hashes, dst / "hashes/hashes.json")
copy("hashes/inputs.safetensors")
