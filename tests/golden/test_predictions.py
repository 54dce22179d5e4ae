#!/usr/bin/env python3
"""Predicts with gpipe-train what PyTorch predicted (tests/golden/predictions), on several cuts, which agree to the byte.

    test_predictions.py <gpipe-train>
"""
import array
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent / "predictions"
# Both sides compute in f32 and round in other orders; what was seen differs by 1.8e-7.
TOLERANCE = 1e-6
# Kernels differ by the size of the micro-batch, not by the cut: those of one size agree to the byte.
RUNS = {
    "micro-batches of 2": [
        ["pipeline.devices=[cpu]"],
        ["pipeline.devices=[cpu, cpu]", "pipeline.checkpoint=always"],
        ["pipeline.devices=[cpu, cpu, cpu, cpu]", "pipeline.lockstep=false"],
    ],
    "micro-batches of 1": [
        ["pipeline.devices=[cpu]", "data.batch=1"],
        ["pipeline.devices=[cpu, cpu, cpu]", "pipeline.micro_batches=4"],
    ],
    "one for all": [["pipeline.micro_batches=1", "data.batch=100"]],
}


def read_y(raw):
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    (name,) = header
    assert name == "y" and header["y"]["dtype"] == "F32", header
    assert len(raw) == 8 + length + header["y"]["data_offsets"][1]
    return header["y"]["shape"], array.array("f", raw[8 + length :])


def predict(program, name, changes):
    """The file that is written."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.safetensors"
        command = [program, "-q", "--predict", out, "--weights", FOLDER / f"{name}.weights.safetensors"]
        for change in changes:
            command += ["--set", change]
        subprocess.run([*command, FOLDER / f"{name}.yaml"], check=True)
        return out.read_bytes()


def main():
    failed = False
    for name in ("pixels", "rows", "classes"):
        shape, want = read_y((FOLDER / f"{name}.y.safetensors").read_bytes())
        for size, cuts in RUNS.items():
            files = {predict(sys.argv[1], name, changes) for changes in cuts}
            got_shape, got = read_y(next(iter(files)))
            assert got_shape == shape, (name, got_shape, shape)
            difference = max(abs(a - b) for a, b in zip(got, want, strict=True))
            print(f"{name}, {size}: differs by {difference:.2g}" + ("" if len(files) == 1 else ", and by the cut"))
            failed = failed or len(files) != 1 or not difference <= TOLERANCE
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
