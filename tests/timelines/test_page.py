"""The page of timelines in a headless browser: what is drawn, and what mouse and keys do."""
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import page_samples as samples  # noqa: E402
from browser import SHIFT, Browser, BrowserError, skip_without_browser  # noqa: E402
from timelines import colours, page  # noqa: E402
from timelines.timeline import Timeline, Worker  # noqa: E402

HOSTILE = "</script x=1 </script><script>window.hacked=1</script><img src=x onerror=\"window.hacked=2\">'\"&<!--"
TOLERANCE = 3  # of a colour channel: a display may round


def setUpModule():
    global browser, folder
    folder = tempfile.TemporaryDirectory(prefix="gpipe-page-")
    browser = Browser(1200, 900)
    try:
        browser.__enter__()
    except BrowserError as error:
        folder.cleanup()
        raise SystemExit(f"the browser does not start: {error}")


def tearDownModule():
    browser.stop()
    folder.cleanup()


def colour(kind, dark=False):
    return colours.KINDS[colours.KIND_INDEX[kind]][4 if dark else 3]


class Page(unittest.TestCase):
    """Opens pages, and checks after each test that the browser met no error."""

    def setUp(self):
        browser.emulate(dark=False, width=1200, height=900, scale=1)
        self.expects_errors = False

    def tearDown(self):
        self.assertEqual(browser.errors, [])
        self.assertEqual([message for message in browser.messages if message[0] == "warning"], [])

    def open(self, timelines, comparison=None, waits=None):
        path = pathlib.Path(folder.name, self.id() + ".html")
        page.write_page(path, timelines, comparison, dependencies=waits or [None] * len(timelines))
        browser.open(path)
        self.settle()
        return path

    def open_small(self):
        """Two runs; B is 1.5 times as slow as A."""
        timelines = [samples.small("a.json"), samples.small("b.json", pace=1.5)]
        self.models = timelines
        return self.open(timelines, samples.comparison(timelines), [samples.small_waits(it) for it in timelines])

    def settle(self):
        browser.evaluate("gpipe.settled()")

    def state(self):
        self.settle()
        return browser.evaluate("gpipe.state()")

    def drawn(self):
        self.settle()
        return browser.evaluate("({...gpipe.drawn})")

    def middle(self, timeline, span):
        """The middle of a span, in pixels of the window."""
        box = browser.evaluate(f"gpipe.place({timeline}, {span})")
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def assert_colour(self, place, expected):
        found = browser.pixel(*place)
        away = max(abs(int(found[at : at + 2], 16) - int(expected[at : at + 2], 16)) for at in (1, 3, 5))
        self.assertLessEqual(away, TOLERANCE, f"{found} at {place}, not {expected}")


class Drawing(Page):
    def test_opens_from_disk_and_asks_for_nothing_else(self):
        path = self.open_small()
        self.assertEqual(browser.requests, [path.as_uri()])
        self.assertEqual(browser.evaluate("document.querySelector('.lead').textContent"), "B is 1.50× slower than A.")
        blocked = browser.evaluate("fetch('data:,x').then(() => 'loaded', () => 'blocked')")
        self.assertEqual(blocked, "blocked")
        browser.errors.clear()  # of the refused request

    def test_spans_have_their_colours_and_places(self):
        self.open_small()
        browser.evaluate("gpipe.show(0, 15)")
        self.settle()
        # F s0 m0 lasts from 0 to 2 of 15 ms, on a track of 1200 − 2·24 − 148 − 12 = 992 pixels.
        box = browser.evaluate("gpipe.place(0, 0)")
        self.assertAlmostEqual(box["x"], 24 + 148, delta=0.5)
        self.assertAlmostEqual(box["width"], 992 * 2 / 15, delta=0.5)
        for span, kind in ((0, "f"), (1, "c"), (3, "f"), (4, "b"), (5, "b")):
            x, y = self.middle(0, span)
            self.assert_colour((x + 12, y) if kind != "c" else (x, y), colour(kind))  # beside the label
        x, _ = self.middle(0, 5)
        _, y = self.middle(0, 4)
        self.assert_colour((x, y), "#f0f2f4")  # worker 1 is idle while worker 0 computes B s0 m0

    def test_timelines_are_aligned_at_the_start_of_their_steps(self):
        self.open_small()
        self.assertEqual(self.state()["steps"], [0, 0])  # of two steps the shorter is the lower median
        first, second = (browser.evaluate(f"gpipe.place({i}, 0)") for i in (0, 1))
        self.assertAlmostEqual(first["x"], second["x"], delta=0.01)
        self.assertAlmostEqual(second["width"] / first["width"], 1.5, delta=0.01)

    def test_of_equal_steps_the_first_is_chosen(self):
        """Three steps of 26 µs, whose floating-point lengths differ in the last digits: the first is the median of them."""
        timeline = samples.small(steps=3)
        for step, start in zip(timeline.steps, (0.0, 0.1, 0.3)):
            step.start, step.end = start, start + 0.026
        self.assertEqual(sorted(timeline.steps, key=lambda step: step.end - step.start)[1], timeline.steps[0])
        self.open([timeline])
        self.assertEqual(self.state()["steps"], [1])  # of equal steps in their order, the middle one

    def test_memory_is_an_area_up_to_the_planned_size(self):
        self.open_small()
        browser.evaluate("gpipe.show(0, 10)")
        self.settle()
        # Below worker 0's 24 + 7 pixels comes memory, 24 pixels high: of 4 MiB planned, 3 MiB are alive from 2 to 9 ms.
        x, _ = self.middle(0, 5)
        box = browser.evaluate("gpipe.place(0, 0)")
        top = box["y"] + 24 + 7 + 1 + 2
        for height, expected in ((0.5, "#c8d1da"), (0.7, "#c8d1da"), (0.85, "#f0f2f4")):
            self.assert_colour((x, top + 24 - 24 * height), expected)
        x, _ = self.middle(0, 0)
        self.assert_colour((x, top + 24 - 24 * 0.5), "#f0f2f4")  # 1 MiB until 2 ms
        browser.move(x, top + 12)
        self.assertIn("1.00 MiB", self.state()["tip"])
        self.assertIn("4.00 MiB", self.state()["tip"])

    def test_waiting_for_data_has_a_track(self):
        self.open_small()
        browser.evaluate("gpipe.show(0, 20)")
        self.settle()
        y = browser.evaluate("gpipe.place(0, 0)")["y"] - 12 - 4
        for time, expected in ((11, "#3f3f8f"), (9, "#f0f2f4"), (13, "#f0f2f4")):
            self.assert_colour((172 + 992 * time / 20, y), expected)

    def test_layers_stand_inside_their_instruction(self):
        self.open([samples.small(with_layers=True)])
        browser.evaluate("gpipe.show(0, 4)")
        x, y = self.middle(0, 0)
        self.settle()
        before = browser.evaluate("gpipe.drawn.labels")
        self.assertGreater(before, 0)
        self.assert_colour((x - 100, y + 13), "#ffffff")  # conv1, on the left three quarters
        browser.move(x - 20, y)
        self.assertIn("conv1: 1.50 ms", self.state()["tip"])
        browser.move(x + 0.9 * 992 / 4, y)
        self.assertIn("relu: 500 µs", self.state()["tip"])
        browser.click(x, y)
        self.assertIn("Longest layers\nconv1: 1.50 ms\nrelu: 500 µs", self.state()["details"])

    def test_a_hundred_thousand_spans(self):
        timeline = samples.many(100_000)
        self.open([timeline], waits=[samples.many_waits(timeline)])
        browser.evaluate("gpipe.showAll()")
        drawn = self.drawn()
        self.assertEqual(drawn["spans"], 100_000)
        # Per worker one track of instructions and one of copies, of 992 columns: at most a rectangle for each kind in a column.
        self.assertLessEqual(drawn["rects"], 8 * 992 * 3)
        self.assertGreater(drawn["rects"], 8)
        self.assertLess(drawn["firstMs"], 20_000)  # only a guard against what hangs; bench/page.py measures
        print(f"100,000 spans: first drawing {drawn['firstMs']:.0f} ms after the navigation, redraw {drawn['ms']:.0f} ms",
              file=sys.stderr)
        x, y = self.middle(0, 4)
        for dy in (0, 24 / 2 - 2):
            self.assertIn(browser.pixel(600, y + dy), (colour("f"), colour("b")))
        browser.evaluate("gpipe.show(5000, 5050)")
        drawn = self.drawn()
        # The view of 50 ms begins in step 5, whose start is 5000 ms: 50 spans for each worker, one more at the edge.
        self.assertLessEqual(drawn["examined"], 8 * 52)
        self.assertGreaterEqual(drawn["spans"], 8 * 50)
        browser.evaluate("gpipe.pin(0, 80_003)")
        self.assertIn("Waited for", self.state()["details"])
        browser.key("w")
        self.assertEqual(self.state()["pinned"]["span"], 80_002)  # it ends last; the other wait is span 79,995

    def test_narrow_spans_are_shares_of_their_column(self):
        """Spans that fill a quarter of the time fill a quarter of the height."""
        timeline = samples.many(8000, workers=1)
        timeline.spans = [span for i, span in enumerate(timeline.spans) if i % 4 == 0 and span.kind == "compute"]
        for span in timeline.spans:
            span.op = "F"
        self.open([timeline])
        browser.evaluate("gpipe.showAll()")
        self.settle()
        box = browser.evaluate("gpipe.place(0, 0)")
        self.assert_colour((600, box["y"] + 24 - 2), colour("f"))
        self.assert_colour((600, box["y"] + 24 - 12), "#f0f2f4")

    def test_what_takes_no_time_is_not_drawn(self):
        timeline = samples.small(steps=1)
        timeline.spans[1].end = timeline.spans[1].start  # the send
        timeline.spans[2].start = timeline.spans[2].end  # the receive
        self.open([timeline])
        self.assertEqual(self.drawn()["spans"], 5)
        self.assertNotIn("copy", browser.evaluate("document.querySelector('.legend').innerText"))

    def test_64_workers_are_compact_and_all_drawn(self):
        self.open([samples.many(64 * 50, workers=64, steps=1)])
        browser.emulate(height=2400)
        browser.evaluate("gpipe.showAll()")
        self.assertEqual(self.drawn()["spans"], 64 * 50)
        self.assertEqual(browser.evaluate("gpipe.place(0, 63).height"), 12)
        self.assertLess(browser.evaluate("document.querySelector('.tracks').clientHeight"), 64 * 30)

    def test_one_worker_without_steps(self):
        timeline = samples.small(steps=1)
        timeline.workers, timeline.steps = timeline.workers[:1], []
        timeline.spans = [span for span in timeline.spans if span.worker == 0]
        for span in timeline.spans:
            span.step = -1
        self.open([timeline])
        self.assertEqual(self.drawn()["spans"], 4)
        self.assertEqual(self.state()["steps"], [-1])
        browser.key("n")
        browser.key("0")
        self.assertEqual(self.drawn()["spans"], 4)

    def test_nothing_to_draw(self):
        for timelines in ([], [Timeline("empty", "trace", [], [], [])], [Timeline("idle", "plan", [Worker("cpu:0")], [], [])]):
            self.open(timelines, {"text": "", "runs": []})
            for key in ("+", "ArrowLeft", "n", "0", "a", ".", "w", "Escape"):
                browser.key(key)
            self.assertEqual(self.drawn()["spans"], 0)
            self.assertIsNotNone(self.state()["from"])
            if timelines:
                self.assertIn("This timeline has no spans.", browser.evaluate("document.body.innerText"))

    def test_hostile_names_are_only_text(self):
        timeline = samples.small(HOSTILE, with_layers=True)
        timeline.workers[0].name = HOSTILE
        timeline.remarks.append(HOSTILE)
        for thing in timeline.spans:
            thing.name = thing.detail = HOSTILE
        for layer in timeline.layers:
            layer.layer = HOSTILE
        comparison = samples.comparison([timeline], HOSTILE)
        for row in comparison["runs"][0]["layers"]:
            row["layer"] = HOSTILE
        self.open([timeline], comparison, [samples.small_waits(timeline)])
        browser.click(*self.middle(0, 5))
        state = self.state()
        self.assertIn(HOSTILE, state["tip"])
        self.assertIn(HOSTILE, state["details"])
        self.assertIsNone(browser.evaluate("window.hacked ?? null"))
        self.assertEqual(browser.evaluate("document.querySelectorAll('img').length"), 0)
        self.assertEqual(browser.evaluate("document.title"), HOSTILE)

    def test_sharp_on_displays_of_two_pixels_per_pixel(self):
        browser.emulate(scale=2)
        self.open_small()
        tracks = "document.querySelector('.tracks')"
        self.assertEqual(browser.evaluate(f"{tracks}.width / {tracks}.clientWidth"), 2)
        x, y = self.middle(0, 5)
        self.assert_colour((x + 30, y), colour("b"))

    def test_widths_from_900_to_2500(self):
        for width in (900, 1200, 2500):
            browser.emulate(width=width)
            self.open_small()
            self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), width)
            box = browser.evaluate("gpipe.place(0, 6)")
            self.assertLess(box["x"] + box["width"], width)
            self.assertGreater(box["x"], width / 2)


class Mouse(Page):
    def test_the_wheel_zooms_about_the_mouse(self):
        self.open_small()
        before = self.state()
        x, y = self.middle(0, 5)
        part = (x - 172) / 992
        browser.wheel(x, y, -200)
        after = self.state()
        self.assertLess(after["to"] - after["from"], 0.8 * (before["to"] - before["from"]))
        for state in (before, after):
            state["under"] = state["from"] + part * (state["to"] - state["from"])
        self.assertAlmostEqual(before["under"], after["under"], delta=0.02)
        self.assertEqual(browser.evaluate("scrollY"), 0)
        browser.wheel(x, y, 200)
        again = self.state()
        self.assertAlmostEqual(again["to"] - again["from"], before["to"] - before["from"], delta=1e-6)

    def test_the_wheel_over_the_names_scrolls(self):
        self.open_small()
        before = self.state()
        _, y = self.middle(0, 5)
        browser.wheel(60, y, 200)
        browser.evaluate("new Promise((done) => {"
                         " const look = () => scrollY > 0 ? done() : requestAnimationFrame(look); look(); })")
        self.assertEqual((self.state()["from"], self.state()["to"]), (before["from"], before["to"]))

    def test_a_drag_moves_the_time(self):
        self.open_small()
        browser.evaluate("gpipe.show(2, 7)")
        y = self.middle(0, 5)[1]
        start = 172 + 992 * 0.9  # on B s0 m0, which a drag must not pin
        browser.drag((start, y), (start - 992 / 5, y))  # a fifth of the track: 1 ms
        state = self.state()
        self.assertAlmostEqual(state["from"], 3, delta=0.01)
        self.assertAlmostEqual(state["to"], 8, delta=0.01)
        self.assertIsNone(state["pinned"])

    def test_a_drag_with_shift_chooses_a_part(self):
        self.open_small()
        browser.evaluate("gpipe.show(0, 10)")
        y = self.middle(0, 5)[1]
        browser.drag((172 + 992 * 0.4, y), (172 + 992 * 0.2, y), SHIFT)
        state = self.state()
        self.assertAlmostEqual(state["from"], 2, delta=0.02)
        self.assertAlmostEqual(state["to"], 4, delta=0.02)

    def test_the_view_stays_inside_the_timelines(self):
        self.open_small()
        browser.evaluate("gpipe.show(-1e6, 1e6)")
        state = self.state()
        self.assertGreater(state["from"], -2)  # A lasts from 0 to 27 ms, B to 39.5 ms: 15 + 2 + 22.5
        self.assertLess(state["to"], 41)
        browser.evaluate("gpipe.show(5, 5)")
        state = self.state()
        self.assertGreater(state["to"], state["from"])

    def test_hover_shows_names_and_numbers(self):
        self.open_small()
        browser.move(*self.middle(0, 0))
        state = self.state()
        self.assertEqual(state["hovered"], {"timeline": 0, "span": 0})
        lines = state["tip"].split("\n")
        self.assertEqual(lines[0], "F s0 m0")
        facts = dict(zip(lines[1::2], lines[2::2]))
        self.assertEqual(facts, {"kind": "forward", "worker": "cpu:0", "stage": "0", "micro-batch": "0", "step": "1",
                                 "start in the step": "0", "length": "2.00 ms", "predicted length": "1.00 ms (2.00×)",
                                 "predicted start": "250 µs", "pc": "0"})
        browser.move(*self.middle(1, 8))  # of the second run: the second copy, in step 2
        browser.move(*self.middle(0, 1))
        self.assertIn("2.00 KiB (2,048)", self.state()["tip"])
        browser.move(600, 5)
        self.assertIsNone(self.state()["tip"])
        self.assertIsNone(self.state()["hovered"])

    def test_a_click_shows_what_an_instruction_waited_for(self):
        self.open_small()
        self.assertEqual(browser.evaluate(LIT_PIXELS), 0)
        browser.click(*self.middle(0, 5))
        state = self.state()
        self.assertEqual(state["pinned"], {"timeline": 0, "span": 5})
        # B s0 m0 starts at 6 ms. B s1 m0 ended then; F s0 m0 ended at 2 ms.
        self.assertIn("Waited for\nB s1 m0 on cpu:1, ended 0 before the start\n"
                      "F s0 m0 on cpu:0, ended 4.00 ms before the start", state["details"])
        self.assertEqual(browser.evaluate("gpipe.drawn.arrows"), 2)
        self.assertGreater(browser.evaluate(LIT_PIXELS), 300)
        browser.key("Escape")
        self.assertIsNone(self.state()["details"])
        browser.move(600, 5)
        self.settle()
        self.assertEqual(browser.evaluate(LIT_PIXELS), 0)

    def test_arrows_go_on_through_copies(self):
        """F s1 m0 waited for a receive, which waited for a send, which waited for F s0 m0."""
        self.open_small()
        browser.click(*self.middle(0, 3))
        self.settle()
        self.assertEqual(browser.evaluate("gpipe.drawn.arrows"), 3)
        browser.key("a")
        for _ in range(8):
            browser.key("-")
        browser.emulate(width=900)  # now the copies are less than 12 pixels wide: one arrow passes by both
        self.settle()
        self.assertLess(browser.evaluate("gpipe.place(0, 1).width"), 12)
        self.assertEqual(browser.evaluate("gpipe.drawn.arrows"), 1)

    def test_a_send_that_ends_after_its_receive_began(self):
        timeline = samples.small()
        timeline.spans[1].end = 2.75  # the send; the receive begins at 2.5 ms
        self.open([timeline], waits=[samples.small_waits(timeline)])
        browser.click(*self.middle(0, 2))
        self.assertIn("send s0 m0 e0 on cpu:0, began 500 µs before the start, and ended 250 µs after it", self.state()["details"])
        send, receive = (browser.evaluate(f"gpipe.place(0, {span})") for span in (1, 2))
        # The arrow leaves from the send's start: between both tracks nothing is drawn right of the receive's start.
        middle = (send["y"] + receive["y"]) / 2
        ink = browser.evaluate(f"""(() => {{ const c = document.querySelector('.overlay'), o = c.getBoundingClientRect();
          const copy = new OffscreenCanvas(c.width, c.height), context = copy.getContext('2d', {{ willReadFrequently: true }});
          context.drawImage(c, 0, 0);
          const row = context.getImageData(0, {middle} - o.top, c.width, 1).data, lit = [];
          for (let x = 0; x < c.width; x++) if (row[4 * x + 3]) lit.push(x + o.left);
          return [lit[0], lit[lit.length - 1]]; }})()""")
        self.assertGreater(ink[0], send["x"] - 2)
        self.assertLess(ink[1], receive["x"] + 8)

    def test_a_link_of_the_details_pins_what_it_names(self):
        self.open_small()
        browser.click(*self.middle(0, 5))
        self.settle()
        browser.evaluate("document.querySelector('.details li button').click()")
        self.assertEqual(self.state()["pinned"], {"timeline": 0, "span": 4})

    def test_a_click_beside_all_spans_pins_nothing(self):
        self.open_small()
        browser.click(*self.middle(0, 5))
        x, y = self.middle(0, 5)[0], self.middle(0, 4)[1]
        browser.click(x, y)
        self.assertIsNone(self.state()["pinned"])

    def test_a_double_click_zooms_to_an_instruction(self):
        self.open_small()
        browser.click(*self.middle(0, 5), count=2)
        state = self.state()  # 6 to 9 ms, and a tenth at both sides
        self.assertAlmostEqual(state["from"], 5.7, delta=0.01)
        self.assertAlmostEqual(state["to"], 9.3, delta=0.01)

    def test_a_click_on_the_strip_chooses_a_step(self):
        self.open_small()
        box = browser.evaluate("(() => { const b = document.querySelector('.strip').getBoundingClientRect();"
                               " return [b.x, b.y, b.width, b.height]; })()")
        # Step 2 of A lasts from 12 to 27 of 27 ms.
        browser.click(box[0] + 148 + (box[2] - 160) * 20 / 27, box[1] + box[3] / 2)
        self.assertEqual(self.state()["steps"], [1, 0])
        self.assertEqual(browser.evaluate("document.querySelector('select').value"), "1")

    def test_the_list_of_steps_chooses_for_its_timeline(self):
        self.open_small()
        texts = browser.evaluate("[...document.querySelectorAll('select')[1].options].map((o) => o.text)")
        self.assertEqual(texts, ["step 1: 15.0 ms", "step 2: 22.5 ms"])
        browser.evaluate("(() => { const s = document.querySelectorAll('select')[1]; s.value = '1';"
                         " s.dispatchEvent(new Event('change')); })()")
        self.assertEqual(self.state()["steps"], [0, 1])


# Pixels of the first overlay that are not transparent.
LIT_PIXELS = """(() => { const c = document.querySelector('.overlay'), copy = new OffscreenCanvas(c.width, c.height);
  const context = copy.getContext('2d', { willReadFrequently: true });
  context.drawImage(c, 0, 0);
  const d = context.getImageData(0, 0, c.width, c.height).data;
  let lit = 0; for (let i = 3; i < d.length; i += 4) lit += d[i] > 0; return lit; })()"""


class Keys(Page):
    def test_keys_zoom_pan_and_return(self):
        self.open_small()
        whole = self.state()
        length = whole["to"] - whole["from"]
        browser.key("+")
        zoomed = self.state()
        self.assertAlmostEqual(zoomed["to"] - zoomed["from"], length / 1.5, delta=1e-9)
        browser.key("ArrowRight")
        moved = self.state()
        self.assertAlmostEqual(moved["from"] - zoomed["from"], 0.15 * length / 1.5, delta=1e-9)
        browser.key("ArrowLeft")
        self.assertAlmostEqual(self.state()["from"], zoomed["from"], delta=1e-9)
        browser.key("-")
        self.assertAlmostEqual(self.state()["from"], whole["from"], delta=1e-9)
        for key in ("0", "Home"):
            browser.key("+")
            browser.key(key)
            self.assertEqual(self.state()["from"], whole["from"])
        browser.key("a")
        self.assertGreaterEqual(self.state()["to"], 39.5)

    def test_the_time_at_the_mouse_follows_the_view(self):
        self.open_small()
        browser.move(*self.middle(0, 0))
        self.assertIn("F s0 m0", self.state()["tip"])
        browser.key("+")  # the mouse is over another time now
        self.assertIsNone(self.state()["tip"])
        self.assertIsNone(self.state()["hovered"])
        self.assertTrue(browser.evaluate("document.querySelector('.cursor').hidden"))
        browser.key("0")
        x, y = self.middle(0, 0)
        browser.key("+")
        browser.move(x, y)
        before = browser.evaluate("document.querySelector('.cursor').dataset.time")
        browser.wheel(x, y, 0, right=400)
        self.settle()
        self.assertNotEqual(browser.evaluate("document.querySelector('.cursor').dataset.time"), before)

    def test_n_and_p_change_the_step_of_all_timelines(self):
        self.open_small()
        x = browser.evaluate("gpipe.place(0, 7).x")
        browser.key("n")
        self.assertEqual(self.state()["steps"], [1, 1])
        self.assertLess(browser.evaluate("gpipe.place(0, 7).x"), x)  # span 7 is the first of step 2
        browser.key("n")
        self.assertEqual(self.state()["steps"], [1, 1])
        browser.key("p")
        self.assertEqual(self.state()["steps"], [0, 0])

    def test_keys_go_from_instruction_to_instruction(self):
        self.open_small()
        browser.key(".")
        self.assertEqual(self.state()["pinned"], {"timeline": 0, "span": 0})
        browser.key(".")
        self.assertEqual(self.state()["pinned"], {"timeline": 0, "span": 5})  # the next on the same track
        browser.key("w")
        self.assertEqual(self.state()["pinned"], {"timeline": 0, "span": 4})
        browser.key(",")
        self.assertEqual(self.state()["pinned"], {"timeline": 0, "span": 3})

    def test_help_opens_and_closes(self):
        self.open_small()
        self.assertFalse(browser.evaluate("document.getElementById('help').open"))
        browser.key("?")
        self.assertTrue(browser.evaluate("document.getElementById('help').open"))
        before = self.state()["from"]
        browser.key("+")  # the page below does not move
        self.assertEqual(self.state()["from"], before)
        browser.key("Escape")
        self.assertFalse(browser.evaluate("document.getElementById('help').open"))

    def test_keys_in_a_list_belong_to_the_list(self):
        self.open_small()
        browser.evaluate("document.querySelector('select').focus()")
        before = self.state()
        browser.key("ArrowRight")
        self.assertEqual(self.state()["from"], before["from"])

    def test_the_tab_key_reaches_buttons_lists_timelines_and_headers(self):
        self.open_small()
        reached = []
        for _ in range(60):
            browser.key("Tab")
            reached.append(browser.evaluate("((e) => e.id || e.className || e.tagName)(document.activeElement)"))
        for name in ("theme", "SELECT", "tracks", "scroll", "BUTTON"):
            self.assertIn(name, reached)
        self.assertGreater(reached.count("BUTTON"), 15)  # of the toolbar and of the tables' headers
        browser.evaluate("document.querySelector('.tracks').focus()")
        browser.key("Tab")  # focus by a key is visible
        self.assertEqual(browser.evaluate("getComputedStyle(document.activeElement).outlineStyle"), "solid")
        self.assertEqual(browser.evaluate("getComputedStyle(document.activeElement).outlineWidth"), "2px")


class Themes(Page):
    def test_the_reader_decides_and_the_button_changes_it(self):
        self.open_small()
        place = self.middle(0, 5)
        place = place[0] + 30, place[1]
        self.assert_colour((5, 5), "#ffffff")
        self.assert_colour(place, colour("b"))
        browser.emulate(dark=True)
        self.settle()
        self.assert_colour((5, 5), "#0d1117")
        self.assert_colour(place, colour("b", dark=True))
        browser.evaluate("document.getElementById('theme').click()")
        self.settle()
        self.assert_colour((5, 5), "#ffffff")
        self.assert_colour(place, colour("b"))
        self.assertEqual(browser.evaluate("document.getElementById('theme').textContent"), "Dark")
        browser.key("t")
        self.settle()
        self.assert_colour((5, 5), "#0d1117")

    def test_text_has_a_contrast_of_at_least_4_5(self):
        for dark in (False, True):
            browser.emulate(dark=dark)
            self.open_small()
            browser.click(*self.middle(0, 5))
            browser.key("?")
            self.settle()
            pairs = browser.evaluate(TEXT_COLOURS)
            self.assertGreater(len(pairs), 3)
            for pair in pairs:
                text, ground = pair.split(" on ")
                self.assertGreaterEqual(colours.contrast(text, ground), 4.5, f"{pair}, dark: {dark}")

    def test_colours_of_marks_stand_out_from_the_track(self):
        for pick, lane in ((0, "#f0f2f4"), (1, "#1b2129")):
            for kind in colours.KINDS:
                if kind[0] != "r":  # recompute has the colour of the plan's picture, a pattern, and a letter
                    self.assertGreaterEqual(colours.contrast(kind[3 + pick], lane), 3, kind)

    def test_the_colours_are_those_of_the_plans_picture(self):
        source = pathlib.Path(__file__).resolve().parents[2].joinpath("src/report/plan_svg.c").read_text(encoding="utf-8")
        light, _, dark = source.partition("prefers-color-scheme:dark")
        for name, _, _, day, night in colours.KINDS[:7]:
            self.assertIn(f".{name}{{fill:{day}}}", light)
            self.assertIn(f".{name}{{fill:{night}}}", dark)


# "text on ground" of all texts of the document.
TEXT_COLOURS = """(() => {
  const hex = (text) => '#' + text.match(/[0-9.]+/g).slice(0, 3).map((v) => Math.round(v).toString(16).padStart(2, '0')).join('');
  const pairs = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    if (!walker.currentNode.data.trim() || /SCRIPT|NOSCRIPT|OPTION/.test(walker.currentNode.parentElement.tagName)) continue;
    let element = walker.currentNode.parentElement, ground = null;
    const text = getComputedStyle(element).color;
    for (; element && !ground; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) ground = colour;
    }
    pairs.add(hex(text) + ' on ' + hex(ground ?? 'rgb(255, 255, 255)'));
  }
  return [...pairs];
})()"""


class Tables(Page):
    def column(self, table, index):
        rows = f"[...document.querySelectorAll('#table-{table} tbody tr')]"
        return browser.evaluate(f"{rows}.map((row) => row.cells[{index}].textContent)")

    def click_header(self, table, index):
        browser.evaluate(f"document.querySelectorAll('#table-{table} th button')[{index}].click()")

    def test_instructions_stand_side_by_side_and_what_costs_most_comes_first(self):
        self.open_small()
        self.assertEqual(self.column("instructions", 0)[0], "B s0")
        heads = browser.evaluate("[...document.querySelectorAll('#table-instructions th')].map((h) => h.textContent)")
        of_each = ("count", "median", "in a step", "share", "predicted", "measured / predicted")
        self.assertEqual(heads, ["instruction", *(f"{run}: {name}" for run in "AB" for name in of_each), "B / A"])
        row = browser.evaluate("[...document.querySelectorAll('#table-instructions tbody tr')]"
                               ".map((r) => [...r.cells].map((c) => c.textContent))"
                               ".find((r) => r[0] === 'F s0')")
        self.assertEqual(row, ["F s0", "1", "2.000", "2.00", "22.2 %", "1.000", "▲ 2.00×",
                               "1", "3.000", "3.00", "22.2 %", "1.000", "▲ 3.00×", "▲ 1.50×"])

    def test_a_click_on_a_header_sorts_down_then_up(self):
        self.open_small()
        self.click_header("instructions", 3)
        self.assertEqual([float(text) for text in self.column("instructions", 3)], [3, 2, 2, 1, 1])
        self.click_header("instructions", 3)
        self.assertEqual([float(text) for text in self.column("instructions", 3)], [1, 1, 2, 2, 3])
        head = "document.querySelectorAll('#table-instructions th')[3]"
        self.assertEqual(browser.evaluate(f"{head}.getAttribute('aria-sort')"), "ascending")
        self.click_header("instructions", 0)
        self.assertEqual(self.column("instructions", 0), ["B s0", "B s1", "F s0", "F s1", "step s0"])
        self.click_header("instructions", 5)  # rows without a value stay below
        self.assertEqual(self.column("instructions", 5), ["1.000", "–", "–", "–", "–"])
        self.click_header("instructions", 5)
        self.assertEqual(self.column("instructions", 5), ["1.000", "–", "–", "–", "–"])

    def test_bars_of_idle_time_have_the_lengths_of_the_numbers(self):
        self.open_small()
        bars = browser.evaluate("[...document.querySelectorAll('#bars-idle .bar')].map((b) => ["
                                "b.querySelector('.bar-label').textContent, "
                                "b.querySelector('.bar-parts').getBoundingClientRect().width, "
                                "...[...b.querySelectorAll('.part')]"
                                ".map((p) => [p.className, p.getBoundingClientRect().width])])")
        self.assertEqual([bar[0] for bar in bars], ["A  cpu:0", "B  cpu:0", "A  cpu:1", "B  cpu:1"])
        # The longest is B's cpu:1 with 9.75 ms; A's cpu:1 has 3 ms earlier stage, 0.5 ms copy, 3 ms imbalance.
        _, whole, *parts = bars[2]
        self.assertEqual([name for name, _ in parts], ["part idle-earlier-stage", "part idle-copy", "part idle-imbalance"])
        for (_, width), expected in zip(parts, (3, 0.5, 3)):
            self.assertAlmostEqual(width, whole * expected / 9.75, delta=1)
        self.assertAlmostEqual(sum(width for _, width in bars[3][2:]), whole, delta=1)

    def test_all_tables_are_there(self):
        self.open_small()
        self.assertEqual(browser.evaluate("[...document.querySelectorAll('table')].map((t) => t.id)"),
                         ["table-steps", "table-idle", "table-workers", "table-instructions", "table-layers"])
        self.assertEqual(self.column("steps", 3), ["1", "▲ 1.50×"])
        self.assertEqual(self.column("workers", 0), ["A  cpu:0", "B  cpu:0", "A  cpu:1", "B  cpu:1"])
        self.assertEqual(self.column("layers", 0), ["conv1", "relu"])


if __name__ == "__main__":
    skip_without_browser()
    unittest.main()
