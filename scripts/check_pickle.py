#!/usr/bin/env python3
"""Shows our header frames to the real receiver's unpickler.

Run with the Python of the conformance environment, which has sglang:

    conformance/.venv/bin/python scripts/check_pickle.py

Every snapshot of crates/ocelli-delivery/tests/snapshots must be admitted, give an EmbeddingData with the
attributes of a recorded message of the same kind (tests/wire_samples), in their order and with their
types, and pickle again to the same opcodes. Exit status 0 only if all do.
"""

import pathlib
import pickle
import pickletools
import sys
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from sglang.srt.disaggregation.encoder.receiver import EmbeddingData  # noqa: E402
from sglang.srt.utils.common import safe_pickle_loads  # noqa: E402

REPO = pathlib.Path(__file__).resolve().parent.parent


def load(path):
    message = safe_pickle_loads(path.read_bytes())
    assert type(message) is EmbeddingData, type(message)
    return message


def kind(value):
    """A type, as deep as the receiver looks."""
    if isinstance(value, torch.Tensor):
        layout = (str(value.dtype), value.dim(), value.is_contiguous(), value.requires_grad, str(value.device))
        return ("Tensor", *layout)
    if isinstance(value, list):
        return ("list", sorted({str(kind(v)) for v in value}))
    return type(value).__name__


def opcodes(data):
    """Names of the opcodes; the two forms for short and long bytes and strings count as one."""
    same = {"SHORT_BINBYTES": "BINBYTES", "SHORT_BINUNICODE": "BINUNICODE"}
    return [same.get(op.name, op.name) for op, _, _ in pickletools.genops(data)]


def main():
    samples = {"error": load(REPO / "tests/wire_samples/error.pickle")}
    samples["rows"] = load(REPO / "tests/wire_samples/qwen3_vl.image.pickle")
    failed = 0
    paths = sorted((REPO / "crates/ocelli-delivery/tests/snapshots").glob("*.pickle"))
    assert paths, "no snapshots"
    for path in paths:
        try:
            ours = load(path)
            theirs = samples["error" if ours.error_msg is not None else "rows"]
            assert list(vars(ours)) == list(vars(theirs)), f"attributes {list(vars(ours))}"
            for name, value in vars(theirs).items():
                got = getattr(ours, name)
                assert kind(got) == kind(value), f"{name}: {kind(got)}, recorded {kind(value)}"
            again = pickle.dumps(ours, protocol=4)
            assert opcodes(again) == opcodes(path.read_bytes()), "python writes other opcodes"
            grid = None if ours.grid_dim is None else f"grid {tuple(ours.grid_dim.shape)}"
            print(f"ok      {path.name}: {grid}, dtype {ours.dtype}, shape {ours.shape}, code {ours.error_code}")
        except Exception as why:  # noqa: BLE001: whatever it is, it is this file's failure
            failed += 1
            print(f"FAILED  {path.name}: {type(why).__name__}: {why}")
    print(f"{len(paths) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
