#!/usr/bin/env python3
"""scripts/digits.py on made-up files: what it writes, what it refuses, and that it leaves no partial file."""
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "scripts", "digits.py")
ROWS = [[(i * 7 + j) % 17 for j in range(64)] + [i % 10] for i in range(23)]


def text_of(rows):
    return "".join(",".join(map(str, row)) + "\n" for row in rows).encode()


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    assert length % 8 == 0 and max(entry["data_offsets"][1] for entry in header.values()) == len(body)
    formats = {"F32": ("f", 4), "I64": ("q", 8)}
    out = {}
    for name, entry in header.items():
        letter, size = formats[entry["dtype"]]
        begin, end = entry["data_offsets"]
        out[name] = entry["shape"], struct.unpack(f"<{(end - begin) // size}{letter}", body[begin:end])
    return out


class Digits(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.source = os.path.join(self.temporary.name, "digits.csv.gz")
        self.folder = os.path.join(self.temporary.name, "out", "digits")

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)

    def write(self, data):
        with open(self.source, "wb") as file:
            file.write(data)

    def check_written(self):
        """Every fifth row is held out, the others train, in order; pixels are sixteenths."""
        held_out = ROWS[4::5]
        training = [row for i, row in enumerate(ROWS) if i % 5 != 4]
        for name, rows in (("train", training), ("eval", held_out)):
            tensors = read_safetensors(os.path.join(self.folder, name + ".safetensors"))
            self.assertEqual(sorted(tensors), ["x", "y"])
            self.assertEqual(tensors["x"][0], [len(rows), 1, 8, 8])
            self.assertEqual(list(tensors["x"][1]), [pixel / 16 for row in rows for pixel in row[:64]])
            self.assertEqual(tensors["y"], ([len(rows)], tuple(row[64] for row in rows)))
        self.assertEqual(sorted(os.listdir(self.folder)), ["eval.safetensors", "train.safetensors"])

    def test_reads_gzip(self):
        self.write(gzip.compress(text_of(ROWS)))
        ran = self.run_script(self.source, self.folder)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(ran.stdout, f"{self.folder}: 19 digits for training, 4 for evaluation\n")
        self.check_written()

    def test_reads_wheel(self):
        with zipfile.ZipFile(self.source, "w") as wheel:
            wheel.writestr("sklearn/datasets/data/iris.csv", "1,2,3")
            wheel.writestr("sklearn/datasets/data/digits.csv.gz", gzip.compress(text_of(ROWS)))
        self.assertEqual(self.run_script(self.source, self.folder).returncode, 0)
        self.check_written()

    def test_check_knows_the_real_files(self):
        self.assertEqual(self.run_script("--check", self.folder).returncode, 1)
        self.write(gzip.compress(text_of(ROWS)))
        self.assertEqual(self.run_script(self.source, self.folder).returncode, 0)
        self.assertEqual(self.run_script("--check", self.folder).returncode, 1)

    def test_refuses(self):
        def with_entry(index, value):
            rows = [list(row) for row in ROWS]
            rows[3][index] = value
            return gzip.compress(text_of(rows))

        cases = [
            (with_entry(5, 17), "digits.csv:4: a pixel is not within 0 to 16"),
            (with_entry(5, -1), "digits.csv:4: a pixel is not within 0 to 16"),
            (with_entry(64, 10), "digits.csv:4: label 10 is not within 0 to 9"),
            (with_entry(0, "x"), "digits.csv:4: is not a row of whole numbers"),
            (gzip.compress(text_of([ROWS[0][1:]])), "digits.csv:1: has 64 numbers, not 64 pixels and a label"),
            (gzip.compress(text_of(ROWS[:4])), "digits.csv: has 4 rows; 5 are the least"),
            (gzip.compress(text_of(ROWS))[:-20], self.source + ": "),
            (text_of(ROWS), self.source + ": Not a gzipped file"),
            (b"PK\x03\x04 is no wheel", self.source + ": File is not a zip file"),
        ]
        for data, message in cases:
            self.write(data)
            ran = self.run_script(self.source, self.folder)
            self.assertEqual(ran.returncode, 1)
            self.assertTrue(ran.stderr.startswith("digits.py: " + message), ran.stderr)
            self.assertEqual(ran.stderr.count("\n"), 1)
            self.assertFalse(os.path.exists(self.folder))

    def test_refuses_wheel_without_digits(self):
        with zipfile.ZipFile(self.source, "w") as wheel:
            wheel.writestr("sklearn/datasets/data/iris.csv", "1,2,3")
        ran = self.run_script(self.source, self.folder)
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(ran.stderr, f"digits.py: {self.source}: has no sklearn/datasets/data/digits.csv.gz\n")

    def test_leaves_no_partial_file(self):
        """The folder of the second file is taken: the first is whole, and nothing else is left."""
        self.write(gzip.compress(text_of(ROWS)))
        os.makedirs(os.path.join(self.folder, "eval.safetensors"))
        ran = self.run_script(self.source, self.folder)
        self.assertEqual(ran.returncode, 1)
        self.assertTrue(ran.stderr.startswith("digits.py: "), ran.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["eval.safetensors", "train.safetensors"])


if __name__ == "__main__":
    unittest.main()
