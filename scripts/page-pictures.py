#!/usr/bin/env python3
"""Makes docs/pictures/timelines-light.png and timelines-dark.png: the page of two runs that differ in their balance.

scripts/page-pictures.py [BUILD]. Needs Chromium. The times are those of this machine, so it should be idle.
Each run takes seconds.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/timelines")]
from browser import Browser, skip_without_browser  # noqa: E402
from timelines.compare import compare  # noqa: E402
from timelines.page import write_page  # noqa: E402
from timelines.read import read  # noqa: E402

BALANCES = {"equal-layers": "[36, 35]", "equal-times": "[52, 19]"}
SETTINGS = ("pipeline.devices=[cpu, cpu]", "pipeline.micro_batches=8", "train.epochs=1", "data.train={synthetic: {samples: 800}}")
WIDTH, MOST_BYTES = 1280, 200_000


def record(program, folder, name, balance):
    """A timeline of steps 3 to 22."""
    trace = folder / f"{name}.json"
    options = [f"--set={setting}" for setting in (*SETTINGS, f"pipeline.balance={balance}")]
    subprocess.run([program, "-q", "-o", folder / name, "--trace", trace, "--trace-steps", "3:22", *options,
                    ROOT / "configs/resnet-synthetic.yaml"], check=True, env={**os.environ, "XDG_CACHE_HOME": str(folder)})
    return trace


# The first backward pass of stage 0 in the chosen step of the first timeline.
PIN = """(() => { const m = gpipe.models[0], s = m.spans;
  for (let i = 0; i < s.count; i++)
    if (s.step[i] === m.step && /^B s0/.test(m.names[s.name[i]])) return gpipe.pin(0, i); })()"""
HIDE = "document.querySelector('.details').style.display = 'none'"
BOTTOM = "document.querySelector('#bars-idle').getBoundingClientRect().bottom + scrollY"


def main():
    skip_without_browser()
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve() / "gpipe-train"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        timelines = [read(str(record(program, folder, *it))) for it in BALANCES.items()]
        write_page(folder / "page.html", timelines, compare(timelines), "ResNet-18 on two workers")
        with Browser(WIDTH, 1400) as browser:
            browser.open(folder / "page.html")
            browser.evaluate(PIN)
            browser.evaluate(HIDE)
            for theme in ("light", "dark"):
                browser.emulate(dark=theme == "dark")
                browser.evaluate("gpipe.settled()")
                picture = ROOT / f"docs/pictures/timelines-{theme}.png"
                browser.screenshot(picture, clip=(0, 0, WIDTH, browser.evaluate(BOTTOM) + 16))
                if picture.stat().st_size > MOST_BYTES:
                    sys.exit(f"{picture}: has {picture.stat().st_size} bytes, more than {MOST_BYTES}: make WIDTH smaller")


if __name__ == "__main__":
    main()
