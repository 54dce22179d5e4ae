"""bench/peers.py without its measuring: ratios, tables, marks, which steps count, processes that end, and the networks' configurations."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True
import peers  # noqa: E402
from beside import environment, networks, process, rows, tables  # noqa: E402

MIB = 1 << 20


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Ratios(unittest.TestCase):
    def test_are_of_the_same_round(self):
        self.assertEqual(tables.ratios([2.0, 30.0, 5.0], [1.0, 10.0, 5.0]), (1.0, 2.0, 3.0))

    def test_leave_out_rounds_in_which_either_is_missing(self):
        self.assertEqual(tables.ratios([2.0, None, 5.0], [1.0, 10.0, None]), (2.0, 2.0, 2.0))
        self.assertEqual(tables.ratios([2.0, 8.0], [1.0]), (2.0, 2.0, 2.0))
        self.assertIsNone(tables.ratios([None], [1.0]))
        self.assertIsNone(tables.ratios([], [1.0]))


class Tables(unittest.TestCase):
    RATES = {"small": {"ours_1x1": [100.0, 100.0], "ours_1x2": [300.0, 200.0], "ours_never": [150.0, 160.0], "eager_2": [100.0, 100.0],
                       "tuned_2": [None, None]},
             "unet": {"ours_1x2": [30.0, 30.0], "eager_2": [20.0, 10.0]}}

    def row(self, lines, title):
        found = [line[tables.FIRST:].split() for line in lines if line.startswith(title)]
        self.assertEqual(len(found), 1, f"{title!r} stands in {len(found)} lines of {lines}")
        return " ".join(found[0])

    def test_ratios(self):
        lines = tables.ratio_table(self.RATES)
        self.assertEqual(self.row(lines, "ours 1 x 2 / eager, 2"), "2.50 (2.00-3.00) 2.25 (1.50-3.00)")
        self.assertEqual(self.row(lines, "ours 2 x 1 never / ours 1 x 1"), "1.55 (1.50-1.60) -")
        self.assertFalse([line for line in lines if "tuned" in line])  # no network has it

    def test_rates(self):
        lines = tables.rate_table(self.RATES)
        self.assertEqual(self.row(lines, "PyTorch eager, 2 threads"), "100.0 15.0")
        self.assertFalse([line for line in lines if "tuned" in line])

    def test_memory_is_less_what_the_libraries_take(self):
        peaks = {"small": {"ours_1x2": [90.0 * MIB, 110.0 * MIB], "eager_2": [700.0 * MIB, 700.0 * MIB]}}
        empty = {"ours": 20 * MIB, "torch": 600 * MIB}
        planned = {"small": {"ours_1x2": (60 * MIB, 75 * MIB)}}
        lines = tables.memory_table(peaks, empty, planned)
        self.assertEqual(self.row(lines, "gpipe-train, 1 stage x 2 threads"), "80")
        self.assertEqual(self.row(lines, "PyTorch eager, 2 threads"), "100")
        self.assertEqual(self.row(lines, "planned, arenas: 1 stage x 2 threads"), "60")
        self.assertEqual(self.row(lines, "planned, all of the run: 1 stage x 2 threads"), "75")
        self.assertEqual(self.row(tables.mark_table({"small": {}}, peaks, empty), "memory"), "0.80 of 1.00 met")

    def test_marks(self):
        lines = tables.mark_table(self.RATES, self.RATES, {"ours": 0, "torch": 0})
        self.assertEqual(self.row(lines, "ours 1 x 2 / eager, 2"), "2.50 of 2.00 met 2.25 of 2.00 met")
        self.assertEqual(self.row(lines, "ours 1 x 2 / tuned, 2"), "- -")
        self.assertEqual(self.row(lines, "memory"), "2.50 of 1.00 missed 2.00 of 1.00 missed")

    def test_use(self):
        one = process.Measured(0.1, 10, 5, faults=1234, switches=5.4, user=0.2, system=0.01, others=0.02, steal=0.5)
        lines = tables.use_table({"small": {"ours_1x2": [one, None], "torchgpipe_never": [one, one]}})
        self.assertEqual(self.row(lines, "gpipe-train, 1 stage x 2 threads"), "1,234 5 200+10")
        disturbed = tables.disturbance({"small": {"ours_1x2": [one, None]}})
        self.assertIn("other programs 2 %, at most 2 %; CPU steal 50 %, at most 50 %", disturbed[0])
        self.assertFalse([line for line in lines if "torchgpipe" in line])

    def test_every_mark_has_a_ratio_and_every_ratio_has_rows(self):
        named = {(ours, other) for _, ours, other in tables.RATIOS}
        for ours, other, marks in tables.MARKS:
            self.assertIn((ours, other), named)
            self.assertEqual(set(marks), set(networks.NETWORKS))
        self.assertLessEqual({row for pair in named for row in pair}, set(rows.ROWS))


class Steps(unittest.TestCase):
    def test_warm_up_is_two_steps_and_a_quarter_of_the_time(self):
        self.assertIsNone(process.warm_up([10.0], 4))
        self.assertEqual(process.warm_up([10.0, 1.0, 1.0], 4), 2)
        self.assertEqual(process.warm_up([0.3] * 9, 4), 4)

    def test_three_steps_at_least(self):
        self.assertFalse(process.enough([9.0] * 4, 2, 4))
        self.assertTrue(process.enough([9.0] * 5, 2, 4))
        self.assertFalse(process.enough([1.0] * 5, 2, 4))
        self.assertTrue(process.enough([1.0] * 6, 2, 4))
        self.assertFalse(process.enough([9.0] * 9, None, 4))

    def test_figures_are_for_each_step(self):
        whole = 10 * os.cpu_count()
        begin = process.Used(2, 100, 10, 1.0, 0.0, 50, 5, 100)
        end = process.Used(6, 500, 12, 3.0, 1.0, 53 + 0.25 * whole, 5 + 0.5 * whole, 110)
        one = process.figures([1.0, 9.0, 2.0, 2.5], begin, end, 77)
        self.assertEqual((one.step, one.steps, one.peak), (2.25, 4, 77))
        self.assertEqual((one.faults, one.switches, one.user, one.system), (100, 0.5, 0.5, 0.25))
        self.assertEqual((one.others, one.steal), (0.25, 0.5))

    def test_seconds_of_the_processors(self):
        tick = process.TICK
        text = f"cpu {tick} {2 * tick} {3 * tick} {100 * tick} {50 * tick} {4 * tick} {5 * tick} {7 * tick} 0 0\ncpu0 9 9 9 9 9 9 9 9 0 0\n"
        self.assertEqual(process.processors_used(text), (15, 7))

    def test_a_line_that_is_half_written_waits(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "steps.jsonl"
            steps = process.Steps(path)
            steps.update()
            self.assertEqual(steps.seconds, [])
            path.write_text('{"event":"start"}\n{"event":"step","seconds":1.5}\n{"event":"st', encoding="utf-8")
            steps.update()
            self.assertEqual(steps.seconds, [1.5])
            with open(path, "a", encoding="utf-8") as file:
                file.write('ep","seconds":2.5}\n')
            steps.update()
            self.assertEqual(steps.seconds, [1.5, 2.5])


class Processes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, text):
        path = self.folder / "program.py"
        path.write_text(text, encoding="utf-8")
        return [sys.executable, path]

    def test_a_measurement_ends_the_program_and_its_children(self):
        child = self.folder / "child"
        command = self.program(f"""
import json, pathlib, subprocess, time
pathlib.Path({str(child)!r}).write_text(str(subprocess.Popen(["sleep", "100"]).pid))
kept = bytearray(64 << 20)
with open({str(self.folder / "steps")!r}, "a") as file:
    while True:
        time.sleep(0.02)
        print(json.dumps({{"event": "step", "seconds": 0.25}}), file=file, flush=True)
""")
        one = process.measure([command], {}, self.folder / "steps", 1, 60)
        self.assertEqual(one.step, 0.25)
        self.assertGreaterEqual(one.steps, 4)
        self.assertGreater(one.peak, 64 << 20)
        pid, end = int(child.read_text(encoding="utf-8")), time.monotonic() + 10
        while alive(pid) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertFalse(alive(pid))

    def test_the_program_ends_with_the_measuring_process(self):
        path = self.folder / "pid"
        command = [str(word) for word in self.program(f"""
import os, pathlib, time
pathlib.Path({str(path)!r}).write_text(str(os.getpid()))
time.sleep(100)
""")]
        measuring = subprocess.Popen([sys.executable, "-B", "-c", f"""
import sys; sys.path.insert(0, {str(ROOT / "bench")!r})
from beside import process
process.measure([{command!r}], {{}}, {str(self.folder / "steps")!r}, 1, 60)
"""])
        end = time.monotonic() + 30
        while not (path.exists() and path.read_text(encoding="utf-8")) and time.monotonic() < end:
            time.sleep(0.05)
        measuring.kill()
        measuring.wait()
        pid, end = int(path.read_text(encoding="utf-8")), time.monotonic() + 10
        while alive(pid) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertFalse(alive(pid))

    def test_a_program_that_fails_gives_its_last_line(self):
        command = self.program("import sys; sys.exit('first\\nno such module')")
        with self.assertRaisesRegex(process.RowFailed, "^no such module$"):
            process.measure([command], {}, self.folder / "steps", 1, 60)

    def test_a_program_that_does_not_exist(self):
        with self.assertRaisesRegex(process.RowFailed, "nowhere: No such file"):
            process.measure([["/nowhere"]], {}, self.folder / "steps", 1, 60)

    def test_a_program_that_does_no_steps_is_left_out(self):
        with self.assertRaisesRegex(process.RowFailed, "only 0 steps"):
            process.measure([["sleep", "100"]], {}, self.folder / "steps", 1, 0.3)


class Rounds(unittest.TestCase):
    def test_every_second_round_is_reversed_and_rows_that_cannot_run_are_left_out(self):
        order = []

        def measured(_programs, _network, row, _options):
            order.append(row)
            return None if row == "eager_1" else len(order)

        saved, peers.measured = peers.measured, measured
        self.addCleanup(setattr, peers, "measured", saved)
        saved_say, peers.say = peers.say, lambda _: None
        self.addCleanup(setattr, peers, "say", saved_say)
        records = {}
        peers.run(None, types.SimpleNamespace(model=["small"], rows=["ours_1x1", "eager_1", "eager_2"], rounds=2), records)
        self.assertEqual(order, ["ours_1x1", "eager_1", "eager_2", "eager_2", "ours_1x1"])
        self.assertEqual(records, {"small": {"ours_1x1": [1, 5], "eager_1": [None, None], "eager_2": [3, 4]}})


class Environment(unittest.TestCase):
    def test_fits_only_the_listed_versions(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            packages = folder / "lib/python3.11/site-packages"
            packages.mkdir(parents=True)
            (folder / "bin").mkdir()
            environment.python_of(folder).touch()
            for package, version in environment.PACKAGES.items():
                self.assertFalse(environment.fits(folder))
                (packages / f"{package}-{version}{'+cpu' if package == 'torch' else ''}.dist-info").mkdir()
            self.assertTrue(environment.fits(folder))
            next(packages.glob("numpy-*")).rename(packages / "numpy-1.0.dist-info")
            self.assertFalse(environment.fits(folder))

    def test_a_folder_with_other_files_is_refused(self):
        with tempfile.TemporaryDirectory() as name:
            (pathlib.Path(name) / "letter.txt").touch()
            with self.assertRaisesRegex(environment.NoEnvironment, "is no virtual environment"):
                environment.prepare(name, lambda _: None)


class Networks(unittest.TestCase):
    PARAMETERS = {"small": 29034, "resnet50": 23528522, "resnet50-224": 23528522, "unet": 4519160}

    def test_gpipe_train_reads_them(self):
        with tempfile.TemporaryDirectory() as folder:
            programs = rows.Programs(os.environ["GPIPE_TRAIN"], None, folder)
            for name, parameters in self.PARAMETERS.items():
                for row in (row for row in rows.ROWS if rows.ROWS[row].pipeline):
                    plan = programs.output("--plan", programs.config(name, row))
                    self.assertIn(f"{parameters:,} parameters", plan)
                arenas, whole = programs.planned(name, "ours_1x2")
                self.assertGreater(arenas, 8 * parameters)
                self.assertGreater(whole, arenas)

    def test_a_row_of_ours_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            programs = rows.Programs(os.environ["GPIPE_TRAIN"], None, folder)
            one = process.measure(*programs.commands("tiny", "ours_1x1"), 0.05, 60)
            self.assertGreater(one.step, 0)
            self.assertGreater(one.peak, 1 << 20)


class Merge(unittest.TestCase):
    def test_rounds_of_several_files_come_after_each_other(self):
        one = {"step": 0.5, "steps": 3, "peak": MIB, "faults": 0, "switches": 0, "user": 0, "system": 0, "others": 0, "steal": 0}
        with tempfile.TemporaryDirectory() as name:
            paths = []
            for i, rounds in enumerate([{"ours_1x2": [one]}, {"ours_1x2": [one], "eager_2": [{**one, "step": 1.0}]}]):
                paths.append(pathlib.Path(name) / f"{i}.json")
                file = {"about": [f"# run {i}"], "rounds": {"small": rounds}, "planned_bytes": {"small": {list(rounds)[-1]: [MIB, MIB]}},
                        "empty_bytes": {"ours": 0, "torch": 0}}
                paths[-1].write_text(json.dumps(file), encoding="utf-8")
            done = subprocess.run([sys.executable, "-B", ROOT / "bench/peers.py", "--merge", *paths, "--json", f"{name}/both.json"],
                                  stdout=subprocess.PIPE, text=True, check=True)
            both = json.loads(pathlib.Path(f"{name}/both.json").read_text(encoding="utf-8"))
        self.assertEqual(done.stdout.splitlines()[:2], ["# run 0", "# run 1"])
        self.assertIn("2.00 (2.00-2.00)", done.stdout)
        self.assertEqual(both["planned_bytes"]["small"], {"ours_1x2": [MIB, MIB], "eager_2": [MIB, MIB]})
        self.assertEqual([bool(x) for x in both["rounds"]["small"]["eager_2"]], [False, True])
        self.assertEqual(both["rounds"]["small"]["ours_1x2"], [one, one])

    def test_merging_what_cannot_be_read(self):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "broken.json"
            for content in (None, "{"):
                if content:
                    path.write_text(content, encoding="utf-8")
                done = subprocess.run([sys.executable, "-B", ROOT / "bench/peers.py", "--merge", path], stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, rf"^peers: {path} could not be read: .*\n$")


if __name__ == "__main__":
    unittest.main()
