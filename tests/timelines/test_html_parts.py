"""The parts that pages are made of: numbers as text, escaped text, embedded data, files."""
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "scripts"))
from timelines import html_parts as parts  # noqa: E402
from timelines.timeline import BadInput  # noqa: E402


class Numbers(unittest.TestCase):
    def test_times_have_the_unit_that_suits_them(self):
        cases = {0: "0 ms", 1e-5: "10.0 ns", 0.0123: "12.3 µs", 0.99949: "999 µs", 0.9996: "1.00 ms", 12.345: "12.3 ms",
                 999.4: "999 ms", 999.6: "1.00 s", 12345: "12.3 s", -2.5: "-2.50 ms", 1e9: "1,000,000 s"}
        self.assertEqual({value: parts.milliseconds(value) for value in cases}, cases)
        for value in (None, float("nan"), float("inf")):
            self.assertEqual(parts.milliseconds(value), "–")
            self.assertEqual(parts.number(value), "–")

    def test_bytes(self):
        cases = {0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 5983360: "5.71 MiB", 2**41: "2.00 TiB", None: "–"}
        self.assertEqual({value: parts.bytes_text(value) for value in cases}, cases)

    def test_numbers_have_digits_and_commas(self):
        self.assertEqual(parts.number(1234.565, 1), "1,234.6")
        self.assertEqual(parts.number(7, 0), "7")


class Html(unittest.TestCase):
    def test_text_is_escaped_in_every_part(self):
        bad = "<b onclick='x'>\"&\x00"
        safe = "&lt;b onclick=&#x27;x&#x27;&gt;&quot;&amp; "
        made = (parts.table("t", bad, [parts.Column(bad, note=bad)], [[bad], [parts.Cell(1, bad, title=bad)]], note=bad)
                + parts.stacked_bars("b", bad, [(bad, {"x": 1.0}, bad)], [("x", bad, "idle-copy")], unit=bad)
                + parts.section(bad, "", note=bad))
        self.assertNotIn("<b ", made)
        self.assertNotIn("\x00", made)
        self.assertEqual(made.count(safe), made.count("&lt;b"))
        self.assertGreaterEqual(made.count(safe), 13)

    def test_embedded_data_cannot_leave_its_element(self):
        data = {"</script x><!--<script>": ["\u2028\ud800", float("nan"), (1, 2.5)], "&": None}
        text = parts.embed("n", data)
        inner = re.fullmatch(r'<script type="application/json" id="data-n">(.*)</script>\n', text, re.DOTALL)[1]
        for letter in "<>&":
            self.assertNotIn(letter, inner)
        self.assertTrue(inner.isascii())
        self.assertEqual(json.loads(inner), {"</script x><!--<script>": ["\u2028\ufffd", None, [1, 2.5]], "&": None})

    def test_cells_sort_by_their_values(self):
        made = parts.table("t", "c", [parts.Column("n"), parts.Column("v", "number", 1)],
                           [["a", 1234.56], ["b", parts.Cell(0.5, "half", style="better")], ["c", None]])
        self.assertIn('<td class="number" data-value="1234.56">1,234.6</td>', made)
        self.assertIn('<td class="number better" data-value="0.5">half</td>', made)
        self.assertIn('<td class="number">–</td>', made)

    def test_bars_without_values(self):
        made = parts.stacked_bars("b", "c", [("w", {"x": 0.0, "y": None}, "")], [("x", "X", "k"), ("y", "Y", "k")])
        self.assertNotIn('class="part', made)

    def test_each_script_has_its_hash(self):
        """The hash of "1" is what `printf 1 | openssl dgst -sha256 -binary | base64` prints."""
        page = parts.frame("t", "", scripts=["1"])
        self.assertIn("sha256-a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s=", page)
        self.assertEqual(page.count("sha256-"), 2)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_page_replaces_another_whole(self):
        path = self.folder / "page.html"
        for text in ("first", "second ✓"):
            parts.write(path, text)
            self.assertEqual(path.read_text(encoding="utf-8"), text)
        self.assertEqual(os.listdir(self.folder), ["page.html"])

    def test_what_cannot_be_written_is_one_sentence(self):
        (self.folder / "file").write_text("")
        for path in (self.folder / "none/page.html", self.folder / "file/page.html", self.folder):
            words = f"^{re.escape(str(path))}: cannot be written: [A-Z][a-z ]+; name a file in a folder"
            with self.assertRaisesRegex(BadInput, words):
                parts.write(path, "x")
        self.assertEqual(os.listdir(self.folder), ["file"])

    def test_a_pipe_is_written_to(self):
        reads, writes = os.pipe()
        parts.write(f"/dev/fd/{writes}", "page")
        os.close(writes)
        self.assertEqual(os.read(reads, 100), b"page")
        os.close(reads)


if __name__ == "__main__":
    unittest.main()
