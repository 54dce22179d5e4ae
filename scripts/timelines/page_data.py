"""What the page of timelines embeds: each timeline as columns of whole numbers, which are small as JSON.

A column is a list, or one number if all its values are equal. Times are multiples of the timeline's `quantum` (in ms). The
starts of spans are differences to the span before. page_model.js reads this.
"""
from . import colours


def column(values):
    """A list of numbers, or the one number that all of them are."""
    return values[0] if values and all(value == values[0] for value in values) else values


class Strings:
    """Texts that are stored once; a column holds their indexes."""

    def __init__(self):
        self.index = {}

    def __call__(self, text):
        return self.index.setdefault(text, len(self.index))

    def list(self):
        return list(self.index)


def deltas(values):
    """Each value less the one before it."""
    return [value - before for value, before in zip(values, [0, *values])]


def quantum_of(timeline):
    """Nanoseconds; for timelines in other units, a ten-millionth of the whole."""
    extent = max([abs(span.end) for span in timeline.spans] + [abs(step.end) for step in timeline.steps], default=1)
    return 1e-6 if extent >= 10 or extent == 0 else extent * 1e-7


def typical_step(timeline):
    """The index of the step whose length is the median; -1 if there are no steps."""
    lengths = [round(step.end - step.start, 9) for step in timeline.steps]  # of equal steps the earlier comes first
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return order[(len(order) - 1) // 2] if order else -1


def predicted(timeline):
    """A function from a span to what the plan predicted for its instruction: (start, length), or None."""
    if timeline.plan is None or timeline.source in ("plan", "simulation"):
        return lambda span: None
    known = {}

    def find(span):
        if span.pc < 0 or span.program < 0:
            return None
        place = span.program, span.worker
        if place not in known:
            known[place] = timeline.plan.instructions(*place)
        instructions = known[place]
        if span.pc >= len(instructions):
            return None
        it = instructions[span.pc]
        start, end = it.get("start_ms"), it.get("end_ms")
        return None if start is None or end is None else (start, end - start)
    return find


def encode_spans(timeline, ticks, names, details):
    """The columns of the spans. Optional columns are left out if no span has a value."""
    spans = timeline.spans
    find, step_index = predicted(timeline), {step.number: i for i, step in enumerate(timeline.steps)}
    forecasts = [find(span) for span in spans]
    columns = {
        "start": deltas([ticks(span.start) for span in spans]),
        "length": [max(0, ticks(span.end) - ticks(span.start)) for span in spans],
        "worker": [span.worker for span in spans],
        "lane": [span.lane for span in spans],
        "copy": [int(span.kind == "copy") for span in spans],
        "kind": [colours.KIND_INDEX[colours.kind_of(span)] for span in spans],
        "name": [names(span.name) for span in spans],
        "step": [step_index.get(span.step, -1) for span in spans],
        "stage": [span.stage for span in spans],
        "micro": [span.micro for span in spans],
        "bytes": [span.bytes for span in spans],
        "pc": [span.pc for span in spans],
        "detail": [details(span.detail) for span in spans],
        "predicted": [ticks(forecast[1]) if forecast else -1 for forecast in forecasts],
        "predictedStart": [ticks(forecast[0]) if forecast else -1 for forecast in forecasts],
        "issued": [-1 if span.issued is None else max(0, ticks(span.start) - ticks(span.issued)) for span in spans],
    }
    return {"count": len(spans), **{name: column(values) for name, values in columns.items()}}


def encode_arrows(dependencies):
    """How many spans each span waited for, and which: the differences of their indexes."""
    counts = [len(waits) for waits in dependencies]
    back = [index - other for index, waits in enumerate(dependencies) for other in waits]
    return {"count": column(counts), "back": back} if back else None


def encode_layers(timeline, ticks, names):
    layers = sorted(timeline.layers, key=lambda layer: layer.start)
    return {"count": len(layers),
            "start": deltas([ticks(layer.start) for layer in layers]),
            "length": [max(0, ticks(layer.end) - ticks(layer.start)) for layer in layers],
            "worker": column([layer.worker for layer in layers]),
            "name": column([names(layer.layer) for layer in layers]),
            "op": column([names(layer.op) for layer in layers])} if layers else None


def planned_bytes(timeline, worker):
    """The size of the worker's arena as planned; 0: not known."""
    workers = timeline.plan.data.get("workers", []) if timeline.plan else []
    return workers[worker].get("arena_bytes", 0) if worker < len(workers) else 0


def encode(timeline, dependencies=None):
    """One timeline as data for JSON. dependencies: for each span, the indexes of the spans that it waited for."""
    quantum = quantum_of(timeline)

    def ticks(time):
        return round(time / quantum)

    names, details = Strings(), Strings()
    spans = encode_spans(timeline, ticks, names, details)
    layers = encode_layers(timeline, ticks, names)
    memory = []
    for worker in range(len(timeline.workers)):
        points = timeline.memory.get(worker, [])
        memory.append({"start": deltas([ticks(time) for time, _ in points]), "bytes": [int(value) for _, value in points]})
    waits = sorted(timeline.waiting_for_data)
    return {
        "name": timeline.name, "source": timeline.source, "remarks": list(timeline.remarks), "quantum": quantum,
        "workers": [{"name": worker.name, "stages": list(worker.stages), "lanes": list(worker.lanes),
                     "planned": planned_bytes(timeline, index)} for index, worker in enumerate(timeline.workers)],
        "steps": {"number": [step.number for step in timeline.steps],
                  "start": [ticks(step.start) for step in timeline.steps],
                  "end": [ticks(step.end) for step in timeline.steps]},
        "typical": typical_step(timeline),
        "spans": spans, "layers": layers, "memory": memory,
        "arrows": encode_arrows(dependencies) if dependencies else None,
        "data": {"start": [ticks(start) for start, _ in waits], "end": [ticks(end) for _, end in waits]},
        "names": names.list(), "details": details.list(),
    }
