// Reads the embedded timelines (page_data.py) into arrays that can be searched.

// The first index whose value is greater than `value`, in a sorted array.
function after(array, value) {
  let low = 0, high = array.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

function column(Type, values, count) {
  return Array.isArray(values) ? Type.from(values) : new Type(count).fill(values ?? 0);
}

// Times in ms, from differences in quanta.
function timesOf(differences, count, quantum) {
  const times = column(Float64Array, differences, count);
  let sum = 0;
  for (let i = 0; i < count; i++) times[i] = (sum += times[i]) * quantum;
  return times;
}

function scaled(values, quantum) {
  return Float64Array.from(values, (value) => value * quantum);
}

// Spans of one worker that are drawn on one line, sorted by start. Those of different streams may overlap.
class Row {
  constructor(worker, lane, isCopy, spans, ids) {
    const count = ids.length;
    Object.assign(this, { worker, lane, isCopy, ids: Int32Array.from(ids) });
    this.start = new Float64Array(count);
    this.end = new Float64Array(count);
    this.kind = new Uint8Array(count);
    this.reach = new Float64Array(count); // the latest end of the spans up to this one: sorted, so it can be searched
    let reach = -Infinity;
    ids.forEach((id, i) => {
      this.start[i] = spans.start[id];
      this.end[i] = spans.end[id];
      this.kind[i] = spans.kind[id];
      this.reach[i] = reach = Math.max(reach, this.end[i]);
    });
  }
  // Indexes [first, last) of what may touch the time from..to.
  between(from, to) {
    return [after(this.reach, from), after(this.start, to)];
  }
  // The id of the span at a time, or of the nearest within `slack`; -1 if there is none.
  at(time, slack) {
    let best = -1, distance = slack;
    const [first, last] = this.between(time - slack, time + slack);
    for (let i = first; i < last; i++) {
      const away = Math.max(0, this.start[i] - time, time - this.end[i]);
      if (away <= distance && this.end[i] >= time - slack) {
        distance = away;
        best = i;
      }
    }
    return best < 0 ? -1 : this.ids[best];
  }
}

function readSpans(raw, quantum) {
  const count = raw.count, spans = { count };
  spans.start = timesOf(raw.start, count, quantum);
  spans.end = column(Float64Array, raw.length, count);
  for (let i = 0; i < count; i++) spans.end[i] = spans.start[i] + spans.end[i] * quantum;
  for (const name of ["worker", "lane", "name", "step", "stage", "micro", "pc", "detail"])
    spans[name] = column(Int32Array, raw[name], count);
  for (const name of ["copy", "kind"]) spans[name] = column(Uint8Array, raw[name], count);
  for (const name of ["bytes", "predicted", "predictedStart", "issued"])
    spans[name] = column(Float64Array, raw[name], count);
  return spans;
}

function readRows(spans, workers) {
  const lists = new Map();
  for (let i = 0; i < spans.count; i++) {
    const key = (spans.worker[i] * 2 + spans.copy[i]) * 1024 + spans.lane[i];
    if (!lists.has(key)) lists.set(key, []);
    lists.get(key).push(i);
  }
  const rows = workers.map(() => []);
  [...lists.keys()].sort((a, b) => a - b).forEach((key) => {
    const lane = key % 1024, isCopy = (Math.floor(key / 1024) & 1) === 1, worker = Math.floor(key / 2048);
    rows[worker]?.push(new Row(worker, lane, isCopy, spans, lists.get(key)));
  });
  return rows;
}

// of(i): what span i waited for; users(i): what waited for span i, which is worked out at the first question.
function readArrows(raw, count) {
  if (!raw) return null;
  const counts = column(Int32Array, raw.count, count), first = new Int32Array(count + 1);
  for (let i = 0; i < count; i++) first[i + 1] = first[i] + counts[i];
  const other = Int32Array.from(raw.back);
  for (let i = 0; i < count; i++) for (let a = first[i]; a < first[i + 1]; a++) other[a] = i - other[a];
  let known = null;
  const users = () => {
    const map = new Map();
    for (let i = 0; i < count; i++)
      for (let a = first[i]; a < first[i + 1]; a++) {
        if (!map.has(other[a])) map.set(other[a], []);
        map.get(other[a]).push(i);
      }
    return map;
  };
  return { of: (i) => Array.from(other.subarray(first[i], first[i + 1])), users: (i) => (known ??= users()).get(i) ?? [] };
}

function readLayers(raw, quantum, workers) {
  if (!raw) return null;
  const start = timesOf(raw.start, raw.count, quantum), length = column(Float64Array, raw.length, raw.count);
  const worker = column(Int32Array, raw.worker, raw.count);
  const name = column(Int32Array, raw.name, raw.count), op = column(Int32Array, raw.op, raw.count);
  return workers.map((_, w) => {
    const ids = [];
    for (let i = 0; i < raw.count; i++) if (worker[i] === w) ids.push(i);
    return {
      start: Float64Array.from(ids, (i) => start[i]), end: Float64Array.from(ids, (i) => start[i] + length[i] * quantum),
      name: Int32Array.from(ids, (i) => name[i]), op: Int32Array.from(ids, (i) => op[i]),
    };
  });
}

function readTimeline(raw) {
  const { quantum, workers, steps } = raw;
  const spans = readSpans(raw.spans, quantum);
  const model = {
    name: raw.name, source: raw.source, remarks: raw.remarks, workers, spans, names: raw.names, details: raw.details,
    quantum, rows: readRows(spans, workers), arrows: readArrows(raw.arrows, spans.count),
    layers: readLayers(raw.layers, quantum, workers),
    memory: raw.memory.map((it) => ({ time: timesOf(it.start, it.start.length, quantum), bytes: Float64Array.from(it.bytes) })),
    steps: { number: steps.number, start: scaled(steps.start, quantum), end: scaled(steps.end, quantum) },
    data: { start: scaled(raw.data.start, quantum), end: scaled(raw.data.end, quantum) },
    step: raw.typical,
  };
  model.from = Math.min(Infinity, ...model.steps.start.slice(0, 1), ...spans.start.slice(0, 1));
  model.to = model.steps.end.length ? Math.max(...[model.steps.end[model.steps.end.length - 1]]) : -Infinity;
  for (let i = 0; i < spans.count; i++) if (spans.end[i] > model.to) model.to = spans.end[i];
  if (!(model.to > model.from)) [model.from, model.to] = [0, 1];
  return model;
}

// Where a timeline's zero of the common axis stands: the start of its chosen step.
function baseOf(model) {
  return model.step >= 0 ? model.steps.start[model.step] : model.from;
}

function stepLength(model) {
  return model.step >= 0 ? model.steps.end[model.step] - model.steps.start[model.step] : model.to - model.from;
}

// ---- numbers as text ------------------------------------------------------------------------------------------------

function threeDigits(value) {
  const size = Math.abs(value), digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function timeText(ms) {
  const size = Math.abs(ms);
  if (size >= 999.5) return threeDigits(ms / 1e3) + " s";
  if (size >= 0.9995) return threeDigits(ms) + " ms";
  if (size >= 0.0009995) return threeDigits(ms * 1e3) + " µs";
  return size < 5e-9 ? "0" : threeDigits(ms * 1e6) + " ns"; // what is left of a difference of equal times is no length
}

function bytesText(bytes) {
  let value = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(value) < 1024) return unit === "B" ? `${value} B` : `${threeDigits(value)} ${unit}`;
    value /= 1024;
  }
  return threeDigits(value) + " TiB";
}

// The distance of the axis' marks: 1, 2 or 5 times a power of ten.
function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough)), part = rough / power;
  return power * (part > 5 ? 10 : part > 2 ? 5 : part > 1 ? 2 : 1);
}

// A mark's text: all marks of one axis have the unit and the digits that their distance needs.
function markText(value, distance) {
  const largest = Math.max(Math.abs(value), distance);
  const [unit, scale] = distance >= 1000 ? ["s", 1e-3] : distance >= 1e-1 || largest >= 100 ? ["ms", 1]
    : distance >= 1e-4 ? ["µs", 1e3] : ["ns", 1e6];
  const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(distance * scale) + 1e-9)));
  if (Math.abs(value) < distance / 2) return "0";
  const number = Math.abs(value * scale).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${value < 0 ? "−" : ""}${number} ${unit}`;
}
