"""gpipe-compare: its JSON, its tables, its files, and what it refuses."""
import json
import os
import stat
import struct
import subprocess
import sys
import unittest
import xml.etree.ElementTree
import zlib

from plans import plan, run_of
from traces import NAMES, PROGRAM, TWO_GPUS, Case, counter, draw

from timelines import compare as comparing
from timelines import output, tables
from timelines.timeline import IDLE_KEYS

SLOW = {**TWO_GPUS, "worker 0 (cuda:0), stage 0: computes": "aaaaaaabbbbbbb....cc"}


class Command(Case):
    def run_it(self, *args, **more):
        return subprocess.run([sys.executable, PROGRAM, *args], capture_output=True, text=True, encoding="utf-8", check=False, **more)

    def ok(self, *args, **more):
        done = self.run_it(*args, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def refused_with(self, words, *args, status=2):
        done = self.run_it(*args)
        self.assertEqual(done.stderr.replace(self.folder.name + "/", ""), f"gpipe-compare: {words}\n")
        self.assertEqual((done.returncode, done.stdout), (status, ""))

    def two(self):
        return self.trace(draw(TWO_GPUS, NAMES), "a.json"), self.trace(draw(SLOW, NAMES), "b.json")


class Json(Command):
    def test_the_contract(self):
        # a.json is one step of 20 ms, worked out in test_figures.py. In b.json worker 0 computes 14 + 2 ms, and all of
        # its copy (6 to 10) while it computes (0 to 14): exposed 0. Idle: 20 − 16 = 4.
        data = json.loads(self.ok(*self.two(), "--json"))
        self.assertEqual(set(data), {"runs", "text"})
        self.assertIsInstance(data["text"], str)
        first, second = data["runs"]
        self.assertEqual((first["name"], first["steps"], round(first["step_ms"], 6), first["between_ms"]), ("a.json", 1, 20.0, 0.0))
        for run, expected in ((first, [(12, 4, 2, 6), (8, 2, 2, 10)]), (second, [(16, 4, 0, 4), (8, 2, 2, 10)])):
            self.assertEqual([tuple(round(worker[key], 6) for key in ("busy_ms", "copy_ms", "copy_exposed_ms", "idle_ms"))
                              for worker in run["workers"]], expected)
            for worker in run["workers"]:
                self.assertEqual(list(worker["idle"]), list(IDLE_KEYS))
                self.assertAlmostEqual(sum(worker["idle"].values()), worker["idle_ms"], places=9)
                self.assertGreaterEqual(min(worker["idle"].values()), 0)

    def test_every_number_is_finite(self):
        def constant(word):
            raise AssertionError(word)
        json.loads(self.ok(*self.two(), "--json"), parse_constant=constant)
        empty = self.trace(draw({"worker 0 (cpu:0), stage 0": "a"}, NAMES, scale=0.0))  # a step of no length
        json.loads(self.ok(empty, empty, "--json"), parse_constant=constant)
        self.ok(empty, empty)

    def test_names(self):
        first, second = self.two()
        self.assertEqual([run["name"] for run in json.loads(self.ok(first, second, "--names", "before,after", "--json"))["runs"]],
                         ["before", "after"])
        os.mkdir(self.path("x"))
        other = self.trace(draw(TWO_GPUS, NAMES), "x/a.json")
        self.assertEqual([run["name"] for run in json.loads(self.ok(first, other, "--json"))["runs"]], [first, other])
        self.refused_with("--names has 1 name for 2 files; give each file one name, separated by commas", first, second, "--names", "x")
        self.refused_with('--names: "x" is given twice; give each file a name of its own', first, second, "--names", "x,x")
        self.refused_with('--names: "" is empty; give each file a name of its own', first, second, "--names", ",")


class Text(Command):
    def table(self, text, title):
        """The lines of a table, without spaces between columns."""
        part = text.split("\n" + title, 1)[1].split("\n\n", 1)[0]
        return [" ".join(line.split()) for line in part.splitlines()[1:]]

    def test_tables(self):
        # Means over the workers: busy (12 + 8) / 2 = 10 and (16 + 8) / 2 = 12; copying 3 and 3; exposed 2 and 1; idle 8 and 7.
        # Bubble: 1 − 20 / 40 and 1 − 24 / 40. F s0: 4 + 4 ms and 7 + 7 ms; B s0: 4 and 2.
        text = self.ok(*self.two())
        step = self.table(text, "Step (busy to idle: mean over the workers)")
        for line in ("A B B/A", "step [ms], median 20.00 20.00 1.00×", "busy [ms of a step] 10.00 12.00 1.20×", "copying 3.00 3.00 1.00×",
                     "exposed copying 2.00 1.00 0.50×", "idle 8.00 7.00 0.88×", "bubble 50.0 % 40.0 % −10.0"):
            self.assertIn(line, step)
        self.assertIn("idle in all 8.00 7.00 −1.00", self.table(text, "Where idle time goes [ms of a step, mean over the workers]"))
        self.assertEqual(self.table(text, "Workers [ms of a step]"),
                         ["worker busy copying exposed idle share alive planned", "cuda:0 A 12.00 4.00 2.00 6.00 60.0 % – –",
                          "B 16.00 4.00 0.00 4.00 80.0 % – –", "cuda:1 A 8.00 2.00 2.00 10.00 40.0 % – –",
                          "B 8.00 2.00 2.00 10.00 40.0 % – –"])
        # All: 8 + 4 + 4 + 4 + 4 + 2 = 26 and 14 + 4 + 4 + 2 + 4 + 2 = 30 ms.
        rows = self.table(text, "Instructions [ms]")
        self.assertEqual(rows[:2], ["instruction A: count median a step share B: count median a step share B/A",
                                    "F s0 2 4.00 8.00 30.8 % 2 7.00 14.00 46.7 % 1.75×"])
        self.assertIn("B s0 1 4.00 4.00 15.4 % 1 2.00 2.00 6.7 % 0.50×", rows)
        # One sentence on top, with numbers of the tables: the steps are as long as one another.
        self.assertTrue(text.startswith("B is as fast as A: 20.0 and 20.0 ms a step"), text[:200])
        self.assertIn("A: The file has no plan, so nothing predicted is beside what was measured.", text)

    def test_no_line_is_wider_than_100_columns(self):
        long = "void at::native::vectorized_elementwise_kernel<4, " + "x" * 200
        events = draw(TWO_GPUS, NAMES) + [counter(0, 1, 123456789)]
        for event in events:
            if event["name"] == "F s0 m0":
                event["name"] = long
        paths = [self.trace(events, f"{'n' * 120}{i}.json") for i in range(6)]
        for count in (1, 2, 4, 6):
            text = self.ok(*paths[:count])
            lines = [line for line in text.splitlines() if not line.startswith(tuple(f"{letter}:" for letter in "ABCDEF"))]
            self.assertLessEqual(max(map(len, lines)), 100)
        self.assertIn("F/A", text)

    def test_predicted_beside_measured(self):
        # The run takes twice as long as planned: F s0 is 2 ms in the plan and 4 ms in the run, twice in a step: +4 ms.
        path = self.trace(run_of(scale=2.0), "t.json", plan())
        text = self.ok(path)
        self.assertIn("predicted by the plan 11.00", [" ".join(line.split()) for line in text.splitlines()])
        rows = self.table(text, "Predicted beside measured, A [ms]")
        self.assertEqual(rows[:2], ["instruction count predicted measured ratio a step", "F s0 2 2.00 4.00 2.00× +4.00"])
        self.assertIn("B s1 1 3.00 6.00 2.00× +3.00", rows)
        both = self.ok(self.write(plan(), "plan.json"), path)
        self.assertIn("A and B have the same plan.", both)
        other = self.ok(self.write(plan(identity="b"), "plan.json"), path)
        self.assertIn("A and B have different plans.", other)

    def test_a_long_table_is_cut(self):
        # 25 kinds, each 1 ms: 20 rows, and the rest says what is left: 5 ms.
        tracks = {"worker 0 (cpu:0), stage 0": "abcdefghijklmnopqrstuvwxy"}
        names = {letter: f"F s{index} m0" for index, letter in enumerate("abcdefghijklmnopqrstuvwxy")}
        rows = self.table(self.ok(self.trace(draw(tracks, names))), "Instructions [ms]")
        self.assertEqual((len(rows), rows[-1]), (22, "and 5 more, 5.00 ms in all; --json has them"))

    def test_instructions_that_take_no_time_are_counted_only(self):
        # The two sends of the plan take 0 ms: 6 rows of 8.
        rows = self.table(self.ok(self.write(plan(), "plan.json")), "Instructions [ms]")
        self.assertEqual((len(rows), rows[-1]), (8, "and 2 more, 0.00 ms in all; --json has them"))

    def test_steps_are_chosen(self):
        one = {"worker 0 (cpu:0), stage 0": "aa"}
        path = self.trace(sum((draw(one, NAMES, n, 5 * n, n, n == 1) for n in (1, 2, 3)), []))
        self.assertIn("step [ms], median 4.00", [" ".join(line.split()) for line in self.ok(path, "--steps", "2").splitlines()])
        self.assertIn("timeline, steps 2 to 3, 1 worker", self.ok(path, "--steps", "2:9"))
        self.refused_with("t.json: has no step in 7:9; it has steps 1 to 3, so choose --steps among these", path, "--steps", "7:9")
        self.assertIn("one predicted step", self.ok(self.write(plan(), "plan.json"), "--steps", "7:9"))


class Workers(Command):
    """Runs with different numbers of workers."""

    def test_they_are_refused_or_compared_in_total(self):
        first = self.two()[0]
        one = self.trace(draw({"worker 0 (cuda:0), stage 0: computes": "aaaabbbb"}, NAMES), "one.json")
        self.refused_with("a.json has 2 workers and one.json has 1, so they cannot be compared worker by worker; "
                          "add --totals to compare means over the workers", first, one)
        text = self.ok(first, one, "--totals")
        self.assertNotIn("Workers [ms", text)
        # F: 4 + 4 + 4 = 12 ms over both stages of A, and 4 + 4 = 8 ms in B.
        self.assertIn("F 3 4.00 12.00 46.2 % 2 4.00 8.00 100.0 % 0.67×", [" ".join(line.split()) for line in text.splitlines()])
        self.assertEqual(len(json.loads(self.ok(first, one, "--totals", "--json"))["runs"][1]["workers"]), 1)


class Files(Command):
    """-o, --svg and --png: checked before anything is read, whole or not at all."""

    def test_targets_that_are_refused(self):
        first, second = self.two()
        for option in ("-o", "--svg", "--png"):
            self.refused_with(f"b.json: is one of the files that are compared; choose another name with {option}", first, second, option,
                              second)
        given = self.write(plan(), "plan.json")
        self.refused_with("plan.json: is one of the files that are compared; choose another name with -o", first, "--plan", given,
                          "-o", given)
        os.symlink(first, self.path("link"))
        self.refused_with("link: is one of the files that are compared; choose another name with -o", first, "-o", self.path("link"))
        notes = self.write("my notes", "notes.html")
        self.refused_with("notes.html: exists, and gpipe-compare did not write it; choose another name with -o, or remove the file",
                          first, "-o", notes)
        os.mkdir(self.path("folder"))
        self.refused_with("folder: is a folder; name a file with -o", first, "-o", self.path("folder"))
        self.refused_with("/dev/null: is not a regular file; choose another name with -o", first, "-o", "/dev/null")
        self.refused_with("-o has an empty name; name a file", first, "-o", "")
        self.refused_with("p.html: is named with -o and with --svg; choose two names", first, "-o", self.path("p.html"), "--svg",
                          self.path("p.html"))

    def test_a_page_and_a_picture(self):
        first, second = self.two()
        page, picture = self.path("r.html"), self.path("p.svg")
        for _ in range(2):  # the second time over the first
            text = self.ok(first, second, "-o", page, "--svg", picture)
        self.assertIn("F s0", text)
        with open(page, encoding="utf-8") as file:
            content = file.read()
        self.assertTrue(content.startswith("<!DOCTYPE html>") and content.endswith("<!-- gpipe-compare -->\n"))
        self.assertEqual(xml.etree.ElementTree.parse(picture).getroot().tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["a.json", "b.json", "p.svg", "r.html"])
        self.refused_with("none/r.html: cannot be written: no such file or directory", first, "-o", self.path("none/r.html"), status=1)

    def test_replacing(self):
        def make(path):
            output.write_text(path, "<html></html>\n")
        path = self.path("r.html")
        output.replace(path, make)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "<html></html>\n<!-- gpipe-compare -->\n")
        os.chmod(path, 0o604)
        output.check(path, "-o", [])
        output.replace(path, make)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o604)

        def fail(path):
            output.write_text(path, "half")
            raise OSError(28, "No space left on device")
        with self.assertRaisesRegex(output.WriteError, r"r\.html: cannot be written: no space left on device$"):
            output.replace(path, fail)
        with open(path, encoding="utf-8") as file:
            self.assertIn("</html>", file.read())
        self.assertEqual(os.listdir(self.folder.name), ["r.html"])
        with self.assertRaisesRegex(output.WriteError, r"none/r\.html: cannot be written: no such file or directory$"):
            output.replace(self.path("none/r.html"), make)

    def test_a_link_stays_a_link(self):
        os.symlink("real.html", self.path("link.html"))
        output.replace(self.path("link.html"), lambda path: output.write_text(path, "<html>"))
        self.assertTrue(os.path.islink(self.path("link.html")))
        self.assertTrue(os.path.isfile(self.path("real.html")))

    def test_a_png_is_marked_and_stays_valid(self):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        whole = output.PNG + chunk(b"IHDR", b"\0\0\0\1\0\0\0\1\x08\0\0\0\0") + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")

        def make(path):
            with open(path, "wb") as file:
                file.write(whole)
        path = self.path("p.png")
        output.replace(path, make)
        output.check(path, "--png", [])
        with open(path, "rb") as file:
            data, at, kinds = file.read(), 8, []
        while at < len(data):
            size = struct.unpack(">I", data[at:at + 4])[0]
            body = data[at + 4:at + 8 + size]
            self.assertEqual(struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0], zlib.crc32(body))
            kinds.append(body[:4])
            at += 12 + size
        self.assertEqual(kinds, [b"IHDR", b"tEXt", b"IDAT", b"IEND"])


class CommandLine(Command):
    def test_what_is_wrong(self):
        path = self.two()[0]
        self.refused_with("the following arguments are required: FILE; gpipe-compare --help lists the options")
        self.refused_with("unrecognized arguments: --stepz; gpipe-compare --help lists the options", path, "--stepz")
        for text in ("6:3", "x", "1:", "-1", "1:2:3"):
            self.refused_with(f"argument --steps: {text!r} is no range of steps: write FIRST:LAST, for example 3:6; "
                              "gpipe-compare --help lists the options", path, f"--steps={text}")
        self.refused_with("--plan has an empty name; name the JSON of gpipe-train --plan --json", path, "--plan", "")
        self.refused_with("27 files are given, and at most 26 can be compared; compare fewer files at a time", *[path] * 27)
        self.refused_with("none: cannot be read: no such file or directory; check the name", path, self.path("none"))

    def test_help(self):
        text = self.ok("--help")
        for word in ("-o FILE", "--json", "--svg FILE", "--png FILE", "--steps FIRST:LAST", "--steps-by RANGE", "--plan FILE",
                     "--names A,B", "--totals", "Exit status"):
            self.assertIn(word, text)

    def test_version(self):
        self.assertRegex(self.ok("--version"), r"^gpipe-compare [0-9.]+\n$")

    def test_printing_fails(self):
        path = self.two()[0]
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([sys.executable, PROGRAM, path], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (1, "gpipe-compare: cannot print: no space left on device\n"))
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([sys.executable, PROGRAM, path], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        self.assertEqual(done.stderr, "")

    def test_any_locale(self):
        path = self.two()[0]
        plain = self.ok(path)
        for locale in ("C", "POSIX", "en_US.ISO-8859-1"):
            environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
            self.assertEqual(self.ok(path, env=environment), plain)


class Numbers(unittest.TestCase):
    def test_texts(self):
        self.assertEqual([tables.ms(value) for value in (0, 0.0123, 1.234, 99.99, 123.45, 2e7, None)],
                         ["0.00", "0.012", "1.23", "99.99", "123.5", "2e+07", "–"])
        self.assertEqual([tables.change(value) for value in (1.5, -1.5, 0, None)], ["+1.50", "−1.50", "±0.00", "–"])
        self.assertEqual([tables.ratio(*values) for values in ((3, 2), (1, 0), (None, 1), (50, 1), (1e6, 1))],
                         ["1.50×", "–", "–", "50.0×", "> 1000×"])
        self.assertEqual([tables.size(value) for value in (12, 1024, 1536 * 1024, 3 << 40, None)],
                         ["12 B", "1.0 KiB", "1.5 MiB", "3072.0 GiB", "–"])
        self.assertEqual([tables.clip("abcdefgh", width) for width in (8, 7, 4)], ["abcdefgh", "abc…fgh", "ab…h"])

    def test_groups_of_runs(self):
        self.assertEqual([comparing.groups([0] * count) for count in (1, 2, 4, 5, 8)],
                         [[[0]], [[0, 1]], [[0, 1, 2, 3]], [[0, 1, 2, 3], [0, 4]], [[0, 1, 2, 3], [0, 4, 5, 6], [0, 7]]])


if __name__ == "__main__":
    unittest.main()
