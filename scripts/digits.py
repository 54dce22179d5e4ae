#!/usr/bin/env python3
"""Writes UCI's handwritten digits as train.safetensors and eval.safetensors. Needs Python's standard library only.

  digits.py SOURCE FOLDER   SOURCE is digits.csv.gz, or a scikit-learn wheel that has it
  digits.py --check FOLDER  exit status 0 if both files exist and have the right checksums

A row of the file has 64 pixels of 0 to 16, 8 by 8, and the label. Each written file has x F32 [N, 1, 8, 8], scaled to
0 … 1, and y I64 [N]. Every fifth digit is kept for evaluation.
"""
import gzip
import hashlib
import json
import os
import struct
import sys
import zipfile
import zlib

MEMBER = "sklearn/datasets/data/digits.csv.gz"
PIXELS, LARGEST, CLASSES = 64, 16, 10
HELD_OUT = 5
# Of the files that the 1,797 digits make.
CHECKSUMS = {
    "train.safetensors": "c08fd16b14508c7b2a80c249aabe850cfcfffc5f51e3c72b08fd42848bc76092",
    "eval.safetensors": "20e7ff6a49a77736d00f9bd31290493af4e9bd60eeebbae8f8360ad3a522efe7",
}


class Broken(Exception):
    """The source is not what it should be; the text says why."""


def read_source(path):
    """The text of digits.csv, from the gzipped file or from a wheel around it."""
    try:
        with open(path, "rb") as file:
            packed = file.read()
        if packed[:2] == b"PK":
            with zipfile.ZipFile(path) as wheel:
                packed = wheel.read(MEMBER)
        return gzip.decompress(packed).decode("ascii")
    except KeyError:
        raise Broken(f"{path}: has no {MEMBER}") from None
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        raise Broken(f"{path}: {error}") from None


def parse(text, name):
    """[(pixels, label), …]"""
    samples = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            *pixels, label = [int(entry) for entry in line.split(",")]
        except ValueError:
            raise Broken(f"{name}:{number}: is not a row of whole numbers") from None
        if len(pixels) != PIXELS:
            raise Broken(f"{name}:{number}: has {len(pixels) + 1} numbers, not {PIXELS} pixels and a label")
        if min(pixels) < 0 or max(pixels) > LARGEST:
            raise Broken(f"{name}:{number}: a pixel is not within 0 to {LARGEST}")
        if not 0 <= label < CLASSES:
            raise Broken(f"{name}:{number}: label {label} is not within 0 to {CLASSES - 1}")
        samples.append((pixels, label))
    if len(samples) < HELD_OUT:
        raise Broken(f"{name}: has {len(samples)} rows; {HELD_OUT} are the least")
    return samples


def encode(samples):
    """The bytes of a safetensors file."""
    count = len(samples)
    x = b"".join(struct.pack(f"<{PIXELS}f", *(pixel / LARGEST for pixel in pixels)) for pixels, _ in samples)
    y = struct.pack(f"<{count}q", *(label for _, label in samples))
    # y comes first: its elements are the widest, and this keeps them aligned.
    header = {
        "y": {"dtype": "I64", "shape": [count], "data_offsets": [0, len(y)]},
        "x": {"dtype": "F32", "shape": [count, 1, 8, 8], "data_offsets": [len(y), len(y) + len(x)]},
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + y + x


def write_whole(path, data):
    """The file is there whole or not at all."""
    temporary = f"{path}.tmp-{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def convert(source, folder):
    """Reads everything before it writes anything."""
    samples = parse(read_source(source), "digits.csv")
    held_out = samples[HELD_OUT - 1 :: HELD_OUT]
    training = [sample for i, sample in enumerate(samples) if i % HELD_OUT != HELD_OUT - 1]
    os.makedirs(folder, exist_ok=True)
    write_whole(os.path.join(folder, "train.safetensors"), encode(training))
    write_whole(os.path.join(folder, "eval.safetensors"), encode(held_out))
    return len(training), len(held_out)


def check(folder):
    for name, wanted in CHECKSUMS.items():
        try:
            with open(os.path.join(folder, name), "rb") as file:
                if hashlib.sha256(file.read()).hexdigest() != wanted:
                    return False
        except OSError:
            return False
    return True


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if arguments[0] == "--check":
        return 0 if check(arguments[1]) else 1
    try:
        training, held_out = convert(*arguments)
    except (Broken, OSError) as error:
        print(f"digits.py: {error}", file=sys.stderr)
        return 1
    print(f"{arguments[1]}: {training} digits for training, {held_out} for evaluation")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
