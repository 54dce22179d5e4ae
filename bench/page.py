#!/usr/bin/env python3
"""How long the page of timelines takes in a headless browser: until its spans are drawn, for a redraw, and its size.

bench/page.py [REPEATS]. Needs Chromium. Times are medians; the worst is beside them. The timelines are made up: 8 workers, 10
steps, instructions of 1 ms without gaps; each waited for two others. All of them are in view at the first drawing.
"""
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/timelines"))
import page_samples as samples  # noqa: E402
from browser import Browser, skip_without_browser  # noqa: E402
from timelines import page  # noqa: E402

SIZES = (1_000, 10_000, 100_000, 300_000)
SETTLED = "gpipe.settled().then(() => gpipe.drawn.ms)"


def measure(browser, path, repeats):
    """Seconds from the navigation to the end of the first drawing of all spans; ms of redraws while the view is zoomed in."""
    first, redraws, spans = [], [], 0
    for _ in range(repeats):
        browser.open(path)
        first.append(browser.evaluate("(gpipe.showAll(), gpipe.settled()).then(() => performance.now() / 1000)"))
        spans = browser.evaluate("gpipe.drawn.spans")
        for _ in range(12):
            browser.key("+")
            redraws.append(browser.evaluate(SETTLED))
    return first, redraws, spans


def row(browser, folder, count, repeats):
    path = pathlib.Path(folder, "page.html")
    timeline = samples.many(count)
    waits = samples.many_waits(timeline)
    began = time.perf_counter()
    page.write_page(path, [timeline], None, dependencies=[waits])
    written = time.perf_counter() - began
    first, redraws, spans = measure(browser, path, repeats)
    assert spans == count, (spans, count)
    size = os.path.getsize(path)
    return (f"{count:>9,} {size / 2**20:>9.2f} {size / count:>10.1f} {written:>9.2f} "
            f"{statistics.median(first):>9.2f} {max(first):>7.2f} {statistics.median(redraws):>10.1f} {max(redraws):>7.1f}")


def main():
    skip_without_browser()
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{'':>9} {'size':>9} {'bytes':>10} {'written':>9} {'drawn after [s]':>17} {'redraw [ms]':>18}")
    print(f"{'spans':>9} {'[MiB]':>9} {'per span':>10} {'in [s]':>9} {'median':>9} {'worst':>7} {'median':>10} {'worst':>7}")
    with tempfile.TemporaryDirectory() as folder, Browser(1600, 1000) as browser:
        for count in SIZES:
            print(row(browser, folder, count, repeats), flush=True)


if __name__ == "__main__":
    main()
