#!/usr/bin/env python3
"""Run every conformance case against an encoder server and print a table.

    # 1. the real sglang encoder: records its answers in golden/
    python run_conformance.py

    # 2. the server under test, compared with golden/
    python run_conformance.py --server-cmd 'path/to/server --model {model} --backend {backend} \\
        --dtype {dtype} --host {host} --port {port}'

    # 3. pictures only: golden/ of this folder has the answers for three families of them
    python run_conformance.py --modality image --family qwen2_vl qwen2_5_vl qwen3_vl \\
        --backend zmq_to_scheduler zmq_to_tokenizer --server-cmd '...'

Checkpoints and media are made on first use. One server process is started per
(family, backend, dtype) and stopped by its own pid. Only loopback is used.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ZMQ = ("zmq_to_scheduler", "zmq_to_tokenizer")

IMAGE = {
    "png": ["--image", "a_224x168.png"],
    "jpg+webp+png": ["--image", "b_500x333.jpg", "--image", "c_90x410.webp", "--image", "a_224x168.png"],
    "rgba+gray+hash": ["--image", "d_rgba_120x80.png", "--image", "e_gray_64x64.png", "--content-hash"],
    "path": ["--image", "b_500x333.jpg", "--send-as", "path"],
    "file-url": ["--image", "a_224x168.png", "--send-as", "file-url"],
    "http": ["--image", "b_500x333.jpg", "--send-as", "http"],
    "2-encoders": ["--image", "a_224x168.png", "--image", "b_500x333.jpg", "--image", "c_90x410.webp", "+encoder"],
    "tp2": ["--image", "a_224x168.png", "--image", "b_500x333.jpg", "--tp-size", "2"],
    "burst": ["--image", "a_224x168.png", "--repeat", "24", "--concurrency", "8"],
    "mixed-burst": ["--image", "a_224x168.png", "--image", "b_500x333.jpg", "--image", "c_90x410.webp",
                    "--image", "e_gray_64x64.png", "--vary", "--repeat", "24", "--concurrency", "8"],
    "broken": ["--image", "broken.png", "--expect-error", "400"],
    "missing": ["--image", "/nonexistent/x.png", "--expect-error", "400,500"],  # sglang says 500; a client error is as good
    "part-fails": ["--image", "a_224x168.png", "--image", "broken.png", "+encoder", "--expect-error", "400"],
}
VIDEO = {
    "video": ["--video", "a_24f.mp4"],
    "2-videos": ["--video", "b_60f.mp4", "--video", "a_24f.mp4"],
    "image+video": ["--image", "a_224x168.png", "--video", "b_60f.mp4"],
    "broken-video": ["--video", "broken.png", "--expect-error", "400"],
}
AUDIO = {
    "wav": ["--audio", "a_3s.wav"],
    "2-wavs": ["--audio", "b_1s_44k.wav", "--audio", "a_3s.wav"],
    "audio-tp2": ["--audio", "a_3s.wav", "--tp-size", "2"],
    "audio-burst": ["--audio", "a_3s.wav", "--repeat", "24", "--concurrency", "8"],
    "audio-mixed-burst": ["--audio", "a_3s.wav", "--audio", "b_1s_44k.wav", "--vary", "--repeat", "24", "--concurrency", "8"],
    "broken-audio": ["--audio", "broken.png", "--expect-error", "400"],
}
OMNI = {"image+video+audio": ["--image", "a_224x168.png", "--video", "a_24f.mp4", "--audio", "a_3s.wav"]}
MODALITIES = {"image": IMAGE, "video": VIDEO, "audio": AUDIO}  # video has the cases of pictures with videos, too
FAMILIES = {
    "qwen2_vl": IMAGE | VIDEO, "qwen2_5_vl": IMAGE | VIDEO, "qwen3_vl": IMAGE | VIDEO,
    "qwen2_audio": AUDIO, "qwen3_omni": IMAGE | VIDEO | AUDIO | OMNI,
}

# Plain HTTP behaviour: name, method, path, body. Answers are compared exactly.
GOOD = dict(req_id="r0", modality="IMAGE", mm_items=["x"], num_parts=1, part_idx=0)
HTTP_CASES = [
    ("health", "GET", "/health", None),
    ("health_generate", "GET", "/health_generate", None),
    ("no-route", "GET", "/nope", None),
    ("encode-get", "GET", "/encode", None),
    ("encode-not-json", "POST", "/encode", b"{"),
    ("encode-list-body", "POST", "/encode", []),
    ("encode-empty", "POST", "/encode", {}),
    ("encode-no-modality", "POST", "/encode", {k: v for k, v in GOOD.items() if k != "modality"}),
    ("encode-bad-modality", "POST", "/encode", GOOD | {"modality": "SMELL"}),
    ("encode-no-items", "POST", "/encode", GOOD | {"mm_items": []}),
    ("encode-zero-parts", "POST", "/encode", GOOD | {"num_parts": 0}),
    ("encode-bool-parts", "POST", "/encode", GOOD | {"num_parts": True}),
    ("encode-part-range", "POST", "/encode", GOOD | {"part_idx": 1}),
    ("encode-bad-hashes", "POST", "/encode", GOOD | {"hashes": {}}),
    ("stop-profile-idle", "POST", "/stop_profile", None),
]


def http_call(port, method, path, body, timeout=60):
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    conn.request(method, path, data, {"Content-Type": "application/json"} if data is not None else {})
    r = conn.getresponse()
    text = r.read().decode("utf-8", "replace")
    conn.close()
    try:
        text = json.loads(text)
    except ValueError:
        pass
    return {"status": r.status, "type": r.headers.get("content-type"), "body": text}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def same_answer(got, want):
    """Status, and for JSON objects the same keys, `status` and `req_id`. Wording is the server's own."""
    if got is None or got["status"] != want["status"]:
        return False
    a, b = got["body"], want["body"]
    if not isinstance(b, dict):
        return a == b
    return isinstance(a, dict) and set(a) == set(b) and all(a[k] == b[k] for k in ("status", "req_id") if k in b)


class Server:
    def __init__(self, cmd, log):
        self.log = open(log, "wb")
        self.proc = subprocess.Popen(cmd, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)

    def wait_ready(self, port, limit):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if self.proc.poll() is not None:
                return False
            try:
                if http_call(port, "GET", "/health", None, timeout=limit)["status"] == 200:
                    return True
            except OSError:
                pass
            time.sleep(0.2)
        return False

    def stop(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
            try:
                self.proc.wait(20)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        try:
            os.killpg(self.proc.pid, signal.SIGKILL)  # its own group: workers that outlived it
        except ProcessLookupError:
            pass
        self.log.close()


def probe(argv, log):
    """In a forked child, so that sglang is imported once for all cases."""
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    import receiver_probe
    receiver_probe.main(argv)


def resolve(args, media):
    out = []
    for i, a in enumerate(args):
        if i and args[i - 1] in ("--image", "--video", "--audio") and (media / a).is_file():
            a = str(media / a)
        out.append(a)
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--server-cmd", help="command line with {model} {backend} {dtype} {host} {port}; default: reference")
    ap.add_argument("--family", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    ap.add_argument("--backend", nargs="*", default=[*ZMQ, "mooncake"], choices=[*ZMQ, "mooncake"])
    ap.add_argument("--modality", default="all", choices=[*MODALITIES, "all"],
                    help="only cases of this kind, and the plain HTTP cases; families without one are left out")
    ap.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    ap.add_argument("--case", nargs="*", help="only these cases")
    ap.add_argument("--data", type=Path, default=HERE, help="folder for checkpoints/, media/, golden/ and logs/")
    ap.add_argument("--golden", type=Path, help="default DATA/golden")
    ap.add_argument("--start-timeout", type=float, default=120)
    ap.add_argument("--atol", type=float)
    ap.add_argument("--rtol", type=float)
    args = ap.parse_args()
    cases = {f: {c: x for c, x in FAMILIES[f].items() if args.modality == "all" or c in MODALITIES[args.modality]}
             for f in args.family}
    args.family = [f for f in args.family if cases[f]]
    if not args.family:
        ap.error(f"none of these families has a case of --modality {args.modality}")
    if args.case:
        known = {c for f in args.family for c in cases[f]}
        if unknown := sorted(set(args.case) - known):
            ap.error(f"no such case: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    reference = args.server_cmd is None
    golden = args.golden or args.data / "golden"
    ckpts, media, logs = args.data / "checkpoints", args.data / "media", args.data / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    if not media.is_dir():
        subprocess.run([sys.executable, HERE / "make_media.py", "--out", media], check=True, stdout=subprocess.DEVNULL)
    for f in args.family:
        if not (ckpts / f / "config.json").is_file():
            subprocess.run([sys.executable, HERE / "make_tiny_checkpoints.py", "--out", ckpts, "--only", f],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    sys.path.insert(0, str(HERE))
    import receiver_probe  # noqa: F401  sets the environment before sglang is imported
    from sglang.srt.disaggregation.encoder import receiver  # imported once here, inherited by every case
    receiver.import_processors("sglang.srt.multimodal.processors")
    fork = multiprocessing.get_context("fork")

    passed = failed = 0
    rows, recorded = [], set()

    def report(key, ok, seconds, note):
        nonlocal passed, failed
        passed, failed = passed + ok, failed + (not ok)
        rows.append(dict(case=key, ok=ok, seconds=round(seconds, 2), note=note))
        print(f"{'ok  ' if ok else 'FAIL'} {seconds:6.1f}s  {key:52s} {note}", flush=True)

    for family in args.family:
        for backend in args.backend:
            port, tag = free_port(), f"{family}.{backend}.{args.dtype}"
            fill = dict(model=str(ckpts / family), backend=backend, dtype=args.dtype, host="127.0.0.1", port=port)
            cmd = ([sys.executable, str(HERE / "reference_encoder.py"), "--model", fill["model"], "--backend", backend,
                    "--dtype", args.dtype, "--port", str(port)] if reference
                   else [part.format(**fill) for part in shlex.split(args.server_cmd)])
            t0 = time.monotonic()
            server = Server(cmd, logs / f"{tag}.server.log")
            try:
                if not server.wait_ready(port, args.start_timeout):
                    report(f"{tag} start", False, time.monotonic() - t0, f"not healthy; see {logs / f'{tag}.server.log'}")
                    continue
                report(f"{tag} start", True, time.monotonic() - t0, "healthy")
                if not args.case:
                    got = {n: http_call(port, m, p, b) for n, m, p, b in HTTP_CASES}
                    file = golden / f"{family}.{backend}.http.json"
                    if reference:
                        file.parent.mkdir(parents=True, exist_ok=True)
                        file.write_text(json.dumps(got, indent=2) + "\n")
                    want = json.loads(file.read_text())
                    bad = [n for n in want if not same_answer(got.get(n), want[n])]
                    report(f"{tag} http", not bad, 0, "; ".join(
                        f"{n}: got {json.dumps(got[n])[:90]}, expected {json.dumps(want[n])[:90]}" for n in bad)
                        or f"{len(want)} answers")
                for case, extra in cases[family].items():
                    if args.case and case not in args.case:
                        continue
                    if backend == "zmq_to_tokenizer" and "--tp-size" in extra:
                        continue  # one receiver only on that path
                    argv = ["--model", fill["model"], "--backend", backend, "--dtype", args.dtype,
                            "--encoder-url", f"http://127.0.0.1:{port}", *resolve(extra, media)]
                    if "+encoder" in argv:  # the same server twice: two parts per request
                        argv[argv.index("+encoder"):argv.index("+encoder") + 1] = ["--encoder-url", f"http://127.0.0.1:{port}"]
                    if "--expect-error" in argv and backend == "mooncake":
                        # the /encode answer (400) races with the metadata answer (always 500)
                        argv[argv.index("--expect-error") + 1] = "400,500"
                    if "--expect-error" not in argv and "--vary" not in argv:
                        file = golden / f"{family}.{case}.{backend if backend == 'mooncake' else 'zmq'}.{args.dtype}.safetensors"
                        # the reference's second ZMQ backend is compared with its first
                        argv += ["--save" if reference and file not in recorded else "--expect", str(file)]
                        recorded.add(file)
                    for opt in ("atol", "rtol"):
                        if getattr(args, opt) is not None:
                            argv += [f"--{opt}", str(getattr(args, opt))]
                    t0, log = time.monotonic(), logs / f"{tag}.{case}.log"
                    child = fork.Process(target=probe, args=(argv, str(log)))
                    child.start()
                    child.join(300)
                    if child.is_alive():
                        child.kill()
                        child.join()
                    lines = log.read_text(errors="replace").splitlines() or ["no output"]
                    took = [x.strip() for x in lines if " took " in x or "req/s" in x]
                    ok = child.exitcode == 0
                    report(f"{tag} {case}", ok, time.monotonic() - t0, (took[-1] if took and ok else lines[-1])[:150])
            finally:
                server.stop()
    (logs / "results.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{passed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
