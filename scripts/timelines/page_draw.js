// Draws timelines on canvases. Coordinates inside a canvas are device pixels, so that edges are sharp on every display.

const GUTTER = 148; // CSS pixels at the left, for names
const RIGHT = 12;
const ROOMY_WORKERS = 16; // of up to so many workers the rows are high
const MOST_WORKERS = 256; // of more, only these are drawn
const WIDE = 2; // device pixels: narrower spans become shares of a pixel column
const LEVELS = 8; // heights of shares are rounded to this part of a row
const HATCHED = { r: "\\", i: "/", w: "x", u: "-", k: "|" }; // kinds that a pattern distinguishes besides their colour

let colours = {}; // of the current theme: name -> "#rrggbb"
let inks = []; // for each kind, the colour of text on it: [full, pale]
let patterns = new Map();

function luminance(red, green, blue) {
  const [r, g, b] = [red, green, blue].map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

// A colour that covers part of what is below it.
function mix(over, below, part) {
  const a = channels(over), b = channels(below);
  return "#" + a.map((value, i) => Math.round(value * part + b[i] * (1 - part)).toString(16).padStart(2, "0")).join("");
}

// Black or white, whichever is easier to read on a colour.
function inkOn(colour) {
  const light = luminance(...channels(colour));
  return 1.05 / (light + 0.05) >= (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
}

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  colours = new Proxy({}, {
    get: (known, name) => known[name] ?? (known[name] = style.getPropertyValue(`--${name}`).trim()),
  });
  // Read now: a later change of the theme must not be seen before the next call.
  for (const name of ["page", "text", "muted", "lane", "line", "edge", "memory", "link", ...KINDS.map((kind) => kind.class)])
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  patterns = new Map();
}

// A stage's shade: a worker's later stages are paler.
function fillOf(kind, pale) {
  const colour = colours[KINDS[kind].class];
  return pale < 1 ? mix(colour, colours.lane, pale) : colour;
}

function hatch(context, kind, scale) {
  const lines = HATCHED[KINDS[kind].class];
  if (!lines) return null;
  const key = kind + "@" + scale;
  if (!patterns.has(key)) {
    const size = Math.round(6 * scale), tile = new OffscreenCanvas(size, size), pen = tile.getContext("2d");
    pen.strokeStyle = "rgba(255,255,255,0.30)";
    pen.lineWidth = Math.max(1, scale);
    pen.beginPath();
    if (lines === "/" || lines === "x") {
      for (const shift of [-size, 0, size]) { pen.moveTo(shift - 1, size + 1); pen.lineTo(shift + size + 1, -1); }
    }
    if (lines === "\\" || lines === "x") {
      for (const shift of [-size, 0, size]) { pen.moveTo(shift - 1, -1); pen.lineTo(shift + size + 1, size + 1); }
    }
    if (lines === "-") { pen.moveTo(0, size / 2); pen.lineTo(size, size / 2); }
    if (lines === "|") { pen.moveTo(size / 2, 0); pen.lineTo(size / 2, size); }
    pen.stroke();
    patterns.set(key, context.createPattern(tile, "repeat"));
  }
  return patterns.get(key);
}

// ---- where everything stands ----------------------------------------------------------------------------------------

// Rows of one timeline, from above: {kind, worker, row, y, height} in CSS pixels, and the height of all.
function layout(model, isCompact) {
  const hasLayers = Boolean(model.layers) && !isCompact;
  const heights = isCompact ? { compute: 12, copy: 3, memory: 8, gap: 5 }
    : { compute: hasLayers ? 34 : 24, copy: 7, memory: 24, gap: 12 };
  const tracks = [], blocks = [];
  let y = 4;
  if (model.data.start.length) {
    tracks.push({ kind: "data", worker: -1, y, height: isCompact ? 6 : 8 });
    y += (isCompact ? 6 : 8) + heights.gap;
  }
  const shown = Math.min(model.workers.length, MOST_WORKERS);
  for (let worker = 0; worker < shown; worker++) {
    const top = y;
    const rows = model.rows[worker].length ? model.rows[worker] : [{ isCopy: false, empty: true }];
    for (const row of rows) {
      const height = row.isCopy ? heights.copy : heights.compute;
      tracks.push({ kind: row.isCopy ? "copy" : "compute", worker, row: row.empty ? null : row, y, height });
      y += height + (row.isCopy ? 1 : 0);
    }
    if (model.memory[worker]?.time.length) {
      y += 2;
      tracks.push({ kind: "memory", worker, y, height: heights.memory });
      y += heights.memory;
    }
    blocks.push({ worker, top, bottom: y });
    y += heights.gap;
  }
  return { tracks, blocks, height: Math.ceil(y), hasLayers, isCompact };
}

// ---- spans ----------------------------------------------------------------------------------------------------------

// What one redraw did. Tests read it through window.gpipe.drawn.
const drawn = { arrows: 0, redraws: 0, spans: 0, examined: 0, rects: 0, labels: 0, ms: 0 };

let shares = new Float32Array(0);

// Adds the part of each pixel column that a narrow span covers. A column is never less than an eighth of a pixel full.
function addShare(kind, x0, x1, width) {
  const first = Math.max(0, Math.floor(x0)), last = Math.min(width - 1, Math.floor(x1));
  for (let c = first; c <= last; c++)
    shares[c * KINDS.length + kind] += Math.max(Math.min(x1, c + 1) - Math.max(x0, c), 1 / LEVELS / 2);
}

// Draws the shares, stacked from below in the order of the legend. Neighbours of equal height are one rectangle. The lowest
// has at least `least` levels, so that a short span does not vanish.
function paintShares(context, left, y, width, height, least) {
  const count = KINDS.length, tops = new Uint8Array(width + 1), bases = new Uint8Array(width + 1), below = new Float32Array(width);
  const full = new Float32Array(width).fill(1);
  for (let c = 0; c < width; c++) {
    let sum = 0;
    for (let k = 0; k < count; k++) sum += shares[c * count + k];
    if (sum > 1) full[c] = 1 / sum;
  }
  for (let k = 0; k < count; k++) {
    let any = false;
    for (let c = 0; c < width; c++) {
      const share = shares[c * count + k] * full[c], base = Math.round(below[c] * LEVELS);
      below[c] += share;
      bases[c] = base;
      tops[c] = share > 0 ? Math.max(Math.round(below[c] * LEVELS), base === 0 ? least : base) : base;
      any ||= tops[c] > base;
    }
    if (!any) continue;
    context.fillStyle = fillOf(k, 1);
    bases[width] = tops[width] = 0;
    for (let c = 0, from = 0; c <= width; c++) {
      if (c < width && bases[c] === bases[from] && tops[c] === tops[from]) continue;
      if (tops[from] > bases[from]) {
        const top = Math.round(height * (1 - tops[from] / LEVELS)), bottom = Math.round(height * (1 - bases[from] / LEVELS));
        context.fillRect(left + from, y + top, c - from, bottom - top);
        drawn.rects++;
      }
      from = c;
    }
  }
}

// Spans that are wide enough to be seen, and shares for the others. Returns the wide ones for the labels.
function paintRow(context, model, row, place) {
  const { left, y, width, height, from, to, scale, ratio } = place;
  const [first, last] = row.between(from, to), wide = [];
  let narrow = 0;
  if (shares.length < width * KINDS.length) shares = new Float32Array(width * KINDS.length);
  else shares.fill(0, 0, width * KINDS.length);
  drawn.examined += last - first;
  for (let i = first; i < last; i++) {
    const x0 = (row.start[i] - from) * scale, x1 = (row.end[i] - from) * scale;
    if (x1 <= 0 || x0 >= width || x1 <= x0) continue; // in simulations some instructions take no time
    drawn.spans++;
    if (x1 - x0 >= WIDE) wide.push(i);
    else {
      addShare(row.kind[i], x0, x1, width);
      narrow++;
    }
  }
  if (narrow) paintShares(context, left, y, width, height, row.isCopy ? LEVELS / 2 : 1);
  for (const i of wide) {
    const x0 = Math.max(0, Math.round((row.start[i] - from) * scale)), x1 = Math.min(width, Math.round((row.end[i] - from) * scale));
    const gap = x1 - x0 > 4 ? 1 : 0, kind = row.kind[i];
    context.fillStyle = fillOf(kind, row.isCopy ? 1 : paleness(model, row.ids[i]));
    context.fillRect(left + x0, y, Math.max(1, x1 - x0 - gap), height);
    drawn.rects++;
    const lines = x1 - x0 >= 6 * ratio && height >= 8 * ratio ? hatch(context, kind, ratio) : null;
    if (lines) {
      context.fillStyle = lines;
      context.fillRect(left + x0, y, x1 - x0 - gap, height);
      drawn.rects++;
    }
  }
  return wide;
}

function paleness(model, id) {
  const stages = model.workers[model.spans.worker[id]].stages, at = stages.indexOf(model.spans.stage[id]);
  return stages.length > 1 && at > 0 ? 1 - (0.4 * at) / (stages.length - 1) : 1;
}

// A shorter text if the name does not fit: "F s1 m3", then "F3", then "F".
function labelOf(model, id, room, ratio) {
  const spans = model.spans, kind = KINDS[spans.kind[id]], name = model.names[spans.name[id]] ?? "";
  const letter = kind.letter, micro = spans.micro[id];
  const choices = letter && micro >= 0 ? [name, letter + micro, letter] : letter === "U" ? [name, "U"] : [name];
  return choices.find((text) => text && text.length * 6.7 * ratio <= room) ?? "";
}

function paintLabels(context, model, row, wide, place, hasLayers) {
  const { left, y, width, height, from, scale, ratio } = place;
  if (height < 10 * ratio) return;
  const middle = y + (hasLayers ? 9 * ratio : height / 2), size = height < 16 * ratio ? 9.5 : 11;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = `${size * ratio}px ${FONT}`;
  for (const i of wide) {
    const x0 = Math.max(0, (row.start[i] - from) * scale), x1 = Math.min(width, (row.end[i] - from) * scale);
    if (x1 - x0 < 9 * ratio) continue;
    const id = row.ids[i], text = labelOf(model, id, x1 - x0 - 4 * ratio, ratio);
    if (!text) continue;
    const colour = fillOf(row.kind[i], paleness(model, id)), lines = HATCHED[KINDS[row.kind[i]].class];
    if (lines) { // the pattern must not run through the text
      const half = (text.length * 3.4 + 2) * ratio;
      context.fillStyle = colour;
      context.fillRect(left + (x0 + x1) / 2 - half, Math.max(y, middle - 7 * ratio), 2 * half, Math.min(height, 14 * ratio));
    }
    context.fillStyle = inkOn(colour);
    context.fillText(text, left + (x0 + x1) / 2, middle + 0.5 * ratio);
    drawn.labels++;
  }
}

// Layers stand inside their instructions, in the lower half.
function paintLayers(context, model, worker, place) {
  const layers = model.layers[worker], { left, width, from, to, scale, ratio } = place;
  const y = place.y + 18 * ratio, height = place.height - 20 * ratio;
  let index = after(layers.end, from);
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = `${10 * ratio}px ${FONT}`;
  let reached = -1;
  for (; index < layers.start.length && layers.start[index] < to; index++) {
    const x0 = Math.max(0, (layers.start[index] - from) * scale), x1 = Math.min(width, (layers.end[index] - from) * scale);
    if (x1 - x0 < 2 * ratio && x1 - reached < 3 * ratio) continue;
    context.fillStyle = colours.page;
    context.fillRect(left + x0 + 0.5 * ratio, y, Math.max(1, x1 - x0 - ratio), height);
    drawn.rects++;
    reached = x1;
    const text = model.names[layers.name[index]] ?? "", room = Math.floor((x1 - x0 - 6 * ratio) / (6 * ratio));
    if (room < 2) continue;
    context.fillStyle = colours.text;
    context.fillText(text.length <= room ? text : room < 4 ? "" : "…" + text.slice(1 - room), left + (x0 + x1) / 2, y + height / 2);
  }
}

// ---- memory, data, steps, names -------------------------------------------------------------------------------------

// Each pixel column is as high as the most that was alive in it.
function paintMemory(context, model, worker, place, most) {
  const { left, y, width, height, from, to, scale, ratio } = place, { time, bytes } = model.memory[worker];
  context.fillStyle = colours.lane;
  context.fillRect(left, y, width, height);
  const first = after(time, from), last = after(time, to), columns = new Float64Array(width);
  const stop = Math.min(width, Math.ceil((model.to - from) * scale));
  let alive = first > 0 ? bytes[first - 1] : 0, x = 0;
  for (let i = first; i <= last; i++) {
    const at = i < last ? Math.min(stop - 1, Math.floor((time[i] - from) * scale)) : stop - 1;
    for (; x <= at; x++) columns[x] = Math.max(columns[x], alive);
    x = Math.max(0, at);
    if (i < last && x < width) columns[x] = Math.max(columns[x], alive = bytes[i]);
  }
  const rise = (value) => Math.round((value / most) * (height - 2 * ratio));
  context.fillStyle = colours.memory;
  context.beginPath();
  context.moveTo(left, y + height);
  for (let c = 0; c < width; c++) {
    if (c > 0 && columns[c] === columns[c - 1]) continue;
    if (c > 0) context.lineTo(left + c, y + height - rise(columns[c - 1]));
    context.lineTo(left + c, y + height - rise(columns[c]));
  }
  context.lineTo(left + width, y + height - rise(columns[width - 1]));
  context.lineTo(left + width, y + height);
  context.fill();
  drawn.rects++;
  const planned = model.workers[worker].planned;
  if (!planned) return;
  context.strokeStyle = colours.edge;
  context.lineWidth = ratio;
  context.setLineDash([4 * ratio, 3 * ratio]);
  context.beginPath();
  const level = y + height - rise(planned) - 0.5;
  context.moveTo(left, level);
  context.lineTo(left + width, level);
  context.stroke();
  context.setLineDash([]);
}

// When the trainer waited for a mini-batch: a track of its own, and a tint over all workers.
function paintData(context, model, track, place, bottom) {
  const { left, y, width, height, from, to, scale } = place, { start, end } = model.data;
  context.fillStyle = colours.lane;
  context.fillRect(left, y, width, height);
  for (let i = after(end, from); i < start.length && start[i] < to; i++) {
    const x0 = Math.max(0, Math.floor((start[i] - from) * scale)), x1 = Math.min(width, Math.ceil((end[i] - from) * scale));
    context.fillStyle = colours["idle-data"];
    context.fillRect(left + x0, y, Math.max(1, x1 - x0), height);
    context.globalAlpha = 0.12;
    context.fillRect(left + x0, y + height, Math.max(1, x1 - x0), bottom - y - height);
    context.globalAlpha = 1;
    drawn.rects += 2;
  }
}

// Where steps begin and end; the lines of the chosen one are darker, and above the others.
function paintSteps(context, model, place, bottom) {
  const { left, width, from, to, scale, ratio } = place, { start, end } = model.steps;
  context.lineWidth = ratio;
  const line = (time, colour, strength) => {
    const x = Math.round((time - from) * scale);
    if (x < 0 || x > width) return;
    context.strokeStyle = colour;
    context.globalAlpha = strength;
    context.beginPath();
    context.moveTo(left + x + 0.5, 0);
    context.lineTo(left + x + 0.5, bottom);
    context.stroke();
  };
  let before = -Infinity;
  for (let i = after(end, from); i < start.length && start[i] <= to; i++)
    for (const time of i === model.step ? [] : [start[i], end[i]])
      if ((time - before) * scale >= 3) line(before = time, colours.edge, 0.35);
  if (model.step >= 0) [start[model.step], end[model.step]].forEach((time) => line(time, colours.text, 0.55));
  context.globalAlpha = 1;
}

function fit(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && context.measureText(text.slice(0, length) + "…").width > room) length--;
  return text.slice(0, length) + "…";
}

function stagesText(stages) {
  if (!stages.length) return "";
  return `stage${stages.length > 1 ? "s" : ""} ${stages.join(", ")}`;
}

function paintNames(context, model, plan, ratio) {
  const room = (GUTTER - 14) * ratio;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const block of plan.blocks) {
    const worker = model.workers[block.worker], mine = plan.tracks.filter((track) => track.worker === block.worker);
    const first = mine[0], small = `${11 * ratio}px ${FONT}`;
    context.fillStyle = colours.text;
    context.font = plan.isCompact ? small : `600 ${12.5 * ratio}px ${FONT}`;
    const middle = (first.y + (plan.isCompact ? first.height / 2 + 2 : 8)) * ratio;
    context.fillText(fit(context, worker.name, room), 2 * ratio, middle);
    if (plan.isCompact) continue;
    context.fillStyle = colours.muted;
    context.font = small;
    context.fillText(fit(context, stagesText(worker.stages), room), 2 * ratio, middle + 15 * ratio);
    const memory = mine.find((track) => track.kind === "memory");
    if (!memory) continue;
    const peak = model.memory[block.worker].bytes.reduce((a, b) => Math.max(a, b), 0);
    context.fillText(fit(context, `memory ≤ ${bytesText(peak)}`, room), 2 * ratio, (memory.y + memory.height / 2 + 1) * ratio);
  }
  const data = plan.tracks.find((track) => track.kind === "data");
  if (!data) return;
  context.fillStyle = colours.muted;
  context.font = `${11 * ratio}px ${FONT}`;
  context.fillText("waits for data", 2 * ratio, (data.y + data.height / 2 + 1) * ratio);
}

// Draws one timeline. view: {from, to} in ms from the start of the chosen step.
function paintTimeline(canvas, model, plan, view, most) {
  const ratio = canvas.width / canvas.clientWidth || 1, context = canvas.getContext("2d", { alpha: false });
  const left = Math.round(GUTTER * ratio), width = Math.max(1, canvas.width - left - Math.round(RIGHT * ratio));
  const base = baseOf(model), from = base + view.from, to = base + view.to, scale = width / (to - from);
  context.fillStyle = colours.page;
  context.fillRect(0, 0, canvas.width, canvas.height);
  const placeOf = (track) => ({ left, width, from, to, scale, ratio, y: Math.round(track.y * ratio), height: Math.round(track.height * ratio) });
  for (const track of plan.tracks) {
    const place = placeOf(track);
    if (track.kind === "memory") paintMemory(context, model, track.worker, place, most[track.worker]);
    else if (track.kind === "data") paintData(context, model, track, place, canvas.height);
    else {
      context.fillStyle = colours.lane;
      context.fillRect(left, place.y, width, place.height);
      if (!track.row) continue;
      const wide = paintRow(context, model, track.row, place);
      if (track.kind !== "compute") continue;
      paintLabels(context, model, track.row, wide, place, plan.hasLayers);
      if (plan.hasLayers && track.row.lane === 0) paintLayers(context, model, track.worker, place);
    }
  }
  paintSteps(context, model, placeOf({ y: 0, height: 0 }), canvas.height);
  paintNames(context, model, plan, ratio);
}

// The common time axis. Zero is the start of each timeline's chosen step.
function paintAxis(canvas, view) {
  const ratio = canvas.width / canvas.clientWidth || 1, context = canvas.getContext("2d", { alpha: false });
  const left = GUTTER * ratio, width = canvas.width - left - RIGHT * ratio, length = view.to - view.from;
  context.fillStyle = colours.page;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.font = `${11.5 * ratio}px ${FONT}`;
  context.textBaseline = "middle";
  const distance = niceStep(length / Math.max(2, width / ratio / 110));
  const marks = [];
  for (let i = Math.ceil(view.from / distance - 1e-9); i * distance <= view.to * (1 + 1e-12); i++) marks.push(i * distance);
  context.strokeStyle = colours.edge;
  context.lineWidth = ratio;
  for (const mark of marks) {
    const x = Math.round(left + ((mark - view.from) / length) * width) + 0.5;
    context.beginPath();
    context.moveTo(x, canvas.height - 7 * ratio);
    context.lineTo(x, canvas.height);
    context.stroke();
    const text = markText(mark, distance), half = context.measureText(text).width / 2;
    context.textAlign = x - half < left ? "left" : x + half > canvas.width ? "right" : "center";
    context.fillStyle = colours.text;
    context.fillText(text, context.textAlign === "left" ? Math.max(x, left) : Math.min(x, canvas.width - 1), 10 * ratio);
  }
  context.textAlign = "left";
  context.fillStyle = colours.muted;
  context.fillText("time in the step", 2 * ratio, 10 * ratio);
}

// All steps of a timeline as boxes, and what part of them is in view.
function paintStrip(canvas, model, view) {
  const ratio = canvas.width / canvas.clientWidth || 1, context = canvas.getContext("2d", { alpha: false });
  const left = GUTTER * ratio, width = canvas.width - left - RIGHT * ratio, { start, end, number } = model.steps;
  const scale = width / (model.to - model.from), height = canvas.height, top = 3 * ratio, tall = height - 6 * ratio;
  context.fillStyle = colours.page;
  context.fillRect(0, 0, canvas.width, height);
  context.font = `${11 * ratio}px ${FONT}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillStyle = colours.muted;
  context.fillText("all steps", 2 * ratio, height / 2);
  context.fillStyle = colours.lane;
  context.fillRect(left, top, width, tall);
  context.textAlign = "center";
  let reached = -1;
  for (let i = 0; i < start.length; i++) {
    const x0 = (start[i] - model.from) * scale, x1 = (end[i] - model.from) * scale;
    if (x1 < reached && i !== model.step) continue;
    reached = x0 + 1;
    const fill = i === model.step ? colours.link : colours.memory;
    context.fillStyle = fill;
    context.fillRect(left + x0, top, Math.max(1, x1 - x0 - ratio), tall);
    const text = String(number[i]);
    if (context.measureText(text).width + 6 * ratio > x1 - x0) continue;
    context.fillStyle = inkOn(fill);
    context.fillText(text, left + (x0 + x1) / 2, height / 2 + 0.5);
  }
  const base = baseOf(model), x0 = Math.max(0, (base + view.from - model.from) * scale), x1 = Math.min(width, (base + view.to - model.from) * scale);
  context.strokeStyle = colours.text;
  context.lineWidth = 1.5 * ratio;
  if (x1 > x0) context.strokeRect(left + x0, ratio, Math.max(2, x1 - x0), height - 2 * ratio);
}

// ---- arrows ---------------------------------------------------------------------------------------------------------

function paintOutline(context, box, colour, ratio) {
  context.strokeStyle = colour;
  context.lineWidth = 2 * ratio;
  context.strokeRect(box.x - ratio / 2, box.y - ratio, Math.max(3 * ratio, box.width) + ratio, box.height + 2 * ratio);
}

// From the end of a dependency to the start of what waited for it. A send may last longer than its receive waits for it: of
// one that ended later, the arrow leaves from its start.
function paintArrow(context, from, to, colour, width, ratio) {
  const x0 = from.x + from.width <= to.x + ratio ? from.x + from.width : from.x, y0 = from.y + from.height / 2, x1 = to.x, y1 = to.y + to.height / 2;
  const away = Math.hypot(x1 - x0, y1 - y0), tip = Math.min(7 * ratio, Math.max(3 * ratio, away / 3));
  const bend = Math.min(80 * ratio, Math.max(10 * ratio, Math.abs(x1 - x0) / 2), away / 2);
  context.lineJoin = "round";
  for (const [pen, stroke] of [[width + 2.5, colours.page], [width, colour]]) { // a rim keeps the arrow visible on any colour
    context.strokeStyle = context.fillStyle = stroke;
    context.lineWidth = pen * ratio;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - tip * 0.8, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - tip, y1 - tip * 0.55);
    context.lineTo(x1 - tip, y1 + tip * 0.55);
    context.closePath();
    if (stroke === colours.page) context.stroke();
    else context.fill();
  }
}
