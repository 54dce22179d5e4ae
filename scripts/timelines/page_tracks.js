// Draws what is not an instruction: memory, data, steps, names, the axis, the strip, arrows.

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
