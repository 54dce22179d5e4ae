#!/usr/bin/env python3
"""Long sums and large means, with results worked out by hand or exactly from the data. Standard library only.

    test_sums.py <gpipe-train>
"""
import array
import fractions
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

U = 2.0**-24  # half the distance from 1 to the next float: the largest relative error of one rounding

# A convolution that gives 100 everywhere; the targets of `synthetic` are drawn from [0, 1). Mean squared error over 8
# samples: with learning rate 0.5 the new bias is 100 - 0.5·2·(100 - mean of the targets), the mean of the targets.
BIAS = """
model:
  input: {shape: [1, 512, 512]}
  layers:
    - conv: {out: 1, kernel: 1, init: {weight: 0, bias: 100}}
  loss: mse
data:
  train: {synthetic: {samples: 8, seed: 1}}
  batch: 8
pipeline: {devices: [cpu]}
optimizer: {sgd: {lr: 0.5}}
train: {epochs: 1, seed: 1}
"""

# With momentum 1 the running statistics are those of the mini-batch. 10 samples in 4 micro-batches: 3, 3, 3, 1.
STATISTICS = """
model:
  input: {shape: [2, 3, 5]}
  layers:
    - batch_norm: {momentum: 1}
    - flatten
    - linear: 2
  loss: cross_entropy
data:
  train: {tensors: d.safetensors}
  batch: 10
pipeline: {devices: [cpu]}
optimizer: {sgd: {lr: 0.01}}
train: {epochs: 1, seed: 1}
"""
SAMPLES, CHANNELS, PLACES = 10, 2, 15


def write_tensors(path, **tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_tensors(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    return {name: array.array("f", raw[8 + length + t["data_offsets"][0] : 8 + length + t["data_offsets"][1]])
            for name, t in header.items()}


class Sums(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gp-test-sums-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, config, *settings):
        (self.folder / "c.yaml").write_text(config)
        options = [word for setting in settings for word in ("--set", setting)]
        subprocess.run([PROGRAM, "-q", "--force", "-o", "run", *options, "c.yaml"], cwd=self.folder, check=True)
        return read_tensors(self.folder / "run" / "model.safetensors")

    def test_gradient_of_a_bias(self):
        for micro_batches in 1, 4, 8:
            with self.subTest(micro_batches=micro_batches):
                bias = self.train(BIAS, "pipeline.micro_batches=%d" % micro_batches)["0.bias"][0]
                # 0.4998 to four digits. Each micro-batch's gradient, and their sum, is rounded at about 200: half of
                # that at most is 2e-5.
                self.assertAlmostEqual(bias, 0.4998, delta=7e-5)

    def test_running_statistics_of_large_means(self):
        rng = random.Random(1)
        x = array.array("f", [1e5 + rng.gauss(0, 1) for _ in range(SAMPLES * CHANNELS * PLACES)])
        write_tensors(self.folder / "d.safetensors", x=("F32", [SAMPLES, CHANNELS, 3, 5], x.tobytes()),
                      y=("I64", [SAMPLES], array.array("q", [n % 2 for n in range(SAMPLES)]).tobytes()))
        for micro_batches in 1, 2, 4, 10:
            with self.subTest(micro_batches=micro_batches):
                model = self.train(STATISTICS, "pipeline.micro_batches=%d" % micro_batches)
                for c in range(CHANNELS):
                    values = [fractions.Fraction(x[(n * CHANNELS + c) * PLACES + p])
                              for n in range(SAMPLES) for p in range(PLACES)]
                    mean = sum(values) / len(values)
                    variance = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
                    error = abs(fractions.Fraction(model["0.running_var"][c]) / variance - 1)
                    print("%2d micro-batches: running_var is off by %.1e" % (micro_batches, error))
                    # Sums in f32 go over at most 128 rows: squares, and twice the mean's share of the differences
                    # between micro-batches. Then two roundings, of a micro-batch's variance and of the result.
                    self.assertLessEqual(error, (3 * 128 + 2) * U)
                    self.assertLessEqual(abs(fractions.Fraction(model["0.running_mean"][c]) / mean - 1), 2 * U)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
