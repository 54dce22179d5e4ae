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
