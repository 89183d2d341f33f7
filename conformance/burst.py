#!/usr/bin/env python3
"""Send many /encode at once, say only afterwards where the rows shall go, and count what arrives.

    python burst.py --server-url http://127.0.0.1:31000 --count 200
    python burst.py --server-cmd 'path/to/server --model {model} --backend {backend} --dtype {dtype} --port {port}'
    python burst.py --reference            # the real sglang encoder; --reference=--dp-size=2 gives it more flags

The server runs with zmq_to_scheduler; the last two forms start one on a tiny checkpoint and stop it again. Every /encode has been written to its own connection
before the first /scheduler_receive_url leaves, so the server must keep all of them until their destinations are known.
One PULL socket receives; frame 0 is read by sglang's own SafeUnpickler. A message counts when it carries a request id
of this burst that has not come yet, no error, and exactly as many bytes as its shape and dtype say.
The last line is `N of COUNT delivered`; the exit status is 0 only when all were.
"""
import argparse
import asyncio
import base64
import io
import json
import mimetypes
import os
import re
import shlex
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

os.environ.update({"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""})

HERE = Path(__file__).resolve().parent
HOST = "127.0.0.1"


def seeded_picture():
    import numpy as np
    from PIL import Image
    pixels = np.random.default_rng(1).integers(0, 256, (56, 84, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue(), "image/png"


async def post(server, path, body):
    """Write one request; returns the reader of its answer, which may be a long time in coming."""
    reader, writer = await asyncio.open_connection(server.hostname, server.port or 80)
    data = json.dumps(body).encode()
    writer.write(f"POST {path} HTTP/1.1\r\nHost: {server.netloc}\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data)
    await writer.drain()
    return reader, writer


async def answer(reader, writer):
    """(status, body)"""
    try:
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), body
    finally:
        writer.close()


def verdict(frames, waiting):
    """(request id or None, what is wrong or None)"""
    import torch
    from sglang.srt.utils.common import safe_pickle_loads
    try:
        data = safe_pickle_loads(frames[0])
    except Exception as e:
        return None, f"SafeUnpickler refused frame 0: {e}"
    req_id = getattr(data, "req_id", None)
    if req_id not in waiting:
        return None, "a message with an unknown or a repeated request id"
    if data.error_msg is not None:
        return req_id, f"refused with {data.error_code}: {data.error_msg}"
    rows, width = data.shape
    want = rows * width * torch.empty(0, dtype=data.dtype).element_size()
    if len(frames) != 2 or len(frames[1]) != want or want == 0:
        return req_id, f"frames of {[len(f) for f in frames]} bytes where {want} bytes of rows were announced"
    return req_id, None


async def burst(args, item, pull, port, wrong):
    server = urlsplit(args.server_url)
    ids = [f"burst-{uuid.uuid4().hex}_local_part_0" for _ in range(args.count)]
    waiting, delivered = set(ids), 0
    encodes, registered = [], []

    async def receive():
        nonlocal delivered
        while waiting:
            req_id, fault = verdict(await pull.recv_multipart(), waiting)
            waiting.discard(req_id)
            delivered += fault is None
            if fault:
                wrong[fault] += 1

    async def watch(path, link):
        status, body = await answer(*link)
        if status != 200:
            text = re.sub(r"burst-[0-9a-f]{32}", "burst-…", body.decode("utf-8", "replace"))  # counted together
            wrong[f"{path} answered {status}: {text[:160]}"] += 1

    async def everything():
        encodes.extend(await asyncio.gather(*(post(server, "/encode", dict(
            req_id=i, modality="IMAGE", mm_items=[item], num_parts=1, part_idx=0,
            prefill_host=HOST, embedding_port=None)) for i in ids)))
        answers.extend(asyncio.create_task(watch("/encode", e)) for e in encodes)
        await asyncio.sleep(args.hold)
        registered.extend(await asyncio.gather(*(post(server, "/scheduler_receive_url", dict(
            req_id=i, receive_count=1, receive_url=f"{HOST}:{port}", modality="IMAGE")) for i in ids)))
        answers.extend(asyncio.create_task(watch("/scheduler_receive_url", r)) for r in registered)
        await receiver
        await asyncio.gather(*answers)

    answers, receiver = [], asyncio.create_task(receive())
    try:
        await asyncio.wait_for(everything(), args.timeout)
    except asyncio.TimeoutError:
        wrong[f"time-out after {args.timeout:g} s; {len(waiting)} messages missing"] += 1
    except OSError as e:
        wrong[f"cannot talk to {args.server_url}: {e}"] += 1
    finally:
        for task in (receiver, *answers):
            task.cancel()
        await asyncio.gather(receiver, *answers, return_exceptions=True)
    return delivered


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = ap.add_mutually_exclusive_group(required=True)
    which.add_argument("--server-url")
    which.add_argument("--server-cmd", help="template, as of run_conformance.py")
    which.add_argument("--reference", nargs="?", const="", metavar="FLAGS", help="reference_encoder.py, with more flags for sglang")
    ap.add_argument("--send-timeout", type=int, metavar="S", help="SGLANG_ENCODER_SEND_TIMEOUT of the server that is started")
    ap.add_argument("--count", type=int, default=200)
    ap.add_argument("--image", type=Path, help="picture to send every time; default: a small seeded PNG")
    ap.add_argument("--hold", type=float, default=0.5, help="seconds between the last /encode and the first destination")
    ap.add_argument("--timeout", type=float, default=60, help="seconds for the whole burst")
    args = ap.parse_args()
    if args.count < 1:
        ap.error("--count must be at least 1")

    server = None
    if not args.server_url:
        server, args.server_url = start(args)
    try:
        ok = measure(args)
    finally:
        if server:
            server.stop()
    sys.exit(not ok)


def start(args):
    """A server of our own on the tiny checkpoint: (server, url)"""
    from run_conformance import Server, free_port
    model, port, logs = HERE / "checkpoints/qwen2_5_vl", free_port(), HERE / "logs"
    if not (model / "config.json").is_file():
        import subprocess
        subprocess.run([sys.executable, HERE / "make_tiny_checkpoints.py", "--out", model.parent, "--only", model.name],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    template = args.server_cmd or shlex.join([sys.executable, str(HERE / "reference_encoder.py")]) + (
        f" --model {{model}} --backend {{backend}} --dtype {{dtype}} --port {{port}} -- {args.reference}")
    fill = dict(model=str(model), backend="zmq_to_scheduler", dtype="float32", host=HOST, port=port)
    if args.send_timeout:
        os.environ["SGLANG_ENCODER_SEND_TIMEOUT"] = str(args.send_timeout)  # inherited
    logs.mkdir(exist_ok=True)
    server = Server([part.format(**fill) for part in shlex.split(template)], logs / "burst.server.log")
    if not server.wait_ready(port, 120):
        server.stop()
        raise SystemExit(f"the server did not become healthy; see {logs / 'burst.server.log'}")
    return server, f"http://{HOST}:{port}"


def measure(args):
    """Whether all arrived and nothing was wrong."""
    import sglang.srt.disaggregation.encoder.receiver  # noqa: F401  the class that frame 0 names; slow, so before the clock
    import zmq.asyncio
    if args.image:
        data, mime = args.image.read_bytes(), mimetypes.guess_type(args.image.name)[0] or "application/octet-stream"
    else:
        data, mime = seeded_picture()
    item = f"data:{mime};base64,{base64.b64encode(data).decode()}"

    async def run():
        context = zmq.asyncio.Context()
        pull = context.socket(zmq.PULL)
        try:
            pull.setsockopt(zmq.RCVHWM, 0)
            port = pull.bind_to_random_port(f"tcp://{HOST}")
            return await burst(args, item, pull, port, wrong)
        finally:
            pull.close(linger=0)
            context.term()

    wrong, t0 = Counter(), time.monotonic()
    delivered = asyncio.run(run())
    for what, times in wrong.most_common(10):
        print(f"  {times} x {what}")
    print(f"  took {time.monotonic() - t0:.2f} s")
    print(f"{delivered} of {args.count} delivered", flush=True)
    return delivered == args.count and not wrong


if __name__ == "__main__":
    main()
