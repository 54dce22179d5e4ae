// The page of timelines: what is in view, the document, and the numbers of a span. page_input.js has mouse and keys.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const embedded = JSON.parse(document.getElementById("data-timelines").textContent);
const KINDS = embedded.kinds;
const models = embedded.timelines.map(readTimeline);
const isCompact = models.reduce((sum, model) => sum + model.workers.length, 0) > ROOMY_WORKERS;
// The top of the memory track of each worker: the same in all timelines, so that they can be compared.
const most = [];
models.forEach((model) => model.memory.forEach((it, w) => {
  const peak = it.bytes.reduce((a, b) => Math.max(a, b), it.time.length ? model.workers[w].planned : 0);
  most[w] = Math.max(most[w] ?? 1, peak);
}));
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const view = { from: 0, to: 1 };
let hovered = null, pinned = null; // {timeline, span}
let wanted = false; // a redraw is on its way
const waiting = []; // who waits for it

const element = (tag, properties = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name, value);
  node.append(...children);
  return node;
};

// ---- the view -------------------------------------------------------------------------------------------------------

function limits() {
  return [Math.min(...models.map((m) => m.from - baseOf(m))), Math.max(...models.map((m) => m.to - baseOf(m)))];
}

// Shows a part of the time axis: inside the timelines, and not less than a nanosecond or a billionth of them.
function show(from, to) {
  const [low, high] = limits(), margin = (high - low) * 0.02;
  const length = Math.min(Math.max(to - from, (high - low) * 1e-9), high - low + 2 * margin);
  const middle = (from + to) / 2;
  view.from = Math.min(Math.max(middle - length / 2, low - margin), high + margin - length);
  view.to = view.from + length;
  redraw();
}

function zoom(factor, at = (view.from + view.to) / 2) {
  show(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

function pan(part) {
  const by = (view.to - view.from) * part;
  show(view.from + by, view.to + by);
}

// The chosen steps, the longest of which fills the axis.
function showStep() {
  const longest = Math.max(...models.map(stepLength));
  show(-0.01 * longest, 1.015 * longest);
}

function showAll() {
  show(...limits());
}

function chooseStep(timeline, step) {
  const model = models[timeline];
  if (step < 0 || step >= model.steps.start.length || step === model.step) return;
  model.step = step;
  blocks[timeline].select.value = String(step);
  redraw();
}

function moveSteps(by, only = -1) {
  models.forEach((model, i) => {
    if (only < 0 || only === i) chooseStep(i, Math.min(Math.max(model.step + by, 0), model.steps.start.length - 1));
  });
}

// ---- the document ---------------------------------------------------------------------------------------------------

const host = document.getElementById("timelines"), blocks = [];
const axis = element("canvas", { className: "axis", role: "img", ariaLabel: "time axis" });
const cursor = element("div", { className: "cursor", hidden: true });
const tip = element("div", { className: "tip", hidden: true, role: "tooltip" });
const details = element("div", { className: "details", hidden: true, role: "region", ariaLabel: "the chosen instruction", ariaLive: "polite" });

function button(text, title, action) {
  const node = element("button", { type: "button", title, ariaLabel: title }, text);
  node.addEventListener("click", action);
  return node;
}

function swatch(kind, index) {
  const canvas = element("canvas", { className: "swatch", width: 28, height: 28 });
  canvas.dataset.kind = index;
  return canvas;
}

function paintSwatches() {
  document.querySelectorAll("canvas.swatch[data-kind]").forEach((canvas) => {
    const kind = Number(canvas.dataset.kind), context = canvas.getContext("2d"), isCopy = KINDS[kind].class === "c";
    context.clearRect(0, 0, 28, 28);
    for (const fill of [fillOf(kind, 1), hatch(context, kind, 2)]) {
      if (!fill) continue;
      context.fillStyle = fill;
      context.fillRect(0, isCopy ? 9 : 0, 28, isCopy ? 10 : 28);
    }
  });
}

function legend() {
  const used = new Set(), list = element("ul", { className: "legend" });
  models.forEach(({ spans }) => spans.kind.forEach((kind, i) => spans.end[i] > spans.start[i] && used.add(kind)));
  KINDS.forEach((kind, index) => {
    if (!used.has(index)) return;
    const words = kind.letter ? `${kind.words} (${kind.letter})` : kind.words;
    list.append(element("li", {}, swatch(kind, index), words));
  });
  const extra = (name, words) => list.append(element("li", {}, element("span", { className: `swatch ${name}` }), words));
  if (models.some((m) => m.workers.some((w) => w.stages.length > 1))) list.append(element("li", { className: "muted" }, "paler: a worker's later stage"));
  if (models.some((m) => m.data.start.length)) extra("data", "waits for data");
  if (models.some((m) => m.memory.some((it) => it.time.length)))
    extra("memory", models.some((m) => m.workers.some((w) => w.planned)) ? "memory alive, dashed: planned (each worker's own scale)" : "memory alive (each worker's own scale)");
  return list;
}

function toolbar() {
  const bar = element("div", { className: "toolbar", role: "toolbar", ariaLabel: "view" },
    button("−", "zoom out (−)", () => zoom(1.5)), button("+", "zoom in (+)", () => zoom(1 / 1.5)),
    button("Step", "show the whole step (0)", showStep), button("All", "show all steps (a)", showAll));
  if (models.some((model) => model.steps.start.length > 1))
    bar.append(button("◀", "the step before (p)", () => moveSteps(-1)), button("▶", "the next step (n)", () => moveSteps(1)));
  bar.append(button("?", "mouse and keys (?)", toggleHelp));
  return bar;
}

function stepChoice(model, index) {
  const select = element("select", { ariaLabel: `step of ${model.name}` });
  const isPlan = model.source === "plan" || model.source === "simulation";
  model.steps.number.forEach((number, i) =>
    select.append(element("option", { value: String(i) }, `${isPlan ? "predicted step" : `step ${number}`}: ${timeText(model.steps.end[i] - model.steps.start[i])}`)));
  select.value = String(model.step);
  select.hidden = !model.steps.number.length;
  select.addEventListener("change", () => chooseStep(index, Number(select.value)));
  return select;
}

function describe(model) {
  const workers = model.workers.length, steps = model.steps.number.length;
  return `Timeline of ${model.name}: ${workers} worker${workers === 1 ? "" : "s"}, ${steps} step${steps === 1 ? "" : "s"}, ` +
    `${model.spans.count.toLocaleString("en-US")} spans. The tables below have its numbers.`;
}

function addTimeline(model, index) {
  const plan = layout(model, isCompact), select = stepChoice(model, index);
  const canvas = element("canvas", { className: "tracks", role: "application", ariaLabel: describe(model), tabIndex: 0 });
  const overlay = element("canvas", { className: "overlay", ariaHidden: "true" });
  const strip = element("canvas", { className: "strip", role: "img", ariaLabel: `all steps of ${model.name}; a click chooses one` });
  strip.hidden = model.steps.number.length < 2;
  canvas.style.height = overlay.style.height = `${plan.height}px`;
  const remarks = [...model.remarks];
  if (model.workers.length > MOST_WORKERS) remarks.push(`Only workers 0 to ${MOST_WORKERS - 1} of ${model.workers.length} are drawn.`);
  if (!model.spans.count) remarks.push("This timeline has no spans.");
  const head = element("div", { className: "head" }, element("h3", {}, models.length > 1 ? `${LETTERS[index] ?? index + 1}  ${model.name}` : model.name), element("span", { className: "tag" }, model.source), select);
  const area = element("div", { className: "area" }, canvas, overlay);
  const block = element("div", { className: "timeline" }, head, ...remarks.map((text) => element("p", { className: "note" }, text)), strip, area);
  host.append(block);
  blocks.push({ plan, canvas, overlay, strip, select, model, index, isStale: true });
  listen(blocks[index]);
}

function toggleHelp() {
  const help = document.getElementById("help");
  if (help.open) help.close();
  else help.showModal();
}

// ---- drawing --------------------------------------------------------------------------------------------------------

function resize(canvas) {
  const width = Math.round(canvas.clientWidth * devicePixelRatio), height = Math.round(canvas.clientHeight * devicePixelRatio);
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
}

function isNear(canvas) {
  const box = canvas.getBoundingClientRect();
  return box.bottom > -300 && box.top < innerHeight + 300;
}

function redraw() {
  blocks.forEach((block) => { block.isStale = true; });
  schedule();
}

function schedule() {
  if (wanted) return;
  wanted = true;
  requestAnimationFrame(paint);
}

// Timelines that are far from the window wait until it is scrolled to them.
function paint() {
  const began = performance.now();
  wanted = false;
  const isStale = blocks.some((block) => block.isStale && isNear(block.canvas));
  if (isStale) {
    Object.assign(drawn, { redraws: drawn.redraws + 1, spans: 0, examined: 0, rects: 0, labels: 0 });
    resize(axis);
    paintAxis(axis, view);
  }
  for (const block of blocks) {
    if (!block.isStale || !isNear(block.canvas)) continue;
    for (const canvas of [block.canvas, block.overlay, block.strip]) if (!canvas.hidden) resize(canvas);
    paintTimeline(block.canvas, block.model, block.plan, view, most);
    if (!block.strip.hidden) paintStrip(block.strip, block.model, view);
    block.isStale = false;
  }
  paintMarks();
  if (isStale) drawn.ms = performance.now() - began;
  drawn.firstMs ??= performance.now();
  waiting.splice(0).forEach((resolve) => resolve());
}

// Where a span is drawn on its canvas, in device pixels; null if its worker is not drawn.
function boxOf(block, id) {
  const { model, plan, canvas } = block, spans = model.spans, ratio = canvas.width / canvas.clientWidth || 1;
  const track = plan.tracks.find((it) => it.row && it.worker === spans.worker[id] && it.row.lane === spans.lane[id] && it.row.isCopy === Boolean(spans.copy[id]));
  if (!track) return null;
  const left = GUTTER * ratio, width = canvas.width - left - RIGHT * ratio, scale = width / (view.to - view.from), base = baseOf(model);
  const x0 = left + (spans.start[id] - base - view.from) * scale, x1 = left + (spans.end[id] - base - view.from) * scale;
  return { x: x0, width: x1 - x0, y: track.y * ratio, height: track.height * ratio };
}

// Outlines and arrows of the instruction under the mouse and of the pinned one.
function paintMarks() {
  for (const block of blocks) {
    const context = block.overlay.getContext("2d"), ratio = block.overlay.width / block.overlay.clientWidth || 1;
    context.clearRect(0, 0, block.overlay.width, block.overlay.height);
    context.save();
    context.beginPath();
    context.rect(GUTTER * ratio, 0, block.overlay.width - (GUTTER + RIGHT) * ratio, block.overlay.height);
    context.clip();
    if (pinned?.timeline === block.index) paintWaits(context, block, pinned.span, ratio);
    if (hovered?.timeline === block.index) {
      const box = boxOf(block, hovered.span);
      if (box) paintOutline(context, box, colours.text, ratio);
    }
    context.restore();
  }
}

function paintWaits(context, block, id, ratio) {
  const { arrows, spans } = block.model, own = boxOf(block, id);
  if (!own) return;
  const draw = (target, head, depth) => waitsOf(block.model, target).forEach(([other], index) => {
    const from = boxOf(block, other);
    if (!from) return;
    paintOutline(context, from, colours.muted, ratio);
    // A copy is short, and what it waited for is of more interest: the arrow goes on, or passes by a copy that is hardly seen.
    const isCopy = spans.copy[other] && depth < 4, isSeen = from.width >= 12 * ratio;
    const isPassed = isCopy && !isSeen && waitsOf(block.model, other).length > 0;
    if (!isPassed) {
      paintArrow(context, from, head, colours.text, index === 0 ? 2 : 1.2, ratio);
      drawn.arrows++;
    }
    if (isCopy) draw(other, isPassed ? head : from, depth + 1);
  });
  drawn.arrows = 0;
  draw(id, own, 0);
  for (const other of arrows?.users(id) ?? []) {
    const box = boxOf(block, other);
    if (box) paintOutline(context, box, colours.edge, ratio);
  }
  paintOutline(context, own, colours.link, ratio);
}

// ---- numbers of a span ----------------------------------------------------------------------------------------------

// What a span waited for, as [id, end], the last to end first: it held the span up.
function waitsOf(model, id) {
  return (model.arrows?.of(id) ?? []).map((other) => [other, model.spans.end[other]]).sort((a, b) => b[1] - a[1]);
}

function facts(model, id) {
  const s = model.spans, length = s.end[id] - s.start[id], worker = model.workers[s.worker[id]], list = [];
  const step = s.step[id], base = step >= 0 ? model.steps.start[step] : model.from;
  const add = (name, value) => list.push([name, value]);
  add("kind", KINDS[s.kind[id]].words);
  add("worker", worker.lanes.length > 1 ? `${worker.name}, ${worker.lanes[s.lane[id]] ?? ""}` : worker.name);
  if (s.stage[id] >= 0) add("stage", String(s.stage[id]));
  if (s.micro[id] >= 0) add("micro-batch", String(s.micro[id]));
  add("step", step >= 0 ? String(model.steps.number[step]) : "none");
  add(step >= 0 ? "start in the step" : "start", timeText(s.start[id] - base));
  add("length", timeText(length));
  if (s.predicted[id] >= 0) {
    const expected = s.predicted[id] * model.quantum;
    add("predicted length", expected > 0 ? `${timeText(expected)} (${threeDigits(length / expected)}×)` : timeText(expected));
    add("predicted start", timeText(s.predictedStart[id] * model.quantum));
  }
  if (s.bytes[id] > 0) add("bytes", `${bytesText(s.bytes[id])} (${s.bytes[id].toLocaleString("en-US")})`);
  if (s.issued[id] > 0) add("issued", `${timeText(s.issued[id] * model.quantum)} before its start`);
  if (s.pc[id] >= 0) add("pc", String(s.pc[id]));
  const detail = model.details[s.detail[id]];
  if (detail) add("detail", detail);
  return list;
}

// The layer that an instruction computes at a time.
function layerAt(model, id, time) {
  const layers = model.layers?.[model.spans.worker[id]];
  if (!layers) return null;
  const index = after(layers.end, time);
  if (index >= layers.start.length || layers.start[index] > time || layers.start[index] < model.spans.start[id]) return null;
  return { name: model.names[layers.name[index]], length: layers.end[index] - layers.start[index] };
}

// The layers inside an instruction, the longest first.
function layersOf(model, id) {
  const layers = model.layers?.[model.spans.worker[id]], list = [];
  if (!layers) return list;
  for (let i = after(layers.end, model.spans.start[id]); i < layers.start.length && layers.end[i] <= model.spans.end[id] + model.quantum; i++)
    list.push([model.names[layers.name[i]], layers.end[i] - layers.start[i]]);
  return list.sort((a, b) => b[1] - a[1]);
}

function definitions(list) {
  return element("dl", {}, ...list.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function nameOf(model, id) {
  return model.names[model.spans.name[id]] || KINDS[model.spans.kind[id]].words;
}

function showTip(event, lines) {
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), x = event.clientX + 16, y = event.clientY + 18;
  tip.style.left = `${x + box.width > innerWidth - 8 ? Math.max(8, event.clientX - box.width - 12) : x}px`;
  tip.style.top = `${y + box.height > innerHeight - 8 ? Math.max(8, event.clientY - box.height - 12) : y}px`;
}

function showDetails() {
  details.hidden = !pinned;
  if (!pinned) return;
  const model = models[pinned.timeline], id = pinned.span;
  const waits = waitsOf(model, id).map(([other, end]) => {
    const start = model.spans.start[id], gap = start - end;
    const when = gap >= 0 ? `ended ${timeText(gap)} before the start`
      : `began ${timeText(start - model.spans.start[other])} before the start, and ended ${timeText(-gap)} after it`;
    const link = button(nameOf(model, other), "pin this instruction", () => pin(pinned.timeline, other));
    return element("li", {}, link, ` on ${model.workers[model.spans.worker[other]].name}, ${when}`);
  });
  const layers = layersOf(model, id).slice(0, 6).map(([name, length]) => element("li", {}, `${name}: ${timeText(length)}`));
  const close = button("×", "close (Escape)", () => pin(-1, -1));
  close.className = "close";
  details.replaceChildren(close,
    element("div", {}, element("h3", {}, nameOf(model, id)), element("span", { className: "muted" }, model.name)),
    definitions(facts(model, id)),
    ...(waits.length ? [element("div", {}, element("h4", {}, "Waited for"), element("ul", {}, ...waits))]
      : model.arrows ? [element("div", { className: "muted" }, "Waited for no other instruction.")] : []),
    ...(layers.length ? [element("div", {}, element("h4", {}, "Longest layers"), element("ul", {}, ...layers))] : []));
}

function pin(timeline, span) {
  pinned = span >= 0 ? { timeline, span } : null;
  if (pinned) {
    const s = models[timeline].spans, base = baseOf(models[timeline]), start = s.start[span] - base, end = s.end[span] - base;
    if (end < view.from || start > view.to) show(start - (view.to - view.from) / 2, start + (view.to - view.from) / 2);
  }
  showDetails();
  if (!pinned) drawn.arrows = 0;
  schedule();
}
