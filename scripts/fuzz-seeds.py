#!/usr/bin/env python3
"""Makes what fuzzing begins with: a folder of seeds for each target, and dictionaries.

Usage: fuzz-seeds.py FOLDER

FOLDER/<target>/seeds/ and FOLDER/<target>/dictionary. Seeds of configurations come from configs/, tests/settings/corpus/
(overrides as comment lines "#--set …") and tests/golden/training/; those of data files are written here. Words come from
the string literals of the sources, so that a new key is in the dictionary as soon as it exists.
"""
import gzip
import itertools
import json
import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORD = re.compile(r'"([A-Za-z_][A-Za-z0-9_.-]{1,30})"')


def words(*folders):
    found = set()
    for folder in folders:
        for path in sorted((ROOT / "src" / folder).glob("*.c")):
            found.update(WORD.findall(path.read_text()))
    return found


def write(folder, name, data):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def write_dictionary(folder, entries):
    folder.mkdir(parents=True, exist_ok=True)
    lines = ['"' + entry.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\x0A") + '"' for entry in sorted(entries)]
    (folder / "dictionary").write_text("\n".join(lines) + "\n")


def make_config(folder):
    seeds = folder / "seeds"
    for path in itertools.chain((ROOT / "configs").glob("*.yaml"), (ROOT / "tests/golden/training").glob("**/*.yaml"),
                                (ROOT / "tests/settings/corpus").glob("*.yaml")):
        overrides = path.with_suffix(".set")
        lines = overrides.read_text().splitlines() if overrides.exists() else []
        head = "".join(f"#--set {line}\n" for line in lines)
        data = head.encode() + path.read_bytes()
        if len(data) <= 4096:
            write(seeds, path.stem, data)
    literal = re.compile(r'"((?:[^"\\]|\\.)*)"')
    rest = ("data: {train: {tensors: a}, batch: 4}\npipeline: {devices: [cpu, cpu], micro_batches: 2}\n"
            "optimizer: {sgd: {lr: 0.1, momentum: 0.9}}\ntrain: {steps: 2}\n")
    networks = (ROOT / "tests/pipeline/networks.h").read_text()
    for name, text in re.findall(r"static const char (\w+)\[\] =(.*?);\n(?=enum|\n|$)", networks, re.S):
        model = "".join(literal.findall(re.sub(r"/\*.*?\*/", "", text))).replace("\\n", "\n")
        write(seeds, name, ("model:\n" + "".join(f"  {line}\n" for line in model.splitlines()) + rest).encode())
    marks = [": ", "- ", "{", "}", "[", "]", "&a", "*a", "<<", "|\n", ">\n", "!!", "%", "---\n", "...\n", "#--set ", "=",
             "1e308", "-1", "0x", "9223372036854775807", "4096", " epochs", " steps", " minutes", "~", "null", "true"]
    write_dictionary(folder, words("config", "layers", "model") | set(marks))


def make_program_text(folder):
    (folder / "seeds").mkdir(parents=True, exist_ok=True)  # seed_programs writes them
    marks = ["s0", "m0", "e0", "stash=", "slot=", "saved=", "outbox=", "grad=", "@", "keep", "first", "last", "worker 0:\n",
             "workers=", "stages=", "micro_batches=", "pieces=", "on=", "training", "evaluation", "ascending", "descending"]
    write_dictionary(folder, words("pipeline") | set(marks))


def safetensors(tensors, metadata=None):
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def floats(count):
    return struct.pack(f"<{count}f", *(i / 4 for i in range(count)))


def make_safetensors(folder):
    write(folder / "seeds", "empty", safetensors({}))
    write(folder / "seeds", "scalar", safetensors({"a": ("F32", [], floats(1))}))
    write(folder / "seeds", "several", safetensors(
        {"a.weight": ("F32", [2, 3], floats(6)), "b": ("F64", [1], bytes(8)), "c": ("I64", [0], b""),
         "d": ("BF16", [2], bytes(4)), "e": ("U8", [5, 1], bytes(5))}, {"format": "pt"}))
    write_dictionary(folder, words("data") | {'"dtype":"', '"shape":[', '"data_offsets":[', '"__metadata__":{', "[0,0]",
                                              '":{"', "F32", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "\\u0000"})


def make_tensors(folder):
    for name, x, y in (("rows", ("F32", [3, 4], floats(12)), ("I64", [3], struct.pack("<3q", 1, 0, 9))),
                       ("pictures", ("U8", [2, 1, 2, 2], bytes(range(8))), ("I32", [2], struct.pack("<2i", 2, -100))),
                       ("pixels", ("F32", [1, 1, 2, 2], floats(4)), ("I64", [1, 2, 2], bytes(32))),
                       ("values", ("F32", [2, 2], floats(4)), ("F32", [2, 3], floats(6)))):
        write(folder / "seeds", name, safetensors({"x": x, "y": y}))
    make_safetensors_words = {'"x":', '"y":', '"dtype":"', '"shape":[', '"data_offsets":['}
    write_dictionary(folder, words("data") | make_safetensors_words)


def make_snapshot(folder):
    numbers = {"step": "4", "epoch": "1", "evaluated": "4", "loss": "0.5", "accuracy": "0.75", "best_step": "4",
               "best": "0.75", "metrics_bytes": "1234"}
    head = {"xxh3-128": "0" * 32, "format": "pt", "snapshot": "1"}  # the target writes the right sum
    for name, config in (("whole", "model: {layers: [{linear: 2}]}\n"), ("none", ""), ("broken", "a: [")):
        text = safetensors({"a.weight": ("F32", [2], floats(2)),
                            "optimizer/a.weight/exp_avg": ("F32", [2], floats(2))}, {**head, "config": config, **numbers})
        write(folder / "seeds", name, text)
    write_dictionary(folder, set(numbers) | set(head) | {"optimizer/", "/momentum_buffer", "-1", "nan", "1e999",
                                                         "9223372036854775808", '"dtype":"', '"shape":[', '"data_offsets":['})


def idx(code, dims, content):
    return bytes([0, 0, code, len(dims)]) + b"".join(struct.pack(">I", dim) for dim in dims) + content


def make_idx(folder):
    labels = idx(8, [3], bytes([1, 0, 9]))
    pictures = {"grey": idx(8, [3, 2, 2], bytes(12)), "colours": idx(8, [3, 3, 1, 2], bytes(18)),
                "rows": idx(8, [3, 5], bytes(15)), "floats": idx(13, [3, 2], bytes(24))}
    for name, images in pictures.items():
        for mode in range(4):
            write(folder / "seeds", f"{name}-{mode}", bytes([mode]) + struct.pack(">H", len(labels)) + labels + images)
        packed = gzip.compress(images, mtime=0)
        write(folder / "seeds", f"{name}-packed", b"\0" + struct.pack(">H", len(labels)) + labels + packed)
        twice = gzip.compress(images[:9], mtime=0) + gzip.compress(images[9:], mtime=0)
        write(folder / "seeds", f"{name}-members", b"\0" + struct.pack(">H", len(labels)) + labels + twice)
    folder.joinpath("dictionary").write_text('"\\x00\\x00\\x08\\x03"\n"\\x00\\x00\\x08\\x01"\n"\\x1f\\x8b\\x08"\n'
                                             '"\\x00\\x00\\x00\\x01"\n"\\xff\\xff\\xff\\xff"\n')


def make_profile(folder):
    layer = {"name": "a", "forward": 1.5, "backward_input": 0, "backward_weight": 3e-5, "recompute": 1, "update": 0}
    device = {"device": "cpu", "threads": 2, "slowdown": 1.25, "layers": [layer, {**layer, "name": "b"}]}
    whole = {"gpipe_profile": 2, "program": "0", "machine": "m", "libraries": "", "precision": "f32", "optimizer": "sgd",
             "model": "0123456789abcdef", "micro_batch": 8, "devices": [device, {**device, "device": "cuda:1"}],
             "copies": [{"from": "host", "to": "cpu", "latency": 0.001, "per_mib": 0.1}],
             "links": {"host": {"latency": 0.03, "per_mib": 0.2}, "network": {"latency": 1, "per_mib": 9}}}
    by_hand = {"gpipe_profile": 2, "micro_batch": 8,
               "devices": [{"device": "cuda", "layers": [{"forward": 1, "backward": 2}]}]}
    for name, profile in (("whole", whole), ("by_hand", by_hand)):
        write(folder / "seeds", name, json.dumps(profile).encode())
    write_dictionary(folder, {f'"{word}":' for word in words("balance")} | {"1e999", "-1", "null", '"cuda:', "[]", "{}"})


def make_splice(folder):
    for name, text in (("value", "pipeline:\n  balance: auto  # c\n  devices: [cpu]\n"),
                       ("flow", "{pipeline: {balance: [1,\n 2]}, a: é}"), ("list", "pipeline:\n  balance:\n  - 1 # c\n  - 2\nb:\n"),
                       ("added", "a: 1\npipeline: # c\n    devices: &d [cpu]\n"), ("alias", "a: &a {b: c}\npipeline: *a\n"),
                       ("none", "a: |\n  text\n\nb: 1"), ("empty", "pipeline:\n  balance:\n  a: 1\n")):
        write(folder / "seeds", name, text.encode())
    write_dictionary(folder, {"pipeline", "balance", ": ", ":\n", "  ", "- ", "? ", "&a ", "*a", "# ", "|\n", ">\n", "'", "{", "}",
                              "[", "]", ", ", "---\n", "...\n", "\r\n", "[4, 8]"})


def make_claim(folder):
    """A stage of one worker that trains, and two that evaluate."""
    def instr(name, **more):
        words_ = name.split()
        its = {"name": name, "op": words_[0], "stage": int(words_[1][1:]), "clock": 0, "queue": 0, "waits": [], **more}
        return {**its, "micro": int(words_[2][1:])} if len(words_) > 2 else its

    def frames(at, count):
        return {name: {"offset": at + 64 * i, "bytes": 64, "slots": count if name != "outbox" or at else 1}
                for i, name in enumerate(("stash", "saved", "outbox", "gradient"))}

    def stage(worker, first, at=128):
        return {"worker": worker, "first_layer": first, "layers": 1, "number": first, "loads_read_by": ["F", "B"],
                "buffers": [{"name": "w", "offset": 0, "bytes": 64}], "frames": frames(at, 1)}

    def plan(stages, layers, edges, programs):
        return {"format": "gpipe-plan", "version": 1, "kind": "plan", "name": "a", "layers": layers, "stages": stages,
                "workers": [{"name": "cpu:0", "device": "cpu", "arena_bytes": 512, "transient": {"offset": 384, "bytes": 128},
                             "evaluation": {"offset": 384, "bytes": 128}} for _ in stages],
                "edges": edges, "collectives": [], "programs": programs}
    one = plan([stage(0, 0)], [{"name": "l", "stage": 0, "layer": 0}], [], [
        {"pass": "training", "samples": 2, "micro_batches": 1, "micro_batch_samples": 2, "last_samples": 2, "workers": [{"instructions": [
            instr("load s0 m0", bytes=64, slots={"stash": 0}), instr("F s0 m0", keep=True, slots={"stash": 0, "saved": 0}),
            instr("B s0 m0", first=True, slots={"stash": 0, "saved": 0, "gradient": 0}, bytes_alive=300), instr("step s0")]}]}])
    two = plan([stage(0, 0), stage(1, 1)], [{"name": "k", "stage": 0, "layer": 0}, {"name": "l", "stage": 1, "layer": 1}],
               [{"from": 0, "to": 1, "carries": "activation", "read_by": ["F"]}], [
        {"pass": "evaluation", "samples": 1, "micro_batches": 1, "micro_batch_samples": 1, "last_samples": 1, "workers": [
            {"instructions": [instr("load s0 m0", bytes=64, slots={"stash": 0}), instr("F s0 m0", slots={"stash": 0, "outbox": 0}),
                              instr("send s0 m0", edge=0, bytes=32, slots={"outbox": 0})]},
            {"instructions": [instr("load s1 m0", bytes=32, slots={"stash": 0}), instr("recv s1 m0", edge=0, bytes=32, slots={"stash": 0}, waits=[[0, 2]]),
                              instr("F s1 m0", slots={"stash": 0})]}]}])
    for name, its in (("one", one), ("two", two)):
        write(folder / "seeds", name, json.dumps(its, separators=(",", ":")).encode())
    write_dictionary(folder, {f'"{word}"' for word in words("check")} | {"-1", "null", "[]", "{}", "9223372036854775807", "true"})


def make_guard(folder):
    def message(kind, status, rank, text=b""):
        return struct.pack("<BBHI", kind, status, rank, len(text)) + text

    hello = message(0, 0, 1, bytes(16) + b"host".ljust(64, b"\0") + struct.pack("<2i", 7, 1))
    for name, messages in (("beats", 3 * message(1, 0, 1)), ("fail", message(2, 4, 2, b"a file") + message(5, 0, 2)),
                           ("lost", message(1, 0, 0) + message(3, 13, 1, b"process 1\x1b[m\n\0x")),
                           ("stop", message(4, 0, 3)), ("saved", message(10, 0, 0) + message(10, 14, 0)), ("hello", hello + message(9, 0, 1)), ("long", message(2, 1, 1, 2047 * b"x")),
                           ("longer", message(2, 1, 1, 2048 * b"x")),
                           ("ask", message(6, 0, 1, struct.pack("<4I", 1, 2, 1 << 31 | 5, 1).ljust(520, b"\0"))),
                           ("timeout", message(8, 0, 0, struct.pack("<d", 60.0))),
                           ("answer", message(7, 0, 1, struct.pack("<Q2I", 1, 1, 0)))):
        for piece in (0, 6, 255):
            write(folder / "seeds", f"{name}-{piece}", bytes([piece]) + messages)
    write_dictionary(folder, set())


def make_handshake(folder):
    for name, machines, port, count in (("one", 6 * [0], 40000, 2), ("three", [0, 0, 2, 2, 4, 4], 1, 16), ("turns", [0, 1, 0, 1, 0, 5], 65535, 17)):
        write(folder / "seeds", name, struct.pack("<6i4d2i", *machines, 0.0, 1e-3, 60.0, 1e300, port, count) + 2 * struct.pack("<Qi260x", 1, count))
    write_dictionary(folder, set())


def make_opening(folder):
    rest = ("data: {train: {tensors: a}, batch: 4}\nmodel: {input: {shape: [3]}, layers: [{linear: 4}, {linear: 2}], loss: mse}\n"
            "optimizer: {sgd: {lr: 0.1}}\ntrain: {steps: 9}\n")
    numbers = struct.pack("<4qQd", 64, 8, 0, 0, 0, 60.0)
    phase = struct.pack("<iBii", 2, 2, 1, 1)
    for name, pipeline in (("plain", "{devices: [cpu, cpu], balance: [1, 1], micro_batches: 2}"),
                           ("ranks", "{devices: [{cpu: {rank: 1}}, {cpu: {rank: 2}}, cpu], balance: [1, 1, 1], micro_batches: 2}"),
                           ("replicas", "{devices: [[cpu, cpu, cpu], cpu], balance: [1, 1], micro_batches: 2}")):
        text = f"pipeline: {pipeline}\n{rest}".encode()
        write(folder / "seeds", name, phase + b"\0" + numbers + text)
        write(folder / "seeds", name + "-ends", phase + b"\2" + numbers + text)
        write(folder / "seeds", name + "-links", phase + b"\x0c" + numbers + struct.pack("<Q", 0))
        write(folder / "seeds", name + "-bytes", phase + b"\4" + numbers + struct.pack("<Q", len(text) + 9) + text)
        write(folder / "seeds", name + "-changes",
              phase + b"\0" + numbers[:16] + struct.pack("<q", 5) + numbers[24:] + text + b"changes: {4: {data.batch: 2}}\n")
    text = f"pipeline: {{devices: [cpu, cpu, cpu, {{cpu: {{rank: 3}}}}], balance: [1, 1, 1, 1], micro_batches: 2}}\n{rest}".encode()
    write(folder / "seeds", "absent", phase + b"\0" + numbers + text)
    for count in (4096, 4097):
        write(folder / "seeds", f"stages-{count}", struct.pack("<iB", count, 255) + 255 * struct.pack("<i", 1) + b"\0" + numbers)
    write_dictionary(folder, words("settings") | {"rank: ", "replicas: ", "changes:\n", "[[", "cpu", "ref"})


def make_calls(folder):
    def call(kind, flags=0, mini=0, count=0, step=1, epoch=0, index=0):
        return struct.pack("<IIiiQIIqqdd", kind, flags, mini, count, 1, step, 0, epoch, index, 0.1, 8.0)

    entries = struct.pack("<6i", 0, -1, 0, 0, 1, -1)
    clock = struct.pack("<8Q", *range(8))
    follows = {"step": call(0), "small": call(0, mini=1), "evaluation": call(0, mini=2), "diagnose": call(1),
               "records": call(0, flags=3), "aligns": call(0, flags=7) + clock, "read": call(2, count=3) + entries,
               "write": call(3, count=3) + entries, "squares": call(4), "refresh": call(5), "ask": call(6, step=0),
               "asks": call(6, step=3, index=9), "end": call(7), "next": call(8), "epoch": call(0, epoch=9),
               "count": call(9), "counts": call(9, mini=1) + call(9, epoch=9)}
    for name, its in follows.items():
        write(folder / "seeds", "follow-" + name, b"\1" + its + call(0) + its + call(7))
    for param in range(3, 16):
        write(folder / "seeds", f"follow-param-{param}", b"\1" + call(2, count=1) + struct.pack("<ii", param, -1) + call(7))
    scalars = struct.pack("<QIIddddQdd", 1, 1, 0, 0.1, 8.0, 1.0, 2.0, 1, 0.0, 1.0)
    finding = struct.pack("<8iqq", 1, 0, 0, 1, 3, 2, 0, 1, 3, 64)
    for node, role, index in itertools.product(range(-2, 9), (2, 3, 6), (0, 2, 9)):
        its = struct.pack("<8iqq", 1, 0, 0, 1, node, role, index, 1, 3, 64)
        write(folder / "seeds", f"lead-finding-{node}-{role}-{index}", b"\0" + b"\1".ljust(12, b"\0") + scalars + its)
    answer = struct.pack("<i2048s", 4, b"a file \x1b[m")
    for name, calls, its in (("ask", b"\5", answer), ("asks", b"\5\5", bytes(2052) + answer), ("diagnose", b"\1", scalars + finding),
                             ("step", b"\4\4", 2 * scalars), ("count", b"\3\4", struct.pack("<q", 3) + scalars), ("spans", b"\2\2", clock + scalars + bytes(range(200)) + scalars)):
        write(folder / "seeds", "lead-" + name, b"\0" + calls.ljust(12, b"\0") + its)
    write_dictionary(folder, set())


def make_folder(folder):
    a = safetensors({"a.weight": ("F32", [2, 3], floats(6)), "b": ("F64", [1], bytes(8))}, {"format": "pt"})
    b = safetensors({"c": ("I64", [2], bytes(16))})
    of = {"a.weight": "a.safetensors", "b": "a.safetensors", "c": "b.safetensors"}
    sums = {"xxh3-128": {"a.safetensors": "0" * 32, "b.safetensors": "1" * 32}}
    for name, index in (("whole", {"metadata": {"total_size": 48}, "weight_map": of}),
                        ("summed", {"metadata": sums, "weight_map": of}), ("less", {"weight_map": {"c": "b.safetensors"}}),
                        ("part", {"weight_map": {"b": "a.safetensors"}}), ("more", {"weight_map": {**of, "d": "b.safetensors"}}), ("none", {"weight_map": {}}),
                        ("other", {"weight_map": {**of, "c": "a.safetensors"}}), ("away", {"weight_map": {"c": "../b.safetensors"}})):
        text = json.dumps(index).encode()
        write(folder / "seeds", name, struct.pack("<HH", len(text), len(a)) + text + a + b)
    write_dictionary(folder, {'"weight_map":{', '"metadata":{', '"xxh3-128":{', "a.safetensors", "b.safetensors", "..", "/",
                              '"dtype":"', '"shape":[', '"data_offsets":['})


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    for name, make in (("config", make_config), ("program_text", make_program_text), ("safetensors", make_safetensors),
                       ("tensors", make_tensors), ("idx", make_idx), ("snapshot", make_snapshot), ("profile", make_profile), ("claim", make_claim),
                       ("splice", make_splice), ("guard", make_guard), ("handshake", make_handshake), ("opening", make_opening), ("calls", make_calls),
                       ("folder", make_folder)):
        make(folder / name)


main()
