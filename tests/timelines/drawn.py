"""Timelines from drawings, for tests: a row for each worker, a cell of two characters for each millisecond.

    0: F0F1....B1B0     F0: forward pass of micro-batch 0 on the worker's stage; equal neighbours are one instruction
    1: ..F0F1B1B0..     ..: nothing; C0: the receive of what stage 0 sent; G0: the receive of a gradient; L0: a load

Worker w has stage w. A row may have more lanes: "1/1: C0" is the second lane of worker 1.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "scripts"))
from timelines.timeline import COLLECTIVE, COMPUTE, COPY, Span, Step, Timeline, Worker, union  # noqa: E402

ABOUT = {"C": (COPY, "recv"), "G": (COPY, "recv"), "L": (COPY, "load"), "S": (COPY, "send"), "Z": (COMPUTE, "step"),
         "N": (COMPUTE, "norm"), "K": (COMPUTE, "clip"), "T": (COMPUTE, "total"), "D": (COMPUTE, "reduce"),
         "U": (COMPUTE, "update"), "A": (COLLECTIVE, "")}
NO_MICRO = ("step", "norm", "clip", "total", "reduce", "update")


def name_of(op, stage, micro, edge=-1):
    """As programs name an instruction."""
    text = f"{op} s{stage}" if op in NO_MICRO else f"{op} s{stage} m{micro}"
    return text if edge < 0 else f"{text} e{edge}"


def span_of(cell, worker, lane, start, end, stages):
    """The span of a run of equal cells. Edge s leads from stage s to the next one, edge stages + s back to stage s."""
    kind, op = ABOUT.get(cell[0], (COMPUTE, cell[0]))
    edge = {"C": worker - 1, "G": stages + worker}.get(cell[0], -1)
    micro = -1 if op in NO_MICRO else int(cell[1])
    return Span(worker, kind, name_of(op, worker, micro, edge), start, end, lane=lane, op=op, stage=worker, micro=micro)


def draw(picture, step=1, **more):
    """The timeline of one step."""
    rows = [line.strip().split(":") for line in picture.strip().splitlines()]
    places = [tuple(int(part) for part in (row[0].split("/") + ["0"])[:2]) for row in rows]
    workers = max(worker for worker, _ in places) + 1
    spans = []
    for (worker, lane), (_, text) in zip(places, rows):
        text = text.strip()
        cells = [text[i:i + 2] for i in range(0, len(text), 2)]
        at = 0
        while at < len(cells):
            end = at
            while end < len(cells) and cells[end] == cells[at]:
                end += 1
            if cells[at] != "..":
                spans.append(span_of(cells[at], worker, lane, float(at), float(end), workers))
            at = end
    return timeline(workers, spans, step, lanes=max(lane for _, lane in places) + 1, **more)


def timeline(workers, spans, step=1, lanes=1, **more):
    """A timeline of one step from spans."""
    for span in spans:
        span.step = step
    spans.sort(key=lambda span: span.start)
    covered = union((span.start, span.end) for span in spans)
    return Timeline("drawn", more.pop("source", "trace"),
                    [Worker(f"cpu:{w}", (w,), ("computes", "receives", "receives gradients")[:lanes]) for w in range(workers)],
                    spans, [Step(step, covered[0][0], covered[-1][1])], **more)


def sends(drawn):
    """Adds the sends: right after the value was computed, in no time. Needs receives with the edges of span_of()."""
    stages = len(drawn.workers)
    more = []
    for span in drawn.spans:
        edge = span.stage if span.op == "F" else stages + span.stage - 1 if span.op in ("B", "I") else -1
        if edge >= 0 and any(f"recv s{span.stage + (1 if span.op == 'F' else -1)} m{span.micro} e{edge}" == other.name
                             for other in drawn.spans):
            more.append(Span(span.worker, COPY, name_of("send", span.stage, span.micro, edge), span.end, span.end, span.step,
                             0, "send", span.stage, span.micro))
    drawn.spans = sorted(drawn.spans + more, key=lambda span: span.start)
    return drawn
