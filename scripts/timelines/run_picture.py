"""Static pictures of runs: curves and evaluations, as SVG that follows the reader's light or dark theme, and as PNG."""
import math
import os
import struct
import tempfile
import zlib
from html import escape

from . import colours, picture_png, run_curves
from .timeline import BadInput

MARKER = "<!-- gpipe-report -->"  # at the end of the file: it may be written over
PNG_MARKER = "Software\0gpipe-report"  # in the last chunk but one of a PNG
WIDTH, HEIGHT, GAP = 440, 190, 26  # of a panel
LEFT, BOTTOM, TOP = 56, 20, 22
POINTS = 600  # rows of a curve
COLUMNS = 2


def _plain(text):
    """Text that XML can carry."""
    return escape("".join(c if c.isprintable() else "�" for c in text), quote=True)


def nice_ticks(low, high, most=4):
    """Round values from low to high."""
    raw = (high - low) / most
    if not 1e-290 < raw < 1e290 or abs(low) > 1e12 * raw:
        return [low]  # floats have no round values between
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= raw * 0.999999 or n == 10)
    first = -int(-low // step) if low >= 0 else int(low / step)
    return [n * step for n in range(first, first + most + 3) if low - 1e-9 * step <= n * step <= high + 1e-9 * step]


class Panel:
    """One curve of all runs."""

    def __init__(self, runs, key, title, unit, evaluated):
        self.key, self.title = key, title + (" [%s]" % unit if unit else "")
        self.lines, self.marks = [], []
        for index, run in enumerate(runs):
            values = run_curves.columns(run)[key]
            bucket = max(1, -(-len(values) // POINTS))
            rows = run_curves.join(values, bucket)
            self.lines.append((index, [(run.steps[min((i + 1) * bucket, len(values)) - 1], row) for i, row in enumerate(rows)]))
            its = run_curves.thin(run.evaluations, 200) if evaluated else []
            self.marks.append((index, [(one["step"], one[key]) for one in its if one[key] == one[key]]))
        self.find_limits()

    def find_limits(self):
        rows = [(step, low, high) for _, line in self.lines for step, row in line if row for _, low, high in [row]]
        rows += [(step, value, value) for _, its in self.marks for step, value in its]
        self.is_empty = not rows
        if self.is_empty:
            return
        self.first, self.last = min(row[0] for row in rows), max(row[0] for row in rows)
        self.low, self.high = min(row[1] for row in rows), max(row[2] for row in rows)
        if 0 <= self.low < 0.5 * self.high:
            self.low = 0.0
        if self.low == self.high:
            self.low, self.high = self.low - (abs(self.low) * 0.1 or 1), self.high + (abs(self.high) * 0.1 or 1)

    def x(self, step):
        span = self.last - self.first
        return LEFT + (WIDTH - LEFT) * ((step - self.first) / span if span else 0.5)

    def y(self, value):
        if self.high - self.low == math.inf:
            return HEIGHT / 2
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - self.low) / (self.high - self.low)

    def axes(self):
        parts = ['<text class="title" x="0" y="12">%s</text>' % _plain(self.title)]
        for value in nice_ticks(self.low, self.high):
            y = self.y(value)
            parts.append('<path class="grid" d="M%d %.1fH%d"/><text class="tick end" x="%d" y="%.1f">%s</text>' %
                         (LEFT, y, WIDTH, LEFT - 6, y + 4, _plain("%.4g" % value)))
        for step in nice_ticks(self.first, self.last, 5):
            if step == int(step):
                parts.append('<text class="tick middle" x="%.1f" y="%d">%s</text>' % (self.x(step), HEIGHT - 4, f"{int(step):,}"))
        return parts

    def svg(self, x, y):
        parts = ['<g transform="translate(%d %d)">' % (x, y), *self.axes()]
        for index, line in self.lines:
            band, mean, pen = [], [], "M"
            for step, row in line:
                if row is None:
                    pen = "M"
                    continue
                value, low, high = row
                if low != high:
                    band.append("M%.1f %.1fV%.1f" % (self.x(step), self.y(low), self.y(high)))
                mean.append("%s%.1f %.1f" % (pen, self.x(step), self.y(value)))
                pen = "L"
            style = "s%d" % (index % len(colours.SERIES) + 1)
            if band:
                parts.append('<path class="band %s" d="%s"/>' % (style, "".join(band)))
            if mean:
                parts.append('<path class="line %s" d="%s"/>' % (style, "".join(mean)))
        for index, its in self.marks:
            style = "s%d" % (index % len(colours.SERIES) + 1)
            parts += ['<circle class="mark %s" cx="%.1f" cy="%.1f" r="2.5"/>' % (style, self.x(step), self.y(value))
                      for step, value in its]
        return "\n".join(parts) + "\n</g>\n"


def style():
    """Both themes."""
    def one(pick):
        surface = {name: (light, dark)[pick] for name, light, dark in colours.SURFACES}
        rules = "svg{background:%(page)s}text{fill:%(text)s}.tick{fill:%(muted)s}.grid{stroke:%(lane)s}.mark{fill:%(page)s}"
        return (rules % surface +
                "".join(".s%d{stroke:%s}" % (i, pair[pick]) for i, pair in enumerate(colours.SERIES, 1)))
    return ("<style>svg{font:12px system-ui,sans-serif}.title{font-weight:600}.tick{font-size:10px}.end{text-anchor:end}"
            ".middle{text-anchor:middle}.line{stroke-width:1.5;stroke-linejoin:round}.band{opacity:.4}.mark{stroke-width:1.2}%s"
            "@media (prefers-color-scheme:dark){%s}</style>\n" % (one(0), one(1)))


def svg(runs, title):
    """The picture of all curves that some run has, over steps."""
    panels = [Panel(runs, key, words, unit, key in run_curves.EVALUATED) for key, words, unit, *_ in run_curves.CURVES]
    panels = [panel for panel in panels if not panel.is_empty]
    width = COLUMNS * WIDTH + GAP + 40
    legend, x, y = [], 20, 52
    for index, run in enumerate(runs):
        name = run.name if len(run.name) <= 40 else run.name[:39] + "…"
        needed = 40 + 8 * len(name)
        if x > 20 and x + needed > width:
            x, y = 20, y + 20
        legend.append('<path class="s%d" stroke-width="3" d="M%d %dh16"/><text x="%d" y="%d">%s</text>\n' %
                      (index % len(colours.SERIES) + 1, x, y, x + 22, y + 4, _plain(name)))
        x += needed
    top = y + 22
    height = top + -(-len(panels) // COLUMNS) * (HEIGHT + GAP)
    drawn = "".join(panel.svg(20 + i % COLUMNS * (WIDTH + GAP), top + i // COLUMNS * (HEIGHT + GAP))
                    for i, panel in enumerate(panels))
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" fill="none">\n%s'
            '<text x="20" y="28" font-size="14" font-weight="600">%s</text>\n%s%s</svg>\n%s\n' %
            (width, height, width, height, style(), _plain(title), "".join(legend), drawn, MARKER))


def png(runs, title):
    """The same picture as the bytes of a PNG. Raises BadInput if no converter is installed."""
    with tempfile.TemporaryDirectory(prefix="gpipe-report-") as folder:
        path = os.path.join(folder, "curves.png")
        try:
            picture_png.convert(svg(runs, title), path)
        except BadInput as problem:
            raise BadInput("--png: %s" % str(problem).partition(": ")[2]) from None
        with open(path, "rb") as file:
            data = file.read()
    note = b"tEXt" + PNG_MARKER.encode()
    return data[:-12] + struct.pack(">I", len(note) - 4) + note + struct.pack(">I", zlib.crc32(note)) + data[-12:]
