#!/usr/bin/env python3
"""Makes transforms.safetensors: torchvision's transforms (v2) on one batch of pictures, for tests/data/test_transform.c.

Random numbers are the program's: torch.rand, torch.randint and Tensor.uniform_ are replaced while a transform runs by
draws from Philox counters as src/base/philox.h says, so that what is compared is everything but the generator.
Made with PyTorch 2.9.1 and torchvision 0.24.1:

    pip install torch==2.9.1 torchvision==0.24.1 numpy pillow
    python3 tests/golden/make_transforms.py
"""
import json
import pathlib
import struct

import torch
import torchvision.transforms.v2 as v2

FOLDER = pathlib.Path(__file__).resolve().parent
SEED, EPOCH, SAMPLES, CHANNELS, HEIGHT, WIDTH = (1 << 33) + 7, 3, 4, 3, 9, 12
MASK = 0xFFFFFFFF


def philox(seed, counter):
    key0, key1 = seed & MASK, seed >> 32
    c = list(counter)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ key0, p1 & MASK, (p0 >> 32) ^ c[3] ^ key1, p0 & MASK]
        key0, key1 = (key0 + 0x9E3779B9) & MASK, (key1 + 0xBB67AE85) & MASK
    return c


class Draws:
    """The numbers that one transform takes for one sample, in torchvision's order."""

    def __init__(self, sample, place, transform):
        self.sample, self.place, self.transform, self.attempt = sample, place, transform, 0

    def words(self, draw):
        return philox(SEED, (self.sample & MASK, self.sample >> 32, EPOCH, draw << 16 | self.place << 8 | 5))

    def rand(self, *size):
        return torch.tensor([(self.words(0)[0] >> 8) / 2**24], dtype=torch.float64)

    def uniform(self, low, high):
        if self.attempt_words is None or self.taken == 2:
            self.attempt += 1
            self.attempt_words, self.taken = self.words(self.attempt), 0
        word = self.attempt_words[self.taken]
        self.taken += 1
        return torch.tensor([float(low) + (word >> 8) / 2**24 * (float(high) - float(low))], dtype=torch.float64)

    def randint(self, low, high, size=None):
        if isinstance(self.transform, v2.RandomErasing):
            word = self.attempt_words[2 + self.integers]
        else:
            # A crop draws only where there is a choice; rows come first.
            rows = self.integers == 0 and self.height_choice
            word = self.words(0)[0 if rows else 1]
        self.integers += 1
        return torch.tensor(word * (high - low) >> 32)

    def run(self, picture):
        self.attempt_words, self.taken, self.integers = None, 0, 0
        if isinstance(self.transform, v2.RandomCrop):
            pad = self.transform.padding or [0, 0, 0, 0]
            self.height_choice = picture.shape[-2] + pad[2] + pad[3] > self.transform.size[0]
        kept = torch.rand, torch.randint, torch.Tensor.uniform_
        torch.rand, torch.randint = self.rand, self.randint
        torch.Tensor.uniform_ = lambda tensor, low, high: self.uniform(low, high)
        try:
            return self.transform(picture)
        finally:
            torch.rand, torch.randint, torch.Tensor.uniform_ = kept


# In the order of the table in tests/data/test_transform.c.
CASES = [
    [v2.CenterCrop(4)],
    [v2.CenterCrop([4, 5])],
    [v2.CenterCrop([5, 7])],
    [v2.CenterCrop([6, 9])],
    [v2.CenterCrop([12, 7])],
    [v2.CenterCrop([14, 15])],
    [v2.CenterCrop([3, 17])],
    [v2.CenterCrop([9, 12])],
    [v2.Pad(2)],
    [v2.Pad([1, 2], fill=0.5)],
    [v2.Pad([1, 0, 3, 4], fill=[0.25, 0.5, 0.75])],
    [v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])],
    [v2.Normalize(mean=[0.5], std=[0.3])],
    [v2.RandomHorizontalFlip(1)],
    [v2.RandomVerticalFlip(1)],
    [v2.RandomHorizontalFlip(0)],
    [v2.RandomHorizontalFlip()],
    [v2.RandomVerticalFlip(0.4)],
    [v2.RandomCrop(5)],
    [v2.RandomCrop([9, 5])],
    [v2.RandomCrop([4, 12])],
    [v2.RandomCrop([9, 12], padding=4)],
    [v2.RandomCrop([7, 14], padding=[3, 1], fill=-1)],
    [v2.RandomCrop([11, 11], padding=[0, 1, 2, 3], fill=[1.0, 2.0, 3.0])],
    [v2.RandomErasing(1)],
    [v2.RandomErasing(0.5, scale=(0.1, 0.9), ratio=(0.2, 5.0), value=[1.0, 2.0, 3.0])],
    [v2.RandomErasing(1, scale=(0.0, 0.001), value=7)],
    [v2.RandomErasing(1, scale=(0.95, 1.0), ratio=(1.0, 1.0), value=7)],
    [v2.RandomCrop(8, padding=2), v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(),
     v2.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]), v2.RandomErasing(value=[-1.0]), v2.Pad(1), v2.CenterCrop([7, 9]),
     v2.RandomHorizontalFlip()],
]


def main():
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(0, 256, (SAMPLES, CHANNELS, HEIGHT, WIDTH), generator=generator).to(torch.float32) / 255
    tensors = {"x": x, "y": torch.zeros(SAMPLES, dtype=torch.int64)}
    for number, transforms in enumerate(CASES):
        results = []
        for sample in range(SAMPLES):
            picture = x[sample]
            for place, transform in enumerate(transforms):
                picture = Draws(sample, place, transform).run(picture)
            results.append(picture)
        tensors["case%02d" % number] = torch.stack(results).contiguous()
    types = {torch.float32: "F32", torch.int64: "I64"}
    header, data = {}, b""
    for key, tensor in tensors.items():
        raw = tensor.numpy().tobytes()
        header[key] = {"dtype": types[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (FOLDER / "transforms.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main()
