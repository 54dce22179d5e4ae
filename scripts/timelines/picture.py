"""Static pictures of timelines: one step of each, one above the other, on one time axis. SVG; PNG in picture_png.py.

Colours and order are those of the page and of `gpipe-train --plan --svg`. The reader's setting decides between light and dark.
"""
from bisect import bisect_left, bisect_right

from . import colours
from .html_parts import bytes_text, escape, milliseconds
from .page_data import planned_bytes, typical_step
from .page_tables import letter
from .picture_png import convert
from .timeline import COPY, BadInput

LEFT, RIGHT = 152, 16
MOST_MARKS = 6000  # of more spans, shares of the time are drawn
MOST_WORKERS = 64  # in one timeline; of more, every so many-th is drawn
ROOMY_WORKERS = 16
COLUMN = 2  # pixels: the width of a share
HATCHES = {"r": "M0 0L6 6", "i": "M0 6L6 0", "w": "M0 0L6 6M0 6L6 0", "u": "M0 3H6", "k": "M3 0V6"}


def style(theme=None):
    """The style sheet; theme: "light" or "dark" instead of the reader's setting."""
    def rules(pick):
        surface = {row[0]: row[1 + pick] for row in colours.SURFACES}
        inks = ("#ffffff", "#000000")
        return "".join((
            f"svg{{background:{surface['page']};font:12px system-ui,'DejaVu Sans',sans-serif}}\n",
            f"text{{fill:{surface['text']}}}.small{{font-size:11px;fill:{surface['muted']}}}",
            ".n{font-size:10px;text-anchor:middle}"
            f".t{{font-weight:600;paint-order:stroke;stroke:{surface['page']};stroke-width:4px}}\n",
            "".join(f".{name}{{fill:{inks[name[pick] == 'b']}}}" for name in ("ww", "wb", "bw", "bb")),
            f"\n.lane{{fill:{surface['lane']}}}.axis{{stroke:{surface['line']}}}.mem{{fill:{surface['memory']}}}"
            f".arena{{stroke:{surface['edge']};stroke-dasharray:4 3}}.end{{stroke:{surface['edge']}}}\n",
            ".h{stroke:#fff;stroke-opacity:.35}",
            f".d{{fill:{next(row[2 + pick] for row in colours.IDLE if row[0] == 'data')}}}",
            "".join(f".{kind[0]}{{fill:{kind[3 + pick]}}}" for kind in colours.KINDS), "\n"))
    if theme:
        return f"<style>\n{rules(theme == 'dark')}</style>\n"
    return f"<style>\n{rules(0)}@media (prefers-color-scheme:dark){{\n{rules(1)}}}\n</style>\n"


def mix(over, below, part):
    """The colour of `over` that covers a part of `below`."""
    pairs = [(int(over[at:at + 2], 16), int(below[at:at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(top * part + ground * (1 - part)):02x}" for top, ground in pairs)


def ink(kind, part):
    """The class of text on a mark: for light and for dark readers, w(hite) or b(lack), whichever has more contrast."""
    lane = next(row for row in colours.SURFACES if row[0] == "lane")
    row = colours.KINDS[colours.KIND_INDEX[kind]]
    fills = [mix(row[3 + pick], lane[1 + pick], part) for pick in (0, 1)]
    return "".join("w" if colours.contrast(fill, "#ffffff") >= colours.contrast(fill, "#000000") else "b" for fill in fills)


class Part:
    """One step of a timeline, and where it is drawn."""

    def __init__(self, timeline, number, label):
        self.timeline, self.label = timeline, label
        self.step = choose_step(timeline, number)
        spans = timeline.spans
        self.start = self.step.start if self.step else min((span.start for span in spans), default=0)
        self.end = self.step.end if self.step else max((span.end for span in spans), default=0)
        count = len(timeline.workers)
        self.every = -(-count // MOST_WORKERS) or 1
        self.workers = range(0, count, self.every)
        self.rows = {worker: {} for worker in self.workers}  # worker -> {(is copy, lane): spans}
        for span in spans:
            if self.start < span.end > span.start < self.end and span.worker in self.rows:
                self.rows[span.worker].setdefault((span.kind == COPY, span.lane), []).append(span)
        for rows in self.rows.values():
            if not any(not is_copy for is_copy, _ in rows):
                rows[False, 0] = []
        self.waits = [wait for wait in timeline.waiting_for_data if wait[1] > self.start and wait[0] < self.end]
        self.marks = sum(len(spans) for rows in self.rows.values() for spans in rows.values())

    @property
    def length(self):
        return max(0.0, self.end - self.start)


def choose_step(timeline, number):
    """The step with this number; without a number, the one of median length."""
    if number is None:
        index = typical_step(timeline)
        return timeline.steps[index] if index >= 0 else None
    step = next((step for step in timeline.steps if step.number == number), None)
    if step is None:
        numbers = [step.number for step in timeline.steps]
        there = f"it has steps {min(numbers)} to {max(numbers)}" if numbers else "it has no steps"
        raise BadInput(f"{timeline.name}: has no step {number}; {there}: choose one of these")
    return step


class Painter:
    """Writes the elements of one picture."""

    def __init__(self, parts, width):
        self.parts, self.width, self.out = parts, width, []
        self.longest = max((part.length for part in parts), default=0)
        self.scale = (width - LEFT - RIGHT) / self.longest if self.longest > 0 else 0
        self.each = sum(part.marks for part in parts) <= MOST_MARKS
        is_roomy = sum(len(part.workers) for part in parts) <= ROOMY_WORKERS
        self.lane, self.copy, self.memory, self.gap = (24, 5, 20, 12) if is_roomy else (10, 2, 8, 6)
        self.most = {}  # worker -> the top of its memory strip in all timelines
        for part in parts:
            for worker in part.workers:
                values = [value for _, value in part.timeline.memory.get(worker, [])]
                if values:
                    top = max(*values, planned_bytes(part.timeline, worker), 1)
                    self.most[worker] = max(self.most.get(worker, 1), top)

    def add(self, text):
        self.out.append(text)

    def text(self, x, y, words, more=""):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(words)}</text>\n')

    def x(self, part, time):
        return LEFT + min(max(time - part.start, 0), part.length) * self.scale

    # ---- one worker ---------------------------------------------------------------------------------------------------

    def worker(self, part, worker, y):
        """Draws the tracks of a worker, and returns the y below them."""
        it = part.timeline.workers[worker]
        is_roomy = self.lane >= 12
        self.text(8, y + (13 if is_roomy else 9), clip(it.name, 20), "" if is_roomy else ' class="small"')
        if is_roomy and it.stages:
            words = f"stage {it.stages[0]}" if len(it.stages) == 1 else "stages " + ", ".join(map(str, it.stages))
            self.text(8, y + 26, clip(words, 22), ' class="small"')
        for (is_copy, _), spans in sorted(part.rows[worker].items()):
            height = self.copy if is_copy else self.lane
            self.add(f'<rect class="lane" x="{LEFT}" y="{y}" width="{self.width - LEFT - RIGHT}" height="{height}"/>\n')
            if self.each:
                for span in spans:
                    self.mark(part, it, span, y, height, is_copy)
            else:
                self.shares(part, spans, y, height)
            y += height + (1 if is_copy else 0)
        memory = part.timeline.memory.get(worker)
        if memory:
            y += 2
            self.alive(part, worker, memory, y)
            if is_roomy:
                self.text(8, y + 14, f"memory ≤ {bytes_text(max(value for _, value in memory))}", ' class="small"')
            y += self.memory
        return y

    def mark(self, part, worker, span, y, height, is_copy):
        kind, x0 = colours.kind_of(span), self.x(part, span.start)
        width = self.x(part, span.end) - x0
        pale = paleness(worker, span) if not is_copy else 1
        shade = f' fill-opacity="{pale:.2f}"' if pale < 1 else ""
        words = f"{span.name}: {milliseconds(span.end - span.start)} from {milliseconds(span.start - part.start)}"
        place = f'x="{x0:.2f}" y="{y}" width="{max(width - (0.5 if width > 3 else 0), 0.3):.2f}" height="{height}"'
        self.add(f'<rect class="{kind}" {place}{shade}><title>{escape(words)}</title></rect>\n')
        if height < 12 or width < 6:
            return
        if kind in HATCHES:
            self.add(f'<rect fill="url(#h-{kind})" {place}/>\n')
        letter_of = colours.KINDS[colours.KIND_INDEX[kind]][2]
        label = next((text for text in (f"{letter_of}{span.micro}" if span.micro >= 0 else "", letter_of)
                      if text and 4 + 6.6 * len(text) <= width), "")
        if not label:
            return
        middle = x0 + width / 2
        if kind in HATCHES:  # the pattern must not run through the text
            half = 3.4 * len(label) + 1
            self.add(f'<rect class="lane" x="{middle - half:.2f}" y="{y + 5}" width="{2 * half:.2f}" height="14"/>'
                     f'<rect class="{kind}" x="{middle - half:.2f}" y="{y + 5}" width="{2 * half:.2f}" height="14"{shade}/>')
        self.text(middle, y + height / 2 + 3.5, label, f' class="n {ink(kind, pale)}"')

    def shares(self, part, spans, y, height):
        """What part of each column's time goes to each kind, stacked from below; neighbours of equal height are one."""
        count = (self.width - LEFT - RIGHT) // COLUMN
        of = {}
        for span in spans:
            first, last = ((self.x(part, time) - LEFT) / COLUMN for time in (span.start, span.end))
            column = of.setdefault(colours.KIND_INDEX[colours.kind_of(span)], [0.0] * count)
            for c in range(int(first), min(count, int(last) + 1)):
                column[c] += max(0.0, min(last, c + 1) - max(first, c))
        below = [0.0] * count
        scale = [1 / max(1.0, sum(column[c] for column in of.values())) for c in range(count)]
        for kind in sorted(of):
            path, before, from_x = [], (0.0, 0.0), 0
            for c in range(count + 1):
                share = of[kind][c] * scale[c] if c < count else 0
                now = (round(height * (1 - below[c] - share), 1), round(height * share, 1)) if share > 0 else (0.0, 0.0)
                if c < count:
                    below[c] += share
                if now == before and c < count:
                    continue
                if before[1] > 0:
                    path.append(f"M{LEFT + from_x} {y + before[0]:g}H{LEFT + c * COLUMN}v{before[1]:g}H{LEFT + from_x}")
                before, from_x = now, c * COLUMN
            self.add(f'<path class="{colours.KINDS[kind][0]}" d="{"".join(path)}"/>\n')

    def alive(self, part, worker, points, y):
        """Half pixels, each as high as the most that is alive in it."""
        times = [time for time, _ in points]
        first, last = bisect_right(times, part.start), bisect_left(times, part.end)
        alive = points[first - 1][1] if first else 0
        highest = {0: alive}  # half pixel -> from there on; one that holds a change is as high as the most in it
        for time, value in points[first:last]:
            at = int((time - part.start) * self.scale * 2)
            highest[at] = max(highest.get(at, alive), value)
            highest[at + 1] = alive = value
        scale, bottom = (self.memory - 1) / self.most[worker], y + self.memory
        path = [f"M{LEFT} {bottom}"]
        end = LEFT + part.length * self.scale
        for at in sorted(highest):
            if at / 2 <= end - LEFT:
                path.append(f"H{LEFT + at / 2:g}V{bottom - highest[at] * scale:.1f}")
        self.add(f'<rect class="lane" x="{LEFT}" y="{y}" width="{self.width - LEFT - RIGHT}" height="{self.memory}"/>'
                 f'<path class="mem" d="{"".join(path)}H{end:.1f}V{bottom}Z"/>\n')
        planned = planned_bytes(part.timeline, worker)
        if planned:
            self.add(f'<path class="arena" d="M{LEFT} {bottom - planned * scale:.1f}H{self.width - RIGHT}"/>\n')

    # ---- one timeline -------------------------------------------------------------------------------------------------

    def timeline(self, part, y):
        """Draws a timeline with its heading, and returns the y below it."""
        name = f"{part.label}  {part.timeline.name}" if part.label else part.timeline.name
        step = f"step {part.step.number}: " if part.step and part.timeline.source not in ("plan", "simulation") else ""
        words = f"{name} ({part.timeline.source}), {step}{milliseconds(part.length)}"
        if part.every > 1:
            words += f"; every {part.every}th worker"
        if not part.marks:
            words += "; no spans"
        self.text(8, y + 14, clip(words, int((self.width - 16) / 7.5)), ' class="t"')
        y += 26
        top = y
        if part.waits:
            self.text(8, y + 8, "waits for data", ' class="small"')
            self.add(f'<rect class="lane" x="{LEFT}" y="{y}" width="{self.width - LEFT - RIGHT}" height="8"/>')
            for start, end in part.waits:
                x0 = self.x(part, start)
                self.add(f'<rect class="d" x="{x0:.1f}" y="{y}" width="{max(1, self.x(part, end) - x0):.1f}" height="8"/>\n')
            y += 14
        for worker in part.workers:
            y = self.worker(part, worker, y) + self.gap
        if part.length > 0:
            x = self.x(part, part.end)
            self.add(f'<path class="end" d="M{x:.1f} {top}V{y - self.gap}"/>\n')
        return y + 8

    def axis(self, top, bottom):
        """The marks of the common time axis; their lines go through all timelines."""
        if not self.longest > 0:
            return
        distance = nice(self.longest / max(2, (self.width - LEFT - RIGHT) / 130))
        self.text(8, top + 10, "time in the step", ' class="small"')
        for i in range(int(self.longest / distance * (1 + 1e-9)) + 1):
            x, words = LEFT + i * distance * self.scale, milliseconds(i * distance) if i else "0"
            fits = x + 3 + 7 * len(words) <= self.width
            anchor = "" if fits else ' text-anchor="end"'
            self.add(f'<path class="axis" d="M{x:.1f} {top}V{bottom}"/>')
            self.text(x + (3 if fits else -3), top + 10, words, f' class="small"{anchor}')

    def legend(self, y):
        """The kinds that are there. Returns the y below."""
        used = {colours.kind_of(span) for part in self.parts for rows in part.rows.values()
                for spans in rows.values() for span in spans}
        entries = [(kind[0], f"{kind[1]} ({kind[2]})" if kind[2] else kind[1]) for kind in colours.KINDS if kind[0] in used]
        if self.each and any(len(worker.stages) > 1 for part in self.parts for worker in part.timeline.workers):
            entries.append(("", "paler: a worker's later stage"))
        if any(part.waits for part in self.parts):
            entries.append(("d", "waits for data"))
        if self.most:
            entries.append(("mem", "memory alive, dashed: planned (each worker's own scale)"))
        if not self.each:
            entries.append(("", "columns: shares of the time"))
        x = LEFT
        for kind, words in entries:
            width = 40 + 7 * len(words)
            if x > LEFT and x + width > self.width - RIGHT:
                x, y = LEFT, y + 18
            if kind:
                high = 4 if kind == "c" else 12
                place = f'x="{x}" y="{y + (12 - high) / 2:g}" width="12" height="{high}"'
                self.add(f'<rect class="{kind}" {place}/>')
                if kind in HATCHES:
                    self.add(f'<rect fill="url(#h-{kind})" {place}/>')
            self.text(x + (18 if kind else 0), y + 10, words)
            x += width
        return y + 26


def nice(rough):
    """The distance of marks: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** int(f"{rough:e}".partition("e")[2])
    return power * next(step for step in (1, 2, 5, 10) if rough <= step * power * (1 + 1e-9))


def clip(text, letters):
    return text if len(text) <= letters else text[: max(1, letters - 1)] + "…"


def wrap(text, letters):
    """Lines of at most so many letters, broken between words."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > letters:
            lines.append("")
        lines[-1] = clip(f"{lines[-1]} {word}".strip(), letters)
    return lines


def paleness(worker, span):
    """Of a worker's stages the later ones are paler."""
    at = worker.stages.index(span.stage) if span.stage in worker.stages else 0
    return 1 - 0.4 * at / (len(worker.stages) - 1) if at else 1


def svg(timelines, comparison=None, steps=None, width=1200, title=None, theme=None):
    """The picture as text.

    steps: the number of the step of each timeline, or one number for all; None: the step of median length. title: the words on
    top instead of the comparison's sentence. theme: "light" or "dark"; None: as the reader has set.
    """
    if not isinstance(steps, (list, tuple)):
        steps = [steps] * len(timelines)
    labels = [letter(index) if len(timelines) > 1 else "" for index in range(len(timelines))]
    painter = Painter([Part(*it) for it in zip(timelines, steps, labels)], width)
    y = 12
    for line in wrap(title or (comparison or {}).get("text") or "", int((width - 16) / 8.6)):
        if line:
            painter.text(8, y + 14, line, ' font-size="15" font-weight="600"')
            y += 22
    y = painter.legend(y + 4)
    axis_at, top = len(painter.out), y
    y += 18
    for part in painter.parts:
        y = painter.timeline(part, y)
    lines, painter.out = painter.out, []
    painter.axis(top, y - 8)
    lines[axis_at:axis_at] = painter.out
    patterns = "".join(f'<pattern id="h-{kind}" width="6" height="6" patternUnits="userSpaceOnUse">'
                       f'<path class="h" d="{path}"/></pattern>'
                       for kind, path in HATCHES.items())
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" fill="none">\n'
            f"{style(theme)}<defs>{patterns}</defs>\n{''.join(lines)}</svg>\n")


def png(path, timelines, comparison=None, steps=None, width=1200, title=None, theme="light"):
    """Writes the picture as PNG; raises BadInput if no converter is installed."""
    convert(svg(timelines, comparison, steps, width, title, theme), path)
