"""The page of gpipe-report in a browser: curves, hover, zoom, axes, hostile names, long runs."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "scripts")]
import browser as browsers  # noqa: E402
from test_report import CONFIG, END, EVALUATIONS, START, STEPS, WHOLE, lines  # noqa: E402

EVIL = "</script><script>document.title='broken'</script>\"'&<img src=x onerror=document.title='broken'>"
# Two frames: what was asked for has been drawn.
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


def spiky(count, at):
    """Losses of 1, and one of 100 after step `at`; an evaluation after each quarter."""
    yield START
    for step in range(1, count + 1):
        yield {"event": "step", "step": step, "epoch": 1, "loss": 100 if step == at else 1 + step % 2,
               "lr": 0.2 if step < at else 0.1, "samples": 10, "seconds": 0.5, "data_seconds": 0, "time": step * 0.5}
        if step % (count // 4) == 0:
            yield {"event": "eval", "step": step, "loss": 1.5, "accuracy": 0.5, "time": step * 0.5}


class Page(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gp-report-page-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.page = cls.enterClassContext(browsers.Browser(width=1200, height=900))

    def tearDown(self):
        self.assertEqual(self.page.errors, [])
        self.assertEqual([url for url in self.page.requests if not url.startswith(("file:", "data:"))], [])

    def run_folder(self, name, events=WHOLE, config=CONFIG % "0.5"):
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        (path / "metrics.jsonl").write_text(lines(events))
        (path / "config.yaml").write_text(config)
        return path

    def open(self, *arguments):
        page = self.folder / "page.html"
        subprocess.run([sys.executable, ROOT / "scripts/report.py", *arguments, "-o", page], cwd=self.folder, check=True,
                       stdout=subprocess.DEVNULL)
        self.page.open(page)
        return page

    def js(self, expression):
        return self.page.evaluate(expression)

    def drawn(self):
        self.js(DRAWN)

    def place(self, key, x, value=None):
        self.js("document.getElementById('chart-%s').scrollIntoView({block: 'center'})" % key)
        self.drawn()
        at = self.js("gpipeReport.place(%s)" % ", ".join(map(json.dumps, (key, x, *([] if value is None else [value])))))
        return at["x"], at["y"]

    def tip(self):
        self.drawn()
        return self.js("document.getElementById('tip').hidden ? null : "
                       "[...document.getElementById('tip').children].map((one) => one.innerText.replace(/\\s+/g, ' '))")

    def pixel(self, key, x, value):
        """The colour of the canvas where a value is drawn."""
        self.drawn()
        return self.js("""(() => {
            const chart = gpipeReport.charts.find((one) => one.key === %r), ratio = devicePixelRatio;
            const at = gpipeReport.place(%r, %r, %r), frame = chart.canvas.getBoundingClientRect();
            return [...chart.canvas.getContext("2d").getImageData(
                Math.round((at.x - frame.left) * ratio), Math.round((at.y - frame.top) * ratio), 1, 1).data].join();
        })()""" % (key, key, x, value))

    def view(self):
        return [round(x, 6) for x in self.js("gpipeReport.view()")]

    def test_curves_and_values(self):
        self.run_folder("a")
        self.run_folder("b", [START, *({**step, "loss": step["loss"] * 2} for step in STEPS)])
        self.open("a", "b")
        self.assertEqual(self.js("[...document.querySelectorAll('.chart')].map((one) => one.id)"),
                         ["chart-" + key for key in ("loss", "accuracy", "lr", "grad_norm", "samples_per_second", "data_ms")])
        self.page.move(*self.place("loss", 3))
        self.assertEqual(self.tip(), ["loss, step 3", "a, step 3 2", "b, step 3 4"])
        self.page.move(*self.place("samples_per_second", 2))
        self.assertEqual(self.tip(), ["samples/s, step 2", "a, step 2 50", "b, step 2 50"])
        self.page.move(*self.place("data_ms", 3))
        self.assertEqual(self.tip(), ["waiting for data before a step, step 3", "a, step 3 100 ms", "b, step 3 100 ms"])
        self.page.move(*self.place("accuracy", 4))
        self.assertEqual(self.tip(), ["accuracy, step 4", "a, step 4 0.5", "a, evaluation after step 4 0.625",
                                      "a, step 4: done end", "b, step 4 0.5"])
        for key, step, value in (("loss", 3, 2), ("loss", 2, 1), ("accuracy", 2, 0.75), ("lr", 3, 0.25)):
            self.assertNotEqual(self.pixel(key, step, value), self.pixel(key, step - 0.5, value * 1.02 + 0.05), (key, step))
        self.js("document.querySelector('[data-run=\"1\"]').click()")
        self.page.move(*self.place("loss", 3))
        self.assertEqual(self.tip(), ["loss, step 3", "a, step 3 2"])

    def test_over_time(self):
        self.run_folder("a")
        self.open("a")
        self.js("document.querySelector('[data-axis=time]').click()")
        self.assertEqual(self.view(), [1, 3])  # from the first step to the end event
        self.page.move(*self.place("loss", 2.0))
        self.assertEqual(self.tip(), ["loss, 2 s", "a, step 3 2"])
        self.page.move(*self.place("loss", 1.5))
        self.assertEqual(self.tip()[0], "loss, 1.5 s")
        self.assertIn("a, evaluation after step 2 1.5", self.tip())
        self.js("document.querySelector('[data-axis=step]').click()")
        self.assertEqual(self.view(), [1, 4])

    def test_zoom_pan_and_keys(self):
        self.run_folder("a", spiky(1000, 500))
        self.open("a")
        self.assertEqual(self.view(), [1, 1000])
        self.page.drag(self.place("loss", 400), self.place("loss", 600))
        self.drawn()
        low, high = self.view()
        self.assertTrue(398 < low < 402 and 598 < high < 602, (low, high))
        self.page.key("ArrowRight")
        self.assertAlmostEqual(self.view()[0], low + 0.2 * (high - low), places=3)
        self.page.key("+")
        self.assertAlmostEqual(self.view()[1] - self.view()[0], (high - low) / 2, places=3)
        self.page.key("-")
        start, end = self.place("loss", 500), self.place("loss", 550)
        before = self.view()
        self.page.drag(end, start, modifiers=browsers.SHIFT)
        self.drawn()
        self.assertAlmostEqual(self.view()[0] - before[0], 50, delta=1.5)
        before = self.view()
        self.page.wheel(*self.place("loss", 600), -100, modifiers=browsers.CONTROL)
        self.js("new Promise((done) => setTimeout(done, 50))")
        self.assertAlmostEqual(self.view()[1] - self.view()[0], 0.8 * (before[1] - before[0]), places=3)
        self.js("document.querySelector('[data-axis=time]').click()")  # the same steps
        self.drawn()
        low, high = self.view()
        self.page.key("0")
        self.assertEqual(self.view(), [0.5, 500])
        self.page.drag(self.place("loss", 100), self.place("loss", 200))
        self.page.click(*self.place("loss", 150), count=2)
        self.drawn()
        self.assertEqual(self.view(), [0.5, 500])

    def test_smoothing_says_its_window(self):
        """The mean of the last ten of 1, 2, 1, 2 … is 1.5; with the spike it is (5 · 2 + 4 · 1 + 100) / 10."""
        self.run_folder("a", spiky(1000, 500))
        self.open("a")
        select = "document.getElementById('window')"
        self.assertEqual(self.js(select + ".selectedOptions[0].text"), "mean of the last 20 steps")
        self.js(select + ".value = '10'; %s.dispatchEvent(new Event('change'))" % select)
        values = self.js("gpipeReport.smoothed(0, 'loss')")
        self.assertEqual((values[0], values[1], values[100]), (2, 1.5, 1.5))  # the first step has itself only
        self.assertAlmostEqual(values[499], 11.4)
        self.assertAlmostEqual(values[508], 11.4)
        self.assertAlmostEqual(values[509], 1.5)
        self.assertNotEqual(self.pixel("loss", 505, 11.4), self.pixel("loss", 520, 11.4))  # the mean is drawn
        self.page.move(*self.place("loss", 500))
        self.assertEqual(self.tip(), ["loss, step 500", "a, step 500 100; mean of 10: 11.4", "a, evaluation after step 500 1.5"])
        self.page.move(*self.place("lr", 500))  # a rate is not smoothed
        self.assertEqual(self.tip()[:2], ["learning rate, step 500", "a, step 500 0.1"])
        self.js(select + ".value = '1'; %s.dispatchEvent(new Event('change'))" % select)
        self.assertEqual(self.js("gpipeReport.smoothed(0, 'loss')[499]"), 100)

    def test_logarithmic_axis(self):
        self.run_folder("a", [START, *({**step, "loss": loss} for step, loss in zip(STEPS, (100.0, 10.0, 0.0, 1.0)))])
        self.open("a")
        button = "document.querySelector('#chart-loss figcaption button')"
        heights = "[100, 10, 1].map((value) => gpipeReport.place('loss', 1, value).y)"
        self.assertEqual(self.js(button + ".ariaPressed"), "false")
        self.js(button + ".click()")
        self.drawn()
        top, middle, bottom = self.js(heights)
        self.assertAlmostEqual(middle - top, bottom - middle, places=3)
        self.page.move(*self.place("loss", 3))
        self.assertEqual(self.tip(), ["loss, step 3", "a, step 3 0"])

    def test_long_runs_keep_spikes_and_stay_small(self):
        """Steps 33,331 to 33,333 have 2, 1, 100: a mean of 34.3333."""
        self.run_folder("long", spiky(60000, 33333))
        path = self.open("long")
        self.assertLess(path.stat().st_size, 2_000_000)
        self.assertIn("a point stands for several steps: long 3.", self.js("document.getElementById('curves').innerText"))
        self.assertNotEqual(self.pixel("loss", 33333, 60), self.pixel("loss", 50001, 60))
        self.page.move(*self.place("loss", 33333))
        self.assertEqual(self.tip()[:1], ["loss, step 33,333"])
        self.assertTrue(self.tip()[1].startswith("long, steps 33,331–33,333 34.3333 (1 to 100); mean of "), self.tip())

    def test_hostile_names_are_text(self):
        self.run_folder("a", [{**START, "devices": [EVIL]},
                              {"event": "resume", "step": 0, "changes": {EVIL: EVIL}, "devices": [EVIL]}, *STEPS,
                              {**END, "account": {**END["account"], "source": EVIL, "host": {EVIL: 1}}}],
                        "a: %s\n" % EVIL)
        self.run_folder("b", config="a: &x 1\n" + EVIL)
        self.open("a", "b", "--names", EVIL + ",other", "--title", EVIL)
        self.assertEqual(self.js("document.title"), EVIL)
        self.assertEqual(self.js("document.querySelectorAll('main img[src=x]').length"), 0)
        self.page.move(*self.place("loss", 2))
        self.assertIn("onerror", " ".join(self.tip()))
        self.drawn()
        self.assertEqual(self.js("document.title"), EVIL)

    def test_runs_of_all_kinds_open(self):
        kinds = {"one step": STEPS[:1], "evaluations only": [START, {**EVALUATIONS[0], "step": 0}], "begun": [START],
                 "not finite": [START, {**STEPS[0], "loss": None}], "resumed": [*WHOLE, {"event": "resume", "step": 4}],
                 "large": [{**STEPS[0], "loss": -1e308}, {**STEPS[1], "loss": 1e308}],
                 "small": [{**STEPS[0], "loss": 5e-324}, {**STEPS[1], "loss": 0.0}],
                 "near": [{**STEPS[0], "loss": 1e16}, {**STEPS[1], "loss": 1e16 + 2}],
                 "no time": [{"event": "step", "step": 1}, {"event": "step", "step": 5, "loss": 1e-30}]}
        for name, events in kinds.items():
            self.run_folder(name, events)
        for names in (*([name] for name in kinds), list(kinds)):
            self.open(*names)
            self.js("document.querySelector('[data-axis=time]').click()")
            self.drawn()
            self.assertEqual(self.page.errors, [], names)
        self.assertIn("not finite", self.js("document.getElementById('table-events').innerText"))

    def test_report_and_memory(self):
        self.run_folder("a")
        self.open("a")
        cells = "[...document.querySelectorAll('#table-%s tbody tr')].map((row) => [...row.cells].map((one) => one.innerText))"
        self.assertEqual(self.js(cells % "account"), [["a", "200 ms", "500 ms", "300 ms", "62.5 ms", "27.5 ms", "210 ms",
                                                       "50.0 %", "62.5 %", "12.5 %", "0.0 %", "counted"]])
        self.assertEqual(self.js(cells % "memory")[-3:], [["planned, in all", "4.00 MiB"], ["resident, measured", "3.00 MiB"],
                                                          ["resident beside planned", "75.0 %"]])
        bars = self.js("[...document.querySelectorAll('#bars-workers-0 .bar')].map((bar) => bar.innerText.replace(/\\s+/g, ' '))")
        self.assertEqual(bars, ["worker 0 (cpu), predicted 200 ms", "worker 0 (cpu), measured 500 ms",
                                "worker 1 (cpu), predicted 200 ms", "worker 1 (cpu), measured 500 ms"])
        self.assertIn("a has no plan.json", self.js("document.getElementById('plan').innerText"))

    def test_the_plan_is_drawn_in_both_themes(self):
        folder = self.run_folder("planned")
        plan = {"format": "gpipe-plan", "version": 1, "kind": "plan", "name": "c.yaml", "times": "counted", "source": "counted",
                "schedule": "gpipe", "lockstep": False, "processors": 0, "identity": "0123456789abcdef",
                "stages": [{"worker": 0, "first_layer": 0, "layers": 1, "parameters": 1, "checkpoint": "never"}],
                "workers": [{"name": "cpu:0", "device": "cpu", "threads": 1, "stages": [0], "arena_bytes": 100, "memory": {}}],
                "edges": [],
                "programs": [{"pass": "training", "samples": 10, "micro_batches": 1, "step_ms": 3.0, "bubble": 0.0, "workers": [
                    {"busy_ms": 3.0, "copy_ms": 0.0, "instructions": [
                        {"name": "F s0 m0", "op": "F", "stage": 0, "micro": 0, "clock": 0, "queue": 0, "start_ms": 0.0,
                         "end_ms": 1.0, "bytes_alive": 10, "waits": []},
                        {"name": "B s0 m0", "op": "B", "stage": 0, "micro": 0, "clock": 1, "queue": 0, "start_ms": 1.0,
                         "end_ms": 3.0, "bytes_alive": 10, "waits": []}]}]}]}
        images = "[...document.querySelectorAll('.plan-picture')].map((one) => [one.naturalWidth > 100, one.offsetWidth > 100])"
        (folder / "plan.json").write_text(json.dumps(plan))
        self.open("planned")
        self.assertEqual(self.js(images), [[True, True], [True, False]])
        self.page.key("t")
        self.assertEqual(self.js(images), [[True, False], [True, True]])
        self.page.emulate(dark=True)
        self.open("planned")
        self.assertEqual(self.js(images), [[True, False], [True, True]])
        self.page.emulate(dark=False)
        for text in ("{", "{}", json.dumps({**plan, "workers": 3}), json.dumps({**plan, "version": 2})):
            (folder / "plan.json").write_text(text)
            self.open("planned")
            shown = self.js("document.getElementById('plan').innerText")
            self.assertIn("the plan of planned cannot be drawn: ", shown)
            self.assertIn("plan.json", shown)
        (folder / "plan.json").unlink()

    def test_both_themes(self):
        self.run_folder("a")
        self.open("a")
        colours = []
        for dark in (False, True):
            self.page.emulate(dark=dark)
            self.drawn()
            colours.append((self.js("getComputedStyle(document.body).backgroundColor"), self.pixel("lr", 3, 0.25)))
        self.page.emulate(dark=False)
        self.assertNotEqual(colours[0][0], colours[1][0])
        self.assertNotEqual(colours[0][1], colours[1][1])

    def test_the_static_picture(self):
        self.run_folder("a", spiky(1000, 500))
        evil = EVIL.replace("/", "|")
        self.run_folder(evil)
        subprocess.run([sys.executable, ROOT / "scripts/report.py", "a", evil, "--svg", "a.svg"], cwd=self.folder, check=True,
                       stdout=subprocess.DEVNULL)
        self.page.open(self.folder / "a.svg")
        self.assertEqual(self.js("document.documentElement.tagName"), "svg")
        titles = self.js("[...document.querySelectorAll('.title')].map((one) => one.textContent)")
        self.assertEqual(titles, ["loss", "accuracy", "learning rate", "norm of the gradients", "samples/s",
                                  "waiting for data before a step [ms]"])
        text = (self.folder / "a.svg").read_text()
        band = re.search(r'class="band s1" d="([^"]*)"', text)[1]
        for _ in range(2):  # the second replaces the first
            subprocess.run([sys.executable, ROOT / "scripts/report.py", "a", "--png", "a.png"], cwd=self.folder, check=True,
                           stdout=subprocess.DEVNULL)
        self.page.open(self.folder / "a.png")
        self.assertGreater(self.js("document.images[0].naturalWidth"), 900)
        heights = [[float(y) for y in re.findall(r"[\d.]+", part)[1:]] for part in band.split("M")[1:]]
        self.assertEqual(min(y for its in heights for y in its), 22)  # the spike reaches the top of the panel


if __name__ == "__main__":
    browsers.skip_without_browser()
    unittest.main()
