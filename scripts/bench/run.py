#!/usr/bin/env python3
"""Everything that docs/benchmarks.md says, in one run on this machine: ours next to PyTorch, transformers and sglang.

    run.py [--only a,b,c,d,e]

Needs the Python environment of `make conformance` (OCELLI_CONFORMANCE_VENV or conformance/.venv). About ten minutes.
Medians; the machine should have nothing else to do.
"""
import argparse
import datetime
import json
import os
import platform
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TINY = ROOT / "conformance/checkpoints/qwen2_5_vl"  # with the tokenizer that sglang wants; made below
SMALL = ROOT / "tests/golden/media/size_224.jpg"
VENV = Path(os.environ.get("OCELLI_CONFORMANCE_VENV", ROOT / "conformance/.venv"))
PYTHON = str(VENV / "bin/python")
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
OCELLI = str(TARGET / "release/ocelli")


def run(cmd, **kw):
    return subprocess.run(cmd, check=True, capture_output=True, text=True, cwd=ROOT, **kw).stdout


def bench(package, name, *args, pin=None):
    cmd = ["cargo", "bench", "--quiet", "-p", package, "--bench", name, "--", *map(str, args)]
    return run((["taskset", "-c", str(pin)] if pin is not None else []) + cmd)


def last_json(text):
    return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server process; `ready` is the time from start to the first healthy answer."""

    def __init__(self, cmd, port, limit=180):
        self.url, self.log = f"http://127.0.0.1:{port}", tempfile.TemporaryFile("w+")
        start = time.perf_counter()
        self.proc = subprocess.Popen(cmd, stdout=self.log, stderr=self.log, cwd=ROOT, start_new_session=True)
        while True:
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5) as answer:
                    if answer.status == 200:
                        break
            except OSError:
                pass
            if self.proc.poll() is not None or time.perf_counter() - start > limit:
                raise SystemExit("the server did not start: " + " ".join(cmd))
            time.sleep(0.005)
        self.ready = time.perf_counter() - start

    def memory_mib(self):
        """Resident memory of the process and its children."""
        total = 0
        for pid in [self.proc.pid, *self.children()]:
            text = Path(f"/proc/{pid}/status").read_text()
            total += int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024
        return total

    def children(self):
        return [int(p) for p in Path(f"/proc/{self.proc.pid}/task/{self.proc.pid}/children").read_text().split()]

    def lines(self):
        self.log.seek(0)
        out = []
        for line in self.log:
            try:
                out.append(json.loads(line))
            except ValueError:
                pass
        return out

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        try:
            self.proc.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.proc.pid, signal.SIGKILL)  # its own group, made above
            self.proc.wait()


def ours(*flags):
    port = free_port()
    return Server([OCELLI, "serve", "--model-path", str(TINY), "--dtype", "float32", "--port", str(port),
                   "--log-format", "json", *flags], port)


def theirs():
    port = free_port()
    return Server([PYTHON, "conformance/reference_encoder.py", "--model", str(TINY), "--backend", "zmq_to_scheduler",
                   "--dtype", "float32", "--port", str(port)], port)


def pictures(folder):
    """Two JPEGs like a camera's: the demo's photograph enlarged, with grain, quality 90, 4:2:0."""
    code = ("import sys, numpy as np\nfrom PIL import Image\nim = Image.open('demo/photo.jpg').convert('RGB')\n"
            "for w, h in ((1280, 960), (4000, 3000)):\n"
            "    a = np.asarray(im.resize((w, h), Image.BICUBIC)).astype(np.int16)\n"
            "    a += np.random.default_rng(7).integers(-6, 7, a.shape, dtype=np.int16)\n"
            "    Image.fromarray(a.clip(0, 255).astype(np.uint8)).save(f'{sys.argv[1]}/{w}x{h}.jpg', quality=90, subsampling='4:2:0')\n")
    run([PYTHON, "-c", code, folder])
    return [f"{folder}/1280x960.jpg", f"{folder}/4000x3000.jpg"]


def part_a(doc):
    with tempfile.TemporaryDirectory() as folder:
        files = pictures(folder)
        bench("ocelli", "preprocess", files[0])  # builds
        mine = last_json(bench("ocelli", "preprocess", *files, pin=1))
        other = json.loads(run(["taskset", "-c", "1", PYTHON, "scripts/bench/hf_preprocess.py", "--runs", "7", *files]))
        peer = run(["taskset", "-c", "1", "cargo", "run", "--release", "--quiet", "--manifest-path", "scripts/bench/rival/Cargo.toml", "--", *files],
                   env=os.environ | {"CARGO_TARGET_DIR": str(TARGET / "rival")})
        doc.append("## (a) JPEG to patches, one core, ms\n\nQwen2.5-VL's settings. *Ours* ends with the u8 patches that our tower eats; "
                   "*to float32* goes on to the reference's `pixel_values`, bit for bit, which ours never needs.\n")
        doc.append("| picture | ours: decode | resize, patchify | both | to float32 |\n| --- | --- | --- | --- | --- |")
        for f in files:
            m = mine[f]
            doc.append(f"| {Path(f).stem} | {m['decode_ms']:.1f} | {m['process_ms']:.1f} | {m['both_ms']:.1f} | {m['to_float32_ms']:.1f} |")
        doc.append("\n| picture | transformers, torchvision | transformers, PIL | sglang's Rust module |\n| --- | --- | --- | --- |")
        for f, p in zip(files, other["pictures"]):
            times = [p.get(k, {}).get("whole", {}).get("median_ms") for k in ("torchvision", "pil", "sglang_rust")]
            ratio = lambda t: f"{t:.1f} ({t / mine[f]['both_ms']:.1f}x ours)" if t else "-"
            doc.append(f"| {Path(f).stem} | " + " | ".join(map(ratio, times)) + " |")
        doc.append("\nThe crate `llm-multimodal`, best of 9:\n\n```\n" + peer.replace(folder + "/", "").strip() + "\n```")
        doc.append("\nThe others in full, as `scripts/bench/hf_preprocess.py` prints them:\n\n```\n" + json.dumps(other, indent=1).replace(folder + "/", "") + "\n```\n")


def part_b(doc):
    bench("ocelli-models", "tower", 2, "nothing")  # builds
    text, torch = "", []
    for _ in range(2):  # ours, theirs, ours, theirs
        text += bench("ocelli-models", "tower", 2, "1280 wide, 4 layers, 1024")
        torch.append(json.loads(run([PYTHON, "scripts/bench/torch_tower.py", "--runs", "3"])))
    doc.append("## (b) Qwen2.5-VL's tower, 1280 wide, 16 heads, mlp 3420, 4 layers, 1,024 patches, 2 threads\n\nOurs, two rounds:\n\n```\n"
               + text.strip() + "\n```\n\nPyTorch (transformers, sdpa), two rounds between them, median ms:\n\n```\n"
               + "\n".join(json.dumps(t) for t in torch) + "\n```\n")


def part_c(doc):
    bench("ocelli", "load")  # builds
    rows = []
    for name, make in (("ocelli", ours), ("sglang 0.5.23", theirs)):
        server = make()
        for concurrency in (1, 16):
            got = last_json(bench("ocelli", "load", server.url, concurrency, 8, SMALL))
            rows.append((name, concurrency, got))
        server.stop()
    doc.append("## (c) POST to received rows, tiny checkpoint, one 224×224 JPEG a request\n\nThe same client (ours) for both, on the same two cores.\n\n"
               "| server | clients | requests/s | p50 ms | p99 ms | failed |\n| --- | --- | --- | --- | --- | --- |")
    for name, concurrency, got in rows:
        doc.append(f"| {name} | {concurrency} | {got['requests_per_second']:.1f} | {got['p50_ms']:.2f} | {got['p99_ms']:.2f} | {got['failed']} |")
    doc.append("")


def part_d(doc):
    bench("ocelli", "load")
    server = ours()
    got = last_json(bench("ocelli", "load", server.url, 1, 5, SMALL))
    lines = [line for line in server.lines() if line.get("message") == "request"][20:]
    server.stop()
    med = {k: statistics.median(line[k] for line in lines) for k in
           ("fetch_ms", "decode_ms", "process_ms", "queue_ms", "forward_ms", "deliver_ms", "total_ms")}
    doc.append("## (d) One 224×224 picture through the idle server\n\nMedians of " + str(len(lines)) + " requests, ms.\n")
    doc.append("| client: POST to rows | " + " | ".join(k.removesuffix("_ms") for k in med) + " | not the forward |\n" + "| --- " * (len(med) + 2) + "|")
    doc.append(f"| {got['p50_ms']:.2f} | " + " | ".join(f"{v:.2f}" for v in med.values()) + f" | {got['p50_ms'] - med['forward_ms']:.2f} |\n")


def part_e(doc):
    doc.append("## (e) Start-up to healthy, and resident memory\n\nTiny checkpoint; memory after the first healthy answer and after 50 requests.\n\n"
               "| server | healthy after s | MiB then | MiB later |\n| --- | --- | --- | --- |")
    for name, make in (("ocelli", ours), ("sglang 0.5.23", theirs)):
        times, first, later = [], 0, 0
        for _ in range(3 if make is ours else 1):
            server = make()
            times.append(server.ready)
            first = server.memory_mib()
            bench("ocelli", "load", server.url, 2, 2, SMALL)
            later = server.memory_mib()
            server.stop()
        doc.append(f"| {name} | {statistics.median(times):.2f} | {first:.0f} | {later:.0f} |")
    doc.append("")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--only", default="a,b,c,d,e")
    ap.add_argument("--out", type=Path, default=ROOT / "docs/benchmarks.md")
    args = ap.parse_args()
    if not Path(PYTHON).exists():
        raise SystemExit("the Python environment is missing; `make conformance` sets it up, OCELLI_CONFORMANCE_VENV names another")
    if not (TINY / "config.json").exists():
        run([PYTHON, "conformance/make_tiny_checkpoints.py", "--out", "conformance/checkpoints", "--only", "qwen2_5_vl"])
    print("building", flush=True)
    run(["cargo", "build", "--release", "--quiet", "-p", "ocelli"])
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?")
    doc = [f"# Benchmarks\n\n`make bench`, {datetime.date.today()}, {os.cpu_count()} cores of {cpu}, Linux {platform.release()}, load "
           f"{os.getloadavg()[0]:.1f} at the start. Medians; such machines are noisy, so compare within a section only.\n"]
    for part in args.only.split(","):
        print("part", part, flush=True)
        globals()[f"part_{part}"](doc)
        args.out.write_text("\n".join(doc).rstrip() + "\n")  # after each part: a long run may be cut short
    print("written:", args.out.name)


if __name__ == "__main__":
    main()
