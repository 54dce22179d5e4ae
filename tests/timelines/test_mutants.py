#!/usr/bin/env python3
"""Files with values of other types, and names that are pipes: gpipe-compare and gpipe-report end with their tables or with a
sentence, never with a traceback, and wait for nothing.

    test_mutants.py [COUNT [SEED]]     so many mutants, drawn with the seed; unittest's share without arguments

A mutant is one good input in which a few values are replaced: a column of an SQLite export of Nsight Systems, a value in the JSON of a
trace, of a plan, of a PyTorch capture or of a run folder. Both programs run within this process."""
import contextlib
import copy
import importlib.util
import io
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import traceback
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "scripts"), HERE]
from nsys_made import Made  # noqa: E402
from nsys_schemas import VERSIONS  # noqa: E402
from plans import plan  # noqa: E402
from test_read_nsys import two_stages  # noqa: E402
from test_read_torch import capture  # noqa: E402
from test_report import CONFIG, WHOLE  # noqa: E402
from traces import NAMES, TWO_GPUS, counter, draw  # noqa: E402

SHARE = 66  # mutants of each run of the tests; scripts/fuzz.sh tries 330 and more
SECONDS = 60  # one mutant takes a part of a second: what takes so long waits
ODD = (None, True, 0, -1, 1, 2**31, 2**62, 2**63 - 1, -(2**63), 0.5, -1.5, 1e308, float("inf"), "", "soon", "7", "9" * 5000, "a\nb\0c",
       "F s0 m0", "F s999999 m0", "step 4", "\ud800", b"", b"\xff\0\xfe", b"step 4")
# Columns of exports that readers read.
READ = {"start", "end", "globalPid", "globalTid", "deviceId", "streamId", "correlationId", "shortName", "demangledName", "name", "bytes",
        "copyKind", "graphId", "text", "textId", "eventType", "id", "value", "gpuId", "cudaId", "pid"}
ODD_JSON = tuple(value for value in ODD if not isinstance(value, bytes)) + (10**400, float("nan"), [], [[]], {}, {"a": None})


def program(name):
    specification = importlib.util.spec_from_file_location(name.replace("-", "_"), os.path.join(ROOT, "scripts", name + ".py"))
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.main


PROGRAMS = {"gpipe-compare": program("compare-timelines"), "gpipe-report": program("report")}


def run(name, arguments):
    """(exit status, what it said) of a program, in this process. Raises what the program does not catch."""
    streams, arguments_before = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)], sys.argv
    handler = signal.getsignal(signal.SIGPIPE)
    sys.argv = [name, *arguments]
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            try:
                status = PROGRAMS[name]()
            except SystemExit as end:
                status = end.code
    finally:
        sys.argv = arguments_before
        signal.signal(signal.SIGPIPE, handler)
    for stream in streams:
        stream.flush()
    return status, streams[1].buffer.getvalue().decode("utf-8", "replace")


class Mutants:
    """Makes them in a folder."""

    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.exports = []
        for version in VERSIONS:
            path = os.path.join(folder, version + ".sqlite")
            with Made(path, version) as made:
                for step in range(3):
                    two_stages(made, step=step, at=100 * step)
                made.fill(31, 32, 7.5, 101)
                made.range("enumerate(DataLoader)#next", 0, 1, 101)
                for gpu in (0, 1) if "TARGET_INFO_CUDA_DEVICE" in VERSIONS[version] else ():
                    made.row("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=gpu, pid=100)
            self.exports.append(path)
        trace = {"traceEvents": draw(TWO_GPUS, NAMES, step=3) + [counter(0, 1, 64), counter(1, 2, 64)]}
        planned = {"traceEvents": copy.deepcopy(trace["traceEvents"]), "otherData": {"plan": plan()}}
        self.objects = [trace, planned, plan(), {"traceEvents": capture()}]

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self):
        """(program, arguments) of the next mutant."""
        kind = self.random.randrange(10)
        return self.export() if kind < 6 else self.timeline() if kind < 8 else self.run_folder()

    def outputs(self):
        return self.random.choice([[], ["--json"], ["-o", self.path("page.html")], ["--svg", self.path("picture.svg")]])

    def export(self):
        path, draw_ = self.path("m.sqlite"), self.random
        shutil.copy(draw_.choice(self.exports), path)
        with contextlib.closing(sqlite3.connect(path)) as db:  # columns that keep a value of any type, and may have none
            db.execute("PRAGMA writable_schema = ON")
            db.execute("UPDATE sqlite_master SET sql = replace(replace(replace(sql, 'INTEGER', 'BLOB'), 'NOT NULL', ''), "
                       "'PRIMARY KEY', '') WHERE type = 'table'")
            db.commit()
        with contextlib.closing(sqlite3.connect(path)) as db:
            columns = [(table, row[1]) for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
                       for row in db.execute(f"PRAGMA table_info({table})") if row[1] in READ]
            for _ in range(draw_.choice((1, 1, 1, 2, 3))):
                table, column = draw_.choice(columns)
                value = draw_.choice(ODD)
                value = value if not isinstance(value, str) else value.encode("utf-8", "replace").decode()
                rows = draw_.choice(("1", "rowid = 1", "rowid % 2", "rowid % 3 = 1"))
                with contextlib.suppress(sqlite3.IntegrityError):
                    db.execute(f'UPDATE {table} SET "{column}" = ? WHERE {rows}', (value,))
            db.commit()
        more = []
        if draw_.random() < 0.2:
            self.write("p.json", self.spoil(plan()))
            more = ["--plan", self.path("p.json")]
        if draw_.random() < 0.2:
            more += ["--steps-by", draw_.choice(("F s*", "step", "relu"))]
        return "gpipe-compare", [path, *more, *self.outputs()]

    def timeline(self):
        self.write("m.json", self.spoil(copy.deepcopy(self.random.choice(self.objects))))
        return "gpipe-compare", [self.path("m.json"), *self.outputs()]

    def run_folder(self):
        folder = self.path("run")
        os.makedirs(folder, exist_ok=True)
        lines = [self.spoil(copy.deepcopy(event)) if self.random.random() < 0.4 else event for event in WHOLE]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        self.write("run/metrics.jsonl", text)
        self.write("run/config.yaml", self.random.choice((CONFIG % "0.5", "a: [", "- \0\n", "x" * 5000, "{}: \"\\x\"\n")))
        self.write("run/plan.json", self.spoil(plan()))
        outputs = self.random.choice([["--text"], ["--json"], ["-o", self.path("report.html")], ["--svg", self.path("curves.svg")]])
        return "gpipe-report", [folder, *outputs]

    def write(self, name, content):
        content = content if isinstance(content, str) else json.dumps(content)
        with open(self.path(name), "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(content)

    def spoil(self, data):
        """Replaces or removes a few values, at any depth."""
        for _ in range(self.random.choice((1, 1, 2, 4))):
            at = data
            while True:
                keys = list(at) if isinstance(at, dict) else range(len(at))
                if not keys:
                    break
                key = self.random.choice(keys)
                if isinstance(at[key], (dict, list)) and at[key] and self.random.random() < 0.9:
                    at = at[key]
                    continue
                if self.random.random() < 0.1:
                    del at[key]
                else:
                    at[key] = copy.deepcopy(self.random.choice(ODD_JSON))
                break
        return data


def try_mutants(count, seed):
    """What is wrong with the first mutant of each kind that ends badly, as texts."""
    wrong = {}
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("waits")))
    with tempfile.TemporaryDirectory(prefix="gp-mutants-") as folder:
        mutants = Mutants(folder, seed)
        for number in range(count):
            name, arguments = mutants.make()
            signal.alarm(SECONDS)
            try:
                status, said = run(name, arguments)
                if status not in (0, 2) or (status == 2) != bool(said) or (said and (not said.startswith(name + ": ") or said.count("\n") != 1)):
                    wrong.setdefault(said[-200:], f"mutant {number}: {name} ends with {status} and says {said!r}")
            except Exception as error:  # of any type: the program did not catch it
                place = traceback.extract_tb(error.__traceback__)[-1]
                wrong.setdefault((place.filename, place.lineno), f"mutant {number}: {name} {' '.join(arguments)}\n" + traceback.format_exc())
            finally:
                signal.alarm(0)
    return list(wrong.values())


class Tests(unittest.TestCase):
    def test_every_mutant_ends_with_a_table_or_a_sentence(self):
        self.assertEqual(try_mutants(SHARE, 31), [])

    def test_pipes_are_not_waited_for(self):
        with tempfile.TemporaryDirectory(prefix="gp-pipes-") as name:
            folder = pathlib.Path(name)
            (folder / "run").mkdir()
            (folder / "run/metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in WHOLE))
            with Made(folder / "a.sqlite") as made:
                two_stages(made)
            for pipe in ("run/config.yaml", "run/plan.json", "a.plan.json", "b.sqlite", "c.json"):
                os.mkfifo(folder / pipe)
            path = lambda its: os.path.join(name, its)  # noqa: E731
            for program_, arguments, status, words in (
                ("gpipe-report", [path("run"), "--json"], 0, ""),
                ("gpipe-compare", [path("a.sqlite")], 2, path("a.plan.json") + ": is not a regular file; write the timeline to a file first"),
                ("gpipe-compare", [path("b.sqlite")], 2, path("b.sqlite") + ": is not a regular file; write the timeline to a file first"),
                ("gpipe-compare", [path("a.sqlite"), "--plan", path("c.json")], 2,
                 path("c.json") + ": is not a regular file; write the timeline to a file first")):
                signal.signal(signal.SIGALRM, lambda *_: self.fail("it waits"))
                signal.alarm(SECONDS)
                self.assertEqual(run(program_, arguments), (status, f"{program_}: {words}\n" if words else ""))
                signal.alarm(0)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
        found = try_mutants(count, seed)
        print("\n".join(found + [f"{count} mutants of timelines and run folders, seed {seed}: {len(found)} findings"]))
        sys.exit(bool(found))
    unittest.main()
