#!/usr/bin/env python3
"""Holds the includes under src/ to the order of the rooms: each room may use those before it, never those after.

Usage: check-rooms.py [--src FOLDER] | --self-test

Every #include "..." is checked, and every <...> that names a file under src/:
  - it names a file by its path from src/, room first;
  - it points into the same room or a room further down, and not along one of the arrows that FORBIDDEN cuts;
  - a folder within a room (device/cpu) is a room of its own just above the one that holds it; from outside it offers
    one header, the one with its name (device/cpu/cpu.h), and only the rooms in CHOOSERS, which turn the names of the
    configuration into devices, include that;
  - a header *_internal.h is included in its own folder only.
A room has at most MOST_FILES files, so that a person can look through it.
Prints file:line for each include that does otherwise, and exits with 1.
"""
import argparse
import pathlib
import re
import sys
import tempfile

ORDER = ["base", "process", "cut", "config", "device", "check", "trace", "data", "layers", "model", "checkpoint", "schedule", "compile", "plan",
         "pipeline", "timeline", "profile", "balance", "settings", "store", "session", "tune", "report", "train", "cli"]
FORBIDDEN = {("device", "config"): "a device is told what it needs, it reads no configuration",
             ("data", "config"): "a source is told what it needs (data/options.h), it reads no configuration",
             ("schedule", "config"): "a schedule is told what it needs, it reads no configuration",
             ("schedule", "device"): "a schedule is made and simulated without devices"}
SUB_ROOMS = {"device": ["ref", "cpu", "cuda"]}
CHOOSERS = ["session", "cli"]
MOST_FILES = 40
SOURCES = {".c", ".h", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]*)"|<([^>]*)>)')


def room_of(path):
    """(room, sub-room or None) of a path relative to src/."""
    parts = path.parts
    sub = parts[1] if len(parts) > 2 and parts[1] in SUB_ROOMS.get(parts[0], []) else None
    return parts[0], sub


def check_sub_room(room, sub, target):
    """Why a file of (room, sub) may not include `target`, which lies in a sub-room; None if it may."""
    target_room, target_sub = room_of(target)
    name = f"{target_room}/{target_sub}"
    if (room, sub) == (target_room, target_sub):
        return None
    if room == target_room and sub is None:
        return f"points upward: {name} stands above {room}"
    if room == target_room:
        return f"{room}/{sub} and {name} do not know each other"
    if target.name != f"{target_sub}.h":
        return f"is internal to {name}, which offers {target_sub}.h to others"
    if room not in CHOOSERS:
        return f"{room} knows no particular device; {name} is included by {' and '.join(CHOOSERS)} only"
    return None


def check_include(path, target):
    """Why the file `path` may not include `target` (both relative to src/); None if it may."""
    room, sub = room_of(path)
    target_room, target_sub = room_of(target)
    if target_room not in ORDER:
        return f"{target_room} is not a room that scripts/check-rooms.py knows"
    if ORDER.index(target_room) > ORDER.index(room):
        return f"points upward: {target_room} stands above {room}"
    if (room, target_room) in FORBIDDEN:
        return f"{room} may not use {target_room}: {FORBIDDEN[room, target_room]}"
    if target_sub:
        why = check_sub_room(room, sub, target)
        if why:
            return why
    if target.stem.endswith("_internal") and target.parent != path.parent:
        return f"is for {target.parent}/ only"
    return None


def check_file(src, path):
    """Messages for one file, relative to src/."""
    messages = []
    for number, line in enumerate((src / path).read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(1) if match.group(1) is not None else match.group(2)
        target = pathlib.PurePosixPath(name)
        exists = len(target.parts) > 1 and ".." not in target.parts and (src / target).is_file()
        if not exists and match.group(1) is None:
            continue
        why = check_include(path, target) if exists else "there is no such file under src/; name it as room/file.h"
        if why:
            messages.append(f"{src / path}:{number}: {name}: {why}")
    return messages


def check_tree(src):
    """(number of files seen, messages) for everything under src/."""
    files = sorted(p.relative_to(src) for p in src.rglob("*") if p.suffix in SOURCES)
    messages = []
    for path in files:
        if path.parts[0] not in ORDER or len(path.parts) < 2:
            messages.append(f"{src / path}: {path.parts[0]} is not a room that scripts/check-rooms.py knows")
        else:
            messages += check_file(src, path)
    for folder in sorted({path.parent for path in files}):
        count = sum(path.parent == folder for path in files)
        if count > MOST_FILES:
            messages.append(f"{src / folder}: has {count} files, more than {MOST_FILES}; make two rooms of it")
    return len(files), messages


GOOD = {
    "base/status.h": "",
    "base/base_internal.h": "",
    "base/status.c": '#include "base/status.h"\n#include "base/base_internal.h"\n#include <stdio.h>\n',
    "config/config.h": '#include "base/status.h"\n',
    "device/device.h": '#include "base/status.h"\n',
    "device/cpu/cpu.h": '#include "device/device.h"\n',
    "device/cpu/cpu_ops.h": "",
    "device/cpu/cpu_ops.c": '#include "device/cpu/cpu_ops.h"\n#include "device/cpu/cpu.h"\n',
    "device/ref/ref.h": '#include "device/device.h"\n',
    "layers/layer.h": '#include "config/config.h"\n#include "device/device.h"\n',
    "pipeline/plan.h": '#include "layers/layer.h"\n',
    "session/devices.c": '#include "device/cpu/cpu.h"\n#include "pipeline/plan.h"\n',
    "cli/common/options.h": '#include "session/devices.h"\n',
    "session/devices.h": "",
}
# (file, its text, the line that must be named, words of the message)
BAD = [
    ("base/up.c", '\n#include "config/config.h"\n', 2, "points upward: config stands above base"),
    ("layers/up.h", '#include <stdio.h>\n  #  include "pipeline/plan.h"\n', 2, "pipeline stands above layers"),
    ("layers/angle.c", "#include <pipeline/plan.h>\n", 1, "pipeline stands above layers"),
    ("device/up.c", '#include "device/cpu/cpu.h"\n', 1, "device/cpu stands above device"),
    ("device/conf.c", '#include "config/config.h"\n', 1, "device may not use config"),
    ("schedule/spec.c", '#include "device/device.h"\n', 1, "schedule may not use device"),
    ("device/cpu/conf.c", '#include "config/config.h"\n', 1, "device may not use config"),
    ("device/cpu/twin.c", '#include "device/ref/ref.h"\n', 1, "do not know each other"),
    ("session/inside.c", '#include "device/cpu/cpu_ops.h"\n', 1, "is internal to device/cpu"),
    ("pipeline/cpu.c", '#include "device/cpu/cpu.h"\n', 1, "pipeline knows no particular device"),
    ("config/inside.c", '#include "base/base_internal.h"\n', 1, "is for base/ only"),
    ("device/near.c", '#include "device.h"\n', 1, "no such file"),
    ("layers/dots.c", '#include "../base/status.h"\n', 1, "no such file"),
    ("layers/gone.c", '#include "base/gone.h"\n', 1, "no such file"),
    ("attic/old.c", "", None, "attic is not a room"),
]


def write_tree(src, files):
    for name, text in files.items():
        (src / name).parent.mkdir(parents=True, exist_ok=True)
        (src / name).write_text(text)


def self_test():
    """Makes trees with one wrong include each: the check must find that one, there, and nothing in a tree without."""
    with tempfile.TemporaryDirectory() as folder:
        src = pathlib.Path(folder)
        write_tree(src, GOOD)
        messages = check_tree(src)[1]
        assert messages == [], messages
        for name, text, line, words in BAD:
            write_tree(src, {name: text})
            messages = check_tree(src)[1]
            place = f"{src / name}:{line}: " if line else f"{src / name}: "
            assert len(messages) == 1 and messages[0].startswith(place) and words in messages[0], (name, messages)
            (src / name).unlink()
        write_tree(src, {f"base/more{i}.h": "" for i in range(MOST_FILES)})
        messages = check_tree(src)[1]
        assert len(messages) == 1 and messages[0].startswith(f"{src / 'base'}: has "), messages
    print(f"check-rooms: finds each of {len(BAD)} wrong includes, and nothing else")


def main():
    parser = argparse.ArgumentParser(description="Checks that includes under src/ point down only.")
    parser.add_argument("--src", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent / "src")
    parser.add_argument("--self-test", action="store_true", help="tests this script on sample trees")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    count, messages = check_tree(options.src)
    if count == 0:
        messages.append(f"{options.src}: no sources there")
    print("\n".join(messages) or f"check-rooms: {count} files, every include points down")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
