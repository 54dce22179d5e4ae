"""Static pictures: where marks stand, what fits, and PNG by whatever converter there is."""
import os
import pathlib
import re
import stat
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import page_samples as samples  # noqa: E402
from browser import find_browser  # noqa: E402
from timelines import colours, picture, picture_png  # noqa: E402
from timelines.timeline import BadInput, Timeline, Worker  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
TRACK = 1200 - picture.LEFT - picture.RIGHT  # pixels of the time axis


def elements(text, tag):
    return list(ElementTree.fromstring(text).iter(SVG + tag))


def marks(text):
    """{title up to the colon: (class, x, y, width)} of the marks; the last one of equal names."""
    found = {}
    for rect in elements(text, "rect"):
        title = rect.find(SVG + "title")
        if title is not None:
            found[title.text.partition(":")[0]] = (rect.get("class"), *(float(rect.get(key)) for key in ("x", "y", "width")))
    return found


def texts(text):
    return [element.text for element in elements(text, "text")]


class Marks(unittest.TestCase):
    def test_marks_stand_at_their_times(self):
        """A step of 10 ms fills the axis; of 7 instructions each has a mark."""
        found = marks(picture.svg([samples.small()]))
        self.assertEqual(len(found), 7)
        for name, kind, start, end in (("F s0 m0", "f", 0, 2), ("send s0 m0 e0", "c", 2, 2.5), ("B s0 m0", "b", 6, 9),
                                       ("step s0", "u", 9, 10)):
            its_kind, x, _, width = found[name]
            self.assertEqual(its_kind, kind)
            self.assertAlmostEqual(x, picture.LEFT + TRACK * start / 10, delta=0.01)
            self.assertAlmostEqual(width, TRACK * (end - start) / 10, delta=0.6)  # half a pixel is left free
        self.assertGreater(found["recv s1 m0 e0"][2], found["step s0"][2])  # worker 1 stands below worker 0

    def test_what_takes_no_time_is_not_drawn(self):
        timeline = samples.small()
        timeline.spans[1].end = timeline.spans[1].start  # the send
        self.assertNotIn("send s0 m0 e0", marks(picture.svg([timeline])))

    def test_two_timelines_share_the_axis(self):
        """B's step lasts 15 ms, so A's ends at two thirds of the axis."""
        text = picture.svg([samples.small("a.json"), samples.small("b.json", pace=1.5)])
        self.assertIn("A  a.json (trace), step 1: 10.0 ms", texts(text))
        self.assertIn("B  b.json (trace), step 1: 15.0 ms", texts(text))
        first = [rect for rect in elements(text, "rect") if (rect.findtext(SVG + "title") or "").startswith("step s0")]
        self.assertAlmostEqual(float(first[0].get("x")), picture.LEFT + TRACK * 9 / 15, delta=0.01)
        self.assertAlmostEqual(float(first[1].get("x")), picture.LEFT + TRACK * 13.5 / 15, delta=0.01)
        self.assertLess(float(first[0].get("y")), float(first[1].get("y")))

    def test_a_step_can_be_chosen_for_each(self):
        text = picture.svg([samples.small("a"), samples.small("b")], steps=[2, 1])
        self.assertIn("A  a (trace), step 2: 15.0 ms", texts(text))
        self.assertIn("B  b (trace), step 1: 10.0 ms", texts(text))
        with self.assertRaisesRegex(BadInput, "^a.json: has no step 7; it has steps 1 to 2: choose one of these$"):
            picture.svg([samples.small()], steps=7)

    def test_memory_rises_where_it_is_taken(self):
        text = picture.svg([samples.small()])
        path = next(it.get("d") for it in elements(text, "path") if it.get("class") == "mem")
        levels = [(float(x), float(y)) for x, y in re.findall(r"H([\d.]+)V([\d.]+)", path)]
        bottom = float(re.match(r"M\d+ ([\d.]+)", path)[1])
        # Strip of 20 pixels, of which 19 are the planned 4 MiB: 1 MiB from 0 ms, 3 MiB from 2 ms, 1 MiB from 9 ms.
        expected = {0: 1, 2: 3, 9: 1}
        for time, size in expected.items():
            x, y = min(levels, key=lambda level: abs(level[0] - picture.LEFT - TRACK * time / 10))
            self.assertAlmostEqual(x, picture.LEFT + TRACK * time / 10, delta=1)
            self.assertAlmostEqual(bottom - y, 19 * size / 4, delta=0.1)
        planned = next(it.get("d") for it in elements(text, "path") if it.get("class") == "arena")
        self.assertAlmostEqual(bottom - float(planned.split()[1].partition("H")[0]), 19, delta=0.1)

    def test_memory_that_is_taken_for_a_moment_is_seen(self):
        timeline = samples.small()
        timeline.memory = {0: [(0.0, samples.MIB), (5.0, 4 * samples.MIB), (5.0001, 2 * samples.MIB), (5.0002, 2 * samples.MIB)]}
        path = next(it.get("d") for it in elements(picture.svg([timeline]), "path") if it.get("class") == "mem")
        bottom = float(re.match(r"M\d+ ([\d.]+)", path)[1])
        levels = [round(bottom - float(y), 2) for y in re.findall(r"V([\d.]+)", path)]
        self.assertEqual(levels, [4.8, 19, 9.5, 0])  # 1, 4 and 2 of 4 MiB on 19 pixels, rounded to tenths

    def test_many_spans_become_shares(self):
        """8 workers with 90 % of their time computed: half forward, half backward."""
        text = picture.svg([samples.many(100_000)], steps=1)
        self.assertLess(len(text), 400_000)
        self.assertEqual(marks(text), {})
        self.assertIn("columns: shares of the time", texts(text))
        kinds = [it.get("class") for it in elements(text, "path")]
        self.assertEqual([kinds.count(kind) for kind in "fbc"], [8, 8, 8])
        path = next(it.get("d") for it in elements(text, "path") if it.get("class") == "f")
        area = sum((float(right) - float(left)) * float(height) for left, height, right in
                   ((a, h, b) for a, b, h in re.findall(r"M([\d.]+) [\d.]+H([\d.]+)v([\d.]+)", path)))
        # F are every second of the instructions that are no copies: 5 of 10, of a track of 24 pixels.
        self.assertAlmostEqual(area / (TRACK * 24), 0.5, delta=0.02)

    def test_of_many_workers_every_nth_is_drawn(self):
        text = picture.svg([samples.many(200 * 5, workers=200, steps=1)])
        self.assertIn("every 4th worker", next(words for words in texts(text) if "200" in words or "every" in words))
        self.assertEqual([words for words in texts(text) if words.startswith("cpu:")][:3], ["cpu:0", "cpu:4", "cpu:8"])


class Words(unittest.TestCase):
    def sizes(self, text):
        """(x, right end, words) of each text, with 7 pixels for each letter."""
        width = int(re.search(r'width="(\d+)"', text)[1])
        for element in elements(text, "text"):
            x, words = float(element.get("x")), element.text or ""
            length = 7 * len(words)
            anchor = element.get("text-anchor") or ("middle" if (element.get("class") or "").startswith("n ") else "start")
            left = x - length if anchor == "end" else x - length / 2 if anchor == "middle" else x
            yield left, left + length, width, words

    def test_no_text_is_cut_off(self):
        long = "a very long name of a file that goes on and on, far beyond what fits on the line of a picture " * 4
        for width in (700, 1200, 2000):
            timelines = [samples.small(long), samples.many(100), samples.small(pace=1e-6), samples.small(pace=1e5)]
            text = picture.svg(timelines, samples.comparison(timelines[:1], long), width=width)
            for left, right, whole, words in self.sizes(text):
                self.assertGreaterEqual(left, 0, words)
                self.assertLessEqual(right, whole + 8, words)

    def test_the_axis_has_marks_with_units(self):
        """Marks are 1, 2 or 5 times a power of ten apart: at 1,032 pixels for 10 ms every 2 ms."""
        words = texts(picture.svg([samples.small()]))
        at = words.index("time in the step")
        self.assertEqual(words[at + 1 : at + 7], ["0", "2.00 ms", "4.00 ms", "6.00 ms", "8.00 ms", "10.0 ms"])

    def test_the_sentence_stands_on_top(self):
        timelines = [samples.small()]
        self.assertEqual(texts(picture.svg(timelines, samples.comparison(timelines)))[0], "B is 1.50× slower than A.")
        self.assertEqual(texts(picture.svg(timelines, samples.comparison(timelines), title="Mine"))[0], "Mine")

    def test_the_legend_has_what_is_there(self):
        words = texts(picture.svg([samples.small()]))
        for entry in ("forward (F)", "backward (B)", "update (U)", "copy"):
            self.assertIn(entry, words)
        self.assertNotIn("recompute (R)", words)

    def test_hostile_names_are_only_text(self):
        hostile = "</title><script>1</script>\x00\x1b]]>\ud800&<\"'"
        timeline = samples.small(hostile)
        timeline.workers[0].name = hostile
        for span in timeline.spans:
            span.name = hostile
        root = ElementTree.fromstring(picture.svg([timeline], samples.comparison([timeline], hostile)).encode())
        self.assertEqual([it.tag for it in root.iter() if "script" in it.tag], [])
        self.assertIn("</title><script>1</script>", next(it.text for it in root.iter(SVG + "title")))

    def test_nothing_to_draw(self):
        for timelines in ([], [Timeline("empty", "trace", [], [], [])], [Timeline("idle", "plan", [Worker("cpu:0")], [], [])]):
            text = picture.svg(timelines)
            ElementTree.fromstring(text)
            self.assertEqual(any("no spans" in words for words in texts(text)), bool(timelines))

    def test_text_on_marks_can_be_read(self):
        surfaces = {name: colours_of for name, *colours_of in colours.SURFACES}
        for kind in colours.KINDS:
            for part in (1, 0.8, 0.6):
                for pick, ink in enumerate(picture.ink(kind[0], part)):
                    ground = picture.mix(kind[3 + pick], surfaces["lane"][pick], part)
                    self.assertGreaterEqual(colours.contrast(ground, {"w": "#ffffff", "b": "#000000"}[ink]), 4.5)


class Png(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gpipe-picture-")
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "picture.png")
        self.programs = os.path.join(self.folder.name, "bin")
        os.mkdir(self.programs)

    def program(self, name, script):
        """Puts a program on the path that the converter looks at."""
        path = pathlib.Path(self.programs, name)
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def with_path(self, action, rest=""):
        before = os.environ["PATH"]
        os.environ["PATH"] = self.programs + rest
        try:
            return action()
        finally:
            os.environ["PATH"] = before

    def draw(self):
        picture.png(self.path, [samples.small()])

    def test_without_a_converter_the_message_names_them(self):
        words = r"picture\.png: no converter from SVG to PNG is installed; install librsvg2-bin .*inkscape or chromium"
        with self.assertRaisesRegex(BadInput, words):
            self.with_path(self.draw)
        self.assertFalse(os.path.exists(self.path))

    def test_a_converter_that_fails_is_named(self):
        self.program("rsvg-convert", "exit 1\n")
        with self.assertRaisesRegex(BadInput, r"picture\.png: rsvg-convert did not convert the picture; write it with --svg"):
            self.with_path(self.draw)

    def test_the_next_converter_is_tried(self):
        self.program("rsvg-convert", "exit 0\n")
        self.program("inkscape", r"""for i; do
case "$i" in --export-filename=*) printf '\211PNG\r\n\032\n' >"${i#*=}";; esac
done
""")
        self.with_path(self.draw)
        self.assertEqual(pathlib.Path(self.path).read_bytes(), b"\x89PNG\r\n\x1a\n")

    def test_an_imagemagick_without_librsvg_is_not_used(self):
        self.program("convert", "echo '      SVG  SVG       rw+   Scalable Vector Graphics (XML 2.9.14)'\n")
        with self.assertRaisesRegex(BadInput, "no converter"):
            self.with_path(self.draw)
        self.program("convert", r"""case "$*" in
"-list format") echo '      SVG  SVG       rw+   Scalable Vector Graphics (RSVG 2.54.7)';;
*) for last; do :; done; printf '\211PNG\r\n\032\n' >"${last#png:}";; esac""" + "\n")
        self.with_path(self.draw)
        self.assertTrue(os.path.exists(self.path))

    def test_a_folder_that_is_missing(self):
        self.program("rsvg-convert", r"""while [ "$1" != --output ]; do shift; done; printf '\211PNG\r\n\032\n' >"$2" """ + "\n")
        self.path = os.path.join(self.folder.name, "none/picture.png")
        with self.assertRaisesRegex(BadInput, "none/picture.png: cannot be written: No such file or directory; name a file"):
            self.with_path(self.draw)

    @unittest.skipUnless(find_browser(), "no browser is on the path")
    def test_a_browser_draws_it(self):
        browser = find_browser()
        os.symlink(browser, os.path.join(self.programs, "chromium"))
        text = picture.svg([samples.small()])
        self.with_path(self.draw, os.pathsep + os.environ["PATH"])
        data = pathlib.Path(self.path).read_bytes()
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        if not any(map(picture_png.shutil.which, ("rsvg-convert", "inkscape"))):
            self.assertEqual((width, height), tuple(2 * size for size in picture_png.size_of(text)))
        self.assertGreater(len(data), 5000)


if __name__ == "__main__":
    unittest.main()
