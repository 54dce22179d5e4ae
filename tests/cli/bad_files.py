"""Bad data files, each with the exit status and what is said of it: for test_bad_input.py.

CASES: (kind, name, files, status, sentence). The kind is a key of CONFIGS, each with the place that the sentence begins
with; `files` replaces some of what GOOD has. SNAPSHOTS: (name, what becomes of a good one, sentence with
# for each number).
"""

import gzip
import io
import json
import random
import struct
import zipfile

LAYERS = "model: {input: {shape: [1, 2, 2]}, layers: [flatten, linear: {name: fc, out: 3}], loss: cross_entropy}\n"
DATA = "data: {train: {tensors: d}, batch: 3}\n"
REST = "optimizer: {sgd: 0.1}\ntrain: {steps: 1%s}\n"
CONFIGS = {
    "idx": ("c.yaml:2:16: ", LAYERS + "data: {train: {idx: {images: images, labels: labels}}, batch: 3}\n" + REST % ""),
    "tensors": ("c.yaml:2:16: ", LAYERS + DATA + REST % ""),
    "numbers": ("c.yaml:2:16: ", LAYERS.replace("cross_entropy", "mse") + DATA + REST % ""),
    "init": ("c.yaml:4:25: ", LAYERS + DATA + REST % ", init: w"),
}
SAVING = LAYERS + DATA + REST % ", save_every: 1"


def idx(dimensions, elements, kind=8):
    return struct.pack(">BBBB%dI" % len(dimensions), 0, 0, kind, len(dimensions), *dimensions) + bytes(elements)


def zipped(content):
    return gzip.compress(content, mtime=0)


def zip_file(member):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member, bytes(100))
    return file.getvalue()


PYTORCH_FILE = ('%s: is a PyTorch file, and a safetensors file is needed; one line of Python converts it: import torch, '
                'safetensors.torch; safetensors.torch.save_file({k: v.contiguous() for k, v in torch.load("%s", '
                'map_location="cpu", weights_only=True).items()}, "%s.safetensors"); a checkpoint has the weights under a '
                'key: write torch.load(…)["model"].items()')


def tensors(entries, data=b"", **more):
    """A safetensors file of {name: (dtype, shape, bytes)}, or of a header as it is."""
    if isinstance(entries, dict):
        header = dict(more)
        for name, (dtype, shape, content) in entries.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        entries = json.dumps(header, separators=(",", ":"))
    text = entries if isinstance(entries, bytes) else entries.encode()
    return struct.pack("<Q", len(text)) + text + data


X = ("F32", [3, 1, 2, 2], bytes(48))
Y = ("I64", [3], struct.pack("<3q", 0, 1, 2))
WEIGHT = ("F32", [3, 4], bytes(48))
BIAS = ("F32", [3], bytes(12))
IMAGES, LABELS = idx([3, 2, 2], range(12)), idx([3], [0, 1, 2])
GOOD = {"images": IMAGES, "labels": LABELS, "d": tensors({"x": X, "y": Y}),
        "w": tensors({"fc.weight": WEIGHT, "fc.bias": BIAS})}
NOISE = random.Random(1).randbytes(4096)
ZIPPED = zipped(IMAGES)


def flipped(content, at, bit=0x10):
    return content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]


def one(entry, data=0):
    """A data set whose x is this entry."""
    return tensors('{"x":%s}' % entry, bytes(data))


def numbered(count):
    entry = ':{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return tensors("{%s}" % ",".join('"%x"%s' % (i, entry) for i in range(count)))


def x_is(*x):
    return {"d": tensors({"x": x, "y": Y})}


def y_is(*y):
    return {"d": tensors({"x": X, "y": y})}


def weights(**tensors_by_name):
    entries = {"fc.weight": WEIGHT, "fc.bias": BIAS}
    for name, tensor in tensors_by_name.items():
        entries["fc." + name] = tensor
    return {"w": tensors({name: tensor for name, tensor in entries.items() if tensor})}


IDX = [
    ("empty", {"images": b""}, 1, "images: offset 0: the file ends within its header"),
    ("one byte", {"images": b"\0"}, 1, "images: offset 1: the file ends within its header"),
    ("noise", {"images": NOISE}, 1, "images: offset 0: begins with the bytes f5 b1 65 22; an idx file begins with 00 00"),
    ("png", {"images": b"\x89PNG\r\n\x1a\n" + NOISE},
     1, "images: offset 0: begins with the bytes 89 50 4e 47; an idx file begins with 00 00"),
    ("text", {"labels": b"0\n1\n2\n"}, 1, "labels: offset 0: begins with the bytes 30 0a 31 0a; an idx file begins with 00 00"),
    ("swapped", {"images": LABELS, "labels": IMAGES},
     1, "images: offset 3: images need 2 dimensions or more, these have 1"),
    ("labels for images", {"images": LABELS}, 1, "images: offset 3: images need 2 dimensions or more, these have 1"),
    ("images for labels", {"labels": IMAGES}, 1, "labels: offset 3: labels need 1 dimension, these have 3"),
    ("no dimensions", {"images": idx([], [])}, 1, "images: offset 3: has 0 dimensions; 1 to 4 are read"),
    ("five dimensions", {"images": idx([3, 1, 1, 2, 2], range(12))},
     1, "images: offset 3: has 5 dimensions; 1 to 4 are read"),
    ("255 dimensions", {"images": b"\0\0\x08\xff" + bytes(64)},
     1, "images: offset 3: has 255 dimensions; 1 to 4 are read"),
    ("no pictures", {"images": idx([0, 2, 2], []), "labels": idx([0], [])}, 1, "images: offset 4: dimension 0 is 0"),
    ("no rows", {"images": idx([3, 0, 2], [])}, 1, "images: offset 8: dimension 1 is 0"),
    ("2^96 bytes", {"images": idx([0xFFFFFFFF] * 3, [])},
     1, "images: offset 4: the 3 dimensions have more elements than a file can"),
    ("2^64 bytes", {"images": idx([0x80000000, 0x80000000, 4], [])},
     1, "images: offset 4: the 3 dimensions have more elements than a file can"),
    ("4 GiB claimed", {"images": idx([0xFFFFFFFF, 1, 1], range(12))},
     1, "images: offset 28: the file ends here; its header claims 4294967311 bytes"),
    ("i8", {"images": idx([3, 2, 2], range(12), 9)}, 1, "images: offset 2: elements are i8; only u8 is read"),
    ("f32", {"images": idx([3, 2, 2], bytes(48), 13)}, 1, "images: offset 2: elements are f32; only u8 is read"),
    ("unknown elements", {"images": idx([3, 2, 2], range(12), 0x77)},
     1, "images: offset 2: element type 0x77 is not one of the idx format"),
    ("cut header", {"images": IMAGES[:9]}, 1, "images: offset 9: the file ends within its header"),
    ("cut", {"images": IMAGES[:-1]}, 1, "images: offset 27: the file ends here; its header claims 28 bytes"),
    ("longer", {"images": IMAGES + b"\0"}, 1, "images: offset 28: the file goes on after its last element"),
    ("cut labels", {"labels": LABELS[:-1]}, 1, "labels: offset 10: the file ends here; its header claims 11 bytes"),
    ("fewer labels", {"labels": idx([2], [0, 1])}, 1, "labels: offset 4: 2 labels for the 3 images of images"),
    ("class 3 of 3", {"labels": idx([3], [0, 3, 2])},
     1, "labels: sample 1: class 3 is out of range; the model has 3 outputs, for the classes 0 … 2"),
    ("class 255 of 3", {"labels": idx([3], [0, 1, 255])},
     1, "labels: sample 2: class 255 is out of range; the model has 3 outputs, for the classes 0 … 2"),
    ("pictures of 2x3", {"images": idx([3, 2, 3], range(18))},
     2, "the samples of images are [1, 2, 3], but the model's input is [1, 2, 2]"),
    ("pictures in colour", {"images": idx([3, 3, 2, 2], range(36))},
     2, "the samples of images are [3, 2, 2], but the model's input is [1, 2, 2]"),
    ("gzip: magic alone", {"images": ZIPPED[:2]},
     1, "images: offset 2: the gzip data is cut off: the file ends within it"),
    ("gzip: cut", {"images": ZIPPED[:-3]}, 1, "images: offset 39: the gzip data is cut off: the file ends within it"),
    ("gzip: cut in the middle", {"images": ZIPPED[:20]},
     1, "images: offset 20: the gzip data is cut off: the file ends within it"),
    ("gzip: nothing in it", {"images": zipped(b"")},
     1, "images: offset 0: (inflated) the file ends within its header"),
    ("gzip: noise behind", {"images": ZIPPED + NOISE[:100]},
     1, f"images: offset {len(ZIPPED)}: the gzip data ends here, but the file goes on"),
    ("gzip: half a member behind", {"images": ZIPPED + ZIPPED[:1]},
     1, f"images: offset {len(ZIPPED) + 1}: the gzip data is cut off: the file ends within it"),
    ("gzip: noise behind padding", {"images": ZIPPED + bytes(9) + NOISE[:100]},
     1, f"images: offset {len(ZIPPED) + 9}: the file goes on after the zeros that pad its gzip data"),
    ("gzip: a member behind padding", {"images": ZIPPED + bytes(9) + ZIPPED},
     1, f"images: offset {len(ZIPPED) + 9}: the file goes on after the zeros that pad its gzip data"),
    ("gzip: wrong sum", {"images": flipped(ZIPPED, len(ZIPPED) - 8)},
     1, "images: offset 38: the gzip data is corrupt: incorrect data check"),
    ("gzip: wrong length", {"images": flipped(ZIPPED, len(ZIPPED) - 4)},
     1, "images: offset 42: the gzip data is corrupt: incorrect length check"),
    ("gzip: another method", {"images": flipped(ZIPPED, 2)},
     1, "images: offset 4: the gzip data is corrupt: unknown compression method"),
    ("gzip: noise", {"images": ZIPPED[:10] + NOISE},
     1, "images: offset 13: the gzip data is corrupt: too many length or distance symbols"),
    ("gzip: of a gzip", {"images": zipped(ZIPPED)},
     1, "images: offset 0: (inflated) begins with the bytes 1f 8b 08 00; an idx file begins with 00 00"),
    ("gzip: of text", {"labels": zipped(b"0\n1\n2\n")},
     1, "labels: offset 0: (inflated) begins with the bytes 30 0a 31 0a; an idx file begins with 00 00"),
    ("gzip: fewer than claimed", {"images": zipped(idx([3, 2, 2], range(11)))},
     1, "images: offset 27: (inflated) the file ends here; its header claims 28 bytes"),
    ("gzip: 4 GiB claimed", {"images": zipped(idx([0xFFFFFFFF, 1, 1], range(12)))},
     1, "images: offset 28: (inflated) the file ends here; its header claims 4294967311 bytes"),
    ("gzip: a bomb behind", {"images": zipped(IMAGES + bytes(64 << 20))},
     1, "images: offset 28: (inflated) the file goes on after its last element"),
]

TOO_LONG = " exceeds the 16777216 that are read: is this a safetensors file?"
SAFETENSORS = [
    ("empty", {"d": b""}, 1, "d: offset 0: the file has 0 bytes, too few for a safetensors header"),
    ("seven bytes", {"d": bytes(7)}, 1, "d: offset 0: the file has 7 bytes, too few for a safetensors header"),
    ("length 0", {"d": bytes(8)}, 1, "d: offset 0: header length 0 is too short for JSON"),
    ("length 1", {"d": b"\1" + bytes(7) + b"{"}, 1, "d: offset 0: header length 1 is too short for JSON"),
    ("length 2^64 - 1", {"d": b"\xff" * 8 + b"{}"},
     1, "d: offset 0: header length 18446744073709551615" + TOO_LONG),
    ("length beyond the file", {"d": struct.pack("<Q", 1000) + b"{}"},
     1, "d: offset 0: header length 1000 exceeds the 2 bytes that follow"),
    ("length of 17 MiB", {"d": struct.pack("<Q", 17 << 20) + b"{}"},
     1, "d: offset 0: header length 17825792" + TOO_LONG),
    ("noise", {"d": struct.pack("<Q", 4096) + NOISE}, 1, "d: offset 8: the header does not begin with {"),
    ("an idx file", {"d": IMAGES},
     1, "d: offset 0: header length 216172782164639744" + TOO_LONG),
    ("a pickle", {"d": b"PK\3\4" + bytes(60)},
     1, "d: offset 0: header length 67324752" + TOO_LONG),
    ("a PyTorch file", {"d": zip_file("archive/data.pkl")}, 1, PYTORCH_FILE % ("d", "d", "d")),
    ("a PyTorch file with a name", {"d": zip_file("model/data.pkl")}, 1, PYTORCH_FILE % ("d", "d", "d")),
    ("an old PyTorch file", {"d": bytes.fromhex("80028a0a6cfc9c46f920") + bytes(60)}, 1, PYTORCH_FILE % ("d", "d", "d")),
    ("a NumPy file", {"d": zip_file("x.npy")}, 1,
     'd: is a NumPy (.npz) file, and a safetensors file is needed; one line of Python converts it: import numpy, '
     'safetensors.numpy; safetensors.numpy.save_file(dict(numpy.load("d")), "d.safetensors")'),
    ("HDF5", {"d": b"\x89HDF\r\n\x1a\n" + bytes(60)}, 1, "d: is an HDF5 file, and a safetensors file is needed"),
    ("gzipped", {"d": zipped(bytes(100))}, 1, "d: is a gzipped file, and a safetensors file is needed; gunzip it first"),
    ("zeros", {"d": struct.pack("<Q", 100) + bytes(100)}, 1, "d: offset 8: the header does not begin with {"),
    ("a list", {"d": tensors("[]")}, 1, "d: offset 8: the header does not begin with {"),
    ("not closed", {"d": tensors('{"x":{"dtype":"F32"')},
     1, "d: offset 27: the header is not valid JSON: '}' expected near end of file"),
    ("no quotes", {"d": tensors("{x:1}")},
     1, "d: offset 9: the header is not valid JSON: a name in quotation marks is expected"),
    ("a comma too many", {"d": tensors('{"__metadata__":{},}')},
     1, "d: offset 27: the header is not valid JSON: a name in quotation marks is expected"),
    ("text behind", {"d": tensors("{} x")}, 1, "d: offset 11: the header is not valid JSON: its end is expected"),
    ("a NUL behind", {"d": tensors("{}\0")}, 1, "d: offset 10: the header is not valid JSON: its end is expected"),
    ("a NUL in a name", {"d": tensors('{"a\\u0000b":1}')},
     1, "d: offset 19: the header is not valid JSON: \\u0000 is not allowed without JSON_ALLOW_NUL near "
        "'\"a\\u0000b\"'"),
    ("no UTF-8", {"d": tensors(b'{"\xff\xfe":1}')},
     1, "d: offset 10: the header is not valid JSON: unable to decode byte 0xff near '\"'"),
    ("half a surrogate", {"d": tensors('{"\\ud800":1}')},
     1, "d: offset 17: the header is not valid JSON: invalid Unicode '\\uD800' near '\"\\ud800\"'"),
    ("brackets", {"d": tensors("{" + '"x":' + "[" * 100000)}, 1, "d: offset 20: the header is nested deeper than 8"),
    ("mappings", {"d": tensors('{"x":' * 100000)}, 1, "d: offset 48: the header is nested deeper than 8"),
    ("a long number", {"d": one('{"dtype":"U8","shape":[%s],"data_offsets":[0,0]}' % ("9" * 40000))},
     1, "d: offset 40036: the header is not valid JSON: too big integer"),
    ("a long fraction", {"d": one('{"dtype":"U8","shape":[0.%s],"data_offsets":[0,0]}' % ("3" * 40000))},
     1, 'd: offset 8: tensor "x": dimension 0 is not a whole number of 0 or more'),
    ("a long name", {"d": tensors('{"%s":1}' % ("n" * 500000))},
     1, 'd: offset 8: tensor "%s…": is not a mapping' % ("n" * 124)),
    ("a longer name", {"d": tensors('{"%s":1}' % ("n" * (2 << 20)))},
     1, "d: offset 9: a name has 2097154 bytes; at most 1048576 are read"),
    ("a long entry", {"d": one("[%s]" % ("1," * 50000 + "1"))},
     1, 'd: offset 8: tensor "x": its entry has 100003 bytes; at most 65536 are read'),
    ("too many tensors", {"d": numbered((1 << 17) + 1)},
     1, "d: offset 7270137: the header has more than 131072 tensors"),
    ("as many as there may be", {"d": numbered(1 << 17)},
     1, 'd: has no tensor "x"; a data set has x (inputs) and y (targets)'),
    ("much metadata", {"d": tensors({}, __metadata__={str(i): "" for i in range(20000)})},
     1, "d: offset 169139: __metadata__ has more than 16384 entries"),
    ("metadata of numbers", {"d": tensors({}, __metadata__={"n": 1})},
     1, 'd: offset 29: __metadata__: "n" is not a text'),
    ("metadata as a list", {"d": tensors({}, __metadata__=[])}, 1, "d: offset 24: __metadata__ is not a mapping"),
    ("metadata twice", {"d": tensors('{"__metadata__":{},"__metadata__":{}}')},
     1, "d: offset 42: there are two __metadata__"),
    ("two of a name", {"d": tensors('{"x":%s,"x":%s}' % (('{"dtype":"U8","shape":[0],"data_offsets":[0,0]}',) * 2))},
     1, 'd: offset 8: tensor "x": there are two of that name'),
    ("no dtype", {"d": one('{"shape":[1],"data_offsets":[0,1]}', 1)},
     1, 'd: offset 8: tensor "x": dtype is missing or not a text'),
    ("unknown dtype", {"d": one('{"dtype":"Q7","shape":[1],"data_offsets":[0,1]}', 1)},
     1, "d: offset 8: tensor \"x\": dtype \"Q7\" is not a dtype of safetensors"),
    ("no shape", {"d": one('{"dtype":"U8","data_offsets":[0,1]}', 1)},
     1, 'd: offset 8: tensor "x": shape is missing or not a list'),
    ("nine dimensions", {"d": one('{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}', 1)},
     1, 'd: offset 8: tensor "x": shape has 9 dimensions; at most 8 are read'),
    ("a negative dimension", {"d": one('{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}', 1)},
     1, 'd: offset 8: tensor "x": dimension 0 is not a whole number of 0 or more'),
    ("half a dimension", {"d": one('{"dtype":"U8","shape":[0.5],"data_offsets":[0,1]}', 1)},
     1, 'd: offset 8: tensor "x": dimension 0 is not a whole number of 0 or more'),
    ("2^66 elements", {"d": one('{"dtype":"U8","shape":[8589934592,8589934592],"data_offsets":[0,0]}')},
     1, 'd: offset 8: tensor "x": its shape has more bytes than 64 bits count'),
    ("no offsets", {"d": one('{"dtype":"U8","shape":[1]}', 1)},
     1, 'd: offset 8: tensor "x": data_offsets is missing or not a list of two'),
    ("offsets backwards", {"d": one('{"dtype":"U8","shape":[1],"data_offsets":[1,0]}', 1)},
     1, 'd: offset 8: tensor "x": data_offsets [1, 0] end before they begin'),
    ("offsets beyond the file", {"d": one('{"dtype":"U8","shape":[9],"data_offsets":[0,9]}', 1)},
     1, 'd: offset 8: tensor "x": data_offsets [0, 9] exceed the 1 bytes of data in the file: the file is cut short'),
    ("offsets of 2^63", {"d": one('{"dtype":"U8","shape":[1],"data_offsets":[0,9223372036854775808]}', 1)},
     1, "d: offset 76: the header is not valid JSON: too big integer near '9223372036854775808'"),
    ("another size", {"d": one('{"dtype":"F32","shape":[3],"data_offsets":[0,8]}', 8)},
     1, 'd: offset 8: tensor "x": shape and dtype take 12 bytes, data_offsets hold 8'),
    ("a gap", {"d": one('{"dtype":"U8","shape":[1],"data_offsets":[1,2]}', 2)},
     1, 'd: offset 61: tensor "x": 1 bytes before it belong to no tensor'),
    ("bytes behind", {"d": GOOD["d"] + b"\0"}, 1, "d: offset 196: 1 bytes after the last tensor belong to no tensor"),
    ("bytes missing", {"d": GOOD["d"][:-1]},
     1, 'd: offset 8: tensor "y": data_offsets [48, 72] exceed the 71 bytes of data in the file: the file is cut short'),
    ("an entry too many", {"d": one('{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}', 1)},
     1, 'd: offset 8: tensor "x": has entries other than dtype, shape and data_offsets'),
    ("overlapping", {"d": tensors('{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},'
                                  '"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}', bytes(3))},
     1, 'd: offset 114: tensor "y": overlaps tensor "x"'),
]

TENSORS = [
    ("no tensors", {"d": tensors({})}, 1, 'd: has no tensor "x"; a data set has x (inputs) and y (targets)'),
    ("no y", {"d": tensors({"x": X})}, 1, 'd: has no tensor "y"; a data set has x (inputs) and y (targets)'),
    ("no x", {"d": tensors({"y": Y})}, 1, 'd: has no tensor "x"; a data set has x (inputs) and y (targets)'),
    ("x as one number", x_is("F32", [], bytes(4)),
     1, 'd: tensor "x" is a single number; samples come first in its shape'),
    ("x of no samples", x_is("F32", [0, 1, 2, 2], b""), 1, 'd: tensor "x" is empty'),
    ("x of eight dimensions", x_is("F32", [3, 1, 2, 2, 1, 1, 1, 1], bytes(48)),
     1, 'd: tensor "x" has 8 dimensions; samples and at most 4 more are read'),
    ("x of integers", x_is("I32", [3, 1, 2, 2], bytes(48)),
     1, 'd: tensor "x" is I32: these are tokens, and no layer of this version takes tokens; for pictures, save x.to(torch.uint8) or x.float()'),
    ("x of truths", x_is("BOOL", [3, 1, 2, 2], bytes(12)),
     1, 'd: tensor "x" is BOOL; F32, U8 (scaled to 0…1), F64, F16 and BF16 are read'),
    ("x of eighths", x_is("F8_E4M3", [3, 1, 2, 2], bytes(12)),
     1, 'd: tensor "x" is F8_E4M3; F32, U8 (scaled to 0…1), F64, F16 and BF16 are read'),
    ("x of another shape", x_is("F32", [3, 1, 2, 3], bytes(72)),
     2, "the samples of d are [1, 2, 3], but the model's input is [1, 2, 2]"),
    ("more x than y", x_is("F32", [4, 1, 2, 2], bytes(64)), 1, 'd: tensor "x" has 4 samples, tensor "y" 3'),
    ("y as one number", y_is("I64", [], bytes(8)),
     1, 'd: tensor "y" is a single number; samples come first in its shape'),
    ("y of numbers", y_is("F32", [3], bytes(12)),
     2, "the targets of d are floating-point numbers, but the loss wants classes (integers); y.long() makes them"),
    ("y of truths", y_is("BOOL", [3], bytes(3)),
     1, 'd: tensor "y" is BOOL; classes are I64, I32, I16, I8 or U8, other targets F32, F64, F16 or BF16'),
    ("y of vectors", y_is("I64", [3, 2], bytes(48)),
     2, "the targets of d are [2] for each sample, but the loss wants []"),
    ("one-hot y", y_is("I64", [3, 3], bytes(72)),
     2, "the targets of d are [3] for each sample, but the loss wants []; give class numbers, not one-hot: y.argmax(1)"),
    ("one-hot y of numbers", y_is("F32", [3, 3], bytes(36)),
     2, "the targets of d are floating-point numbers, but the loss wants classes (integers); give class numbers, not "
        "one-hot: y.argmax(1)"),
    ("class 3", y_is("I64", [3], struct.pack("<3q", 0, 3, 1)),
     1, "d: sample 1: class 3 is out of range; the model has 3 outputs, for the classes 0 … 2"),
    ("class -1", y_is("I8", [3], b"\0\0\xff"), 1, "d: sample 2: class -1 is out of range; the model has 3 outputs, for the classes 0 … 2"),
    ("class 2^62", y_is("I64", [3], struct.pack("<3q", 0, 1, 1 << 62)),
     1, "d: sample 2: class 4611686018427387904 is out of range; the model has 3 outputs, for the classes 0 … 2"),
]

NUMBERS = [
    ("classes for numbers", {},
     2, "the targets of d are classes (integers), but the loss wants floating-point numbers"),
    ("targets of another shape", y_is("F32", [3, 2], bytes(24)),
     2, "the targets of d are [2] for each sample, but the loss wants [3]"),
]

SKIP = '; to start this layer from new values: init: {file: …, skip: ["fc"]}'
WEIGHTS = [
    ("missing", {"w": None}, 1, "w: cannot be opened: No such file or directory"),
    ("empty", {"w": b""}, 1, "w: offset 0: the file has 0 bytes, too few for a safetensors header"),
    ("noise", {"w": NOISE},
     1, "w: offset 0: header length 10499958131665514997" + TOO_LONG),
    ("a PyTorch file", {"w": zip_file("archive/data.pkl")}, 1, PYTORCH_FILE % ("w", "w", "w")),
    ("a data set", {"w": GOOD["d"]}, 1, 'w: tensor "fc.weight" is missing'),
    ("cut", {"w": GOOD["w"][:-1]},
     1, 'w: offset 8: tensor "fc.bias": data_offsets [48, 60] exceed the 59 bytes of data in the file: the file is cut short'),
    ("no bias", weights(bias=None), 1, 'w: tensor "fc.bias" is missing' + SKIP),
    ("a prefix", {"w": tensors({"module.fc.weight": WEIGHT, "module.fc.bias": BIAS})},
     1, 'w: tensor "fc.weight" is missing; the file has "module.fc.weight": remove the prefix "module."'),
    ("another shape", weights(weight=("F32", [4, 3], bytes(48))),
     1, "w: tensor \"fc.weight\" has shape [4, 3], but the model's is [3, 4]" + SKIP),
    ("another rank", weights(weight=("F32", [3, 4, 1], bytes(48))),
     1, "w: tensor \"fc.weight\" has shape [3, 4, 1], but the model's is [3, 4]" + SKIP),
    ("eight dimensions", weights(weight=("F32", [3, 4, 1, 1, 1, 1, 1, 1], bytes(48))),
     1, "w: tensor \"fc.weight\" has shape [3, 4, 1, 1] and more, but the model's is [3, 4]" + SKIP),
    ("halves", weights(weight=("F16", [3, 4], bytes(24))),
     1, 'w: tensor "fc.weight" is of type F16, but weights are F32; convert it with .float()'),
    ("doubles", weights(bias=("F64", [3], bytes(24))), 1, 'w: tensor "fc.bias" is of type F64, but weights are F32; '
                                                       'convert it with .float()'),
    ("4 bits", weights(weight=("F4", [3, 4], bytes(6))),
     1, 'w: tensor "fc.weight" is of type F4, but weights are F32; convert it with .float()'),
    ("one too many", weights(scale=BIAS), 1, 'w: tensor "fc.scale" belongs to no layer of the model'),
    ("a long name too many", weights(**{"n" * 5000: BIAS}), 1,
     'w: tensor "fc.%s…" belongs to no layer of the model' % ("n" * 57)),
]

CASES = [(kind, *case) for kind, cases in {"idx": IDX, "tensors": SAFETENSORS + TENSORS, "numbers": NUMBERS,
                                           "init": WEIGHTS}.items() for case in cases]

SUM = "offset #: the checksum is wrong: it says #, the bytes give #"  # of a header that holds paths
SNAPSHOTS = [
    ("empty", lambda good: b"", "offset #: the file has # bytes, too few for a safetensors header"),
    ("seven bytes", lambda good: good[:7], "offset #: the file has # bytes, too few for a safetensors header"),
    ("half a header", lambda good: good[:100], "offset #: header length # exceeds the # bytes that follow"),
    ("cut", lambda good: good[:-1],
     'offset #: tensor "fc.bias": data_offsets [#, #] exceed the # bytes of data in the file: the file is cut short'),
    ("longer", lambda good: good + b"\0", "offset #: # bytes after the last tensor belong to no tensor"),
    ("a bit of the header", lambda good: flipped(good, 200), SUM),
    ("a bit of the data", lambda good: flipped(good, len(good) - 2), SUM),
    ("a bit of the checksum", lambda good: flipped(good, 40, 0x01), SUM),  # of a digit, which no other bit may make a "
    ("noise", lambda good: NOISE,
     "offset #: header length # exceeds the # that are read: is this a safetensors file?"),
    ("weights", lambda good: GOOD["w"], "offset #: the header does not begin with a checksum"),
    ("no checksum", lambda good: tensors({}, __metadata__={"snapshot": "1"}),
     "offset #: the header does not begin with a checksum"),
    ("brackets", lambda good: tensors("{" + '"x":' + "[" * 100000), "offset #: the header is nested deeper than #"),
    ("as many tensors as there may be", lambda good: numbered(1 << 17),
     "offset #: the header does not begin with a checksum"),
]
