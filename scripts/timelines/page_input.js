// The page of timelines: mouse, keys, and the beginning. window.gpipe is for tests; see the end.

// ---- the mouse ------------------------------------------------------------------------------------------------------

function timeAt(canvas, clientX) {
  const box = canvas.getBoundingClientRect();
  return view.from + ((clientX - box.left - GUTTER) / (box.width - GUTTER - RIGHT)) * (view.to - view.from);
}

function trackAt(block, event) {
  const y = event.clientY - block.canvas.getBoundingClientRect().top;
  return block.plan.tracks.find((track) => y >= track.y - 1 && y < track.y + track.height + 1);
}

// The span under the mouse, or within three pixels of it.
function spanAt(block, event) {
  const track = trackAt(block, event);
  if (!track?.row) return -1;
  const slack = (3 * (view.to - view.from)) / Math.max(1, block.canvas.clientWidth - GUTTER - RIGHT);
  return track.row.at(baseOf(block.model) + timeAt(block.canvas, event.clientX), slack);
}

function memoryTip(block, track, time) {
  const { time: times, bytes } = block.model.memory[track.worker], index = after(times, time) - 1;
  const planned = block.model.workers[track.worker].planned, list = [["memory alive", bytesText(index >= 0 ? bytes[index] : 0)]];
  if (planned) list.push(["planned size", bytesText(planned)]);
  return [element("strong", {}, block.model.workers[track.worker].name), definitions(list)];
}

function hover(block, event) {
  const inside = event.clientX - block.canvas.getBoundingClientRect().left >= GUTTER;
  const id = inside ? spanAt(block, event) : -1, model = block.model, track = trackAt(block, event);
  const time = baseOf(model) + timeAt(block.canvas, event.clientX);
  hovered = id >= 0 ? { timeline: block.index, span: id } : null;
  cursor.hidden = !inside;
  cursor.style.top = `${axis.offsetTop}px`;
  cursor.style.left = `${event.clientX - host.getBoundingClientRect().left}px`;
  cursor.dataset.time = inside ? timeText(timeAt(block.canvas, event.clientX)) : "";
  block.canvas.style.cursor = id >= 0 ? "pointer" : inside ? "grab" : "default";
  if (id >= 0) {
    const layer = layerAt(model, id, time), list = facts(model, id);
    if (layer) list.push(["layer here", `${layer.name}: ${timeText(layer.length)}`]);
    showTip(event, [element("strong", {}, nameOf(model, id)), definitions(list)]);
  } else if (inside && track?.kind === "memory") showTip(event, memoryTip(block, track, time));
  else tip.hidden = true;
  schedule();
}

function leave() {
  hovered = null;
  tip.hidden = cursor.hidden = true;
  schedule();
}

function wheel(canvas, event) {
  if (event.clientX - canvas.getBoundingClientRect().left < GUTTER || event.ctrlKey && event.deltaY === 0) return;
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 30 : event.deltaMode === 2 ? 300 : 1;
  const right = (event.deltaX || (event.shiftKey ? event.deltaY : 0)) * unit, down = event.shiftKey ? 0 : event.deltaY * unit;
  if (Math.abs(right) > Math.abs(down)) pan(right / 1200);
  else zoom(Math.exp(Math.max(-1, Math.min(1, down / 400))), timeAt(canvas, event.clientX));
}

// A drag moves the view, and the page up and down. With Shift it chooses a part of the time.
function listen(block) {
  const { canvas, strip } = block;
  let press = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.clientX - canvas.getBoundingClientRect().left < GUTTER) return;
    press = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, scroll: scrollY, moved: false, time: timeAt(canvas, event.clientX), isRange: event.shiftKey };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!press) return hover(block, event);
    press.moved ||= Math.hypot(event.clientX - press.x, event.clientY - press.y) > 4;
    if (!press.moved) return;
    tip.hidden = true;
    if (press.isRange) return showRange(press, timeAt(canvas, event.clientX), event);
    canvas.style.cursor = "grabbing";
    cursor.hidden = true;
    const by = ((press.x - event.clientX) / (canvas.clientWidth - GUTTER - RIGHT)) * (press.to - press.from);
    show(press.from + by, press.to + by);
    scrollTo({ top: press.scroll + press.y - event.clientY, behavior: "instant" });
  });
  const release = (event) => {
    if (press && !press.moved && event.type === "pointerup") pin(block.index, spanAt(block, event));
    if (press?.moved && press.isRange && event.type === "pointerup") {
      const other = timeAt(canvas, event.clientX);
      show(Math.min(press.time, other), Math.max(press.time, other));
    }
    press = null;
    cursor.classList.remove("range");
    cursor.style.width = "";
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("dblclick", (event) => {
    const id = spanAt(block, event), base = baseOf(block.model);
    if (id < 0) return;
    const start = block.model.spans.start[id] - base, end = block.model.spans.end[id] - base, margin = (end - start) * 0.1;
    show(start - margin, end + margin);
  });
  canvas.addEventListener("wheel", (event) => {
    wheel(canvas, event);
    if (!press) hover(block, event);
  }, { passive: false });
  strip.addEventListener("click", (event) => {
    const box = strip.getBoundingClientRect(), { start, end } = block.model.steps;
    const time = block.model.from + ((event.clientX - box.left - GUTTER) / (box.width - GUTTER - RIGHT)) * (block.model.to - block.model.from);
    chooseStep(block.index, Math.min(after(end, time), start.length - 1));
  });
}

function showRange(press, time, event) {
  const box = host.getBoundingClientRect(), left = Math.min(press.x, event.clientX);
  cursor.hidden = false;
  cursor.style.top = `${axis.offsetTop}px`;
  cursor.classList.add("range");
  cursor.style.left = `${left - box.left}px`;
  cursor.style.width = `${Math.abs(event.clientX - press.x)}px`;
  cursor.dataset.time = timeText(Math.abs(time - press.time));
}

// ---- keys -----------------------------------------------------------------------------------------------------------

// The instruction before or after the pinned one on its track; without one, the first in view.
function stepInstruction(by) {
  const block = blocks[pinned?.timeline ?? Math.max(0, blocks.findIndex((it) => it.canvas === document.activeElement))];
  if (!block) return;
  const tracks = block.plan.tracks.filter((track) => track.row), model = block.model;
  const track = pinned ? tracks.find((it) => it.row.ids.includes(pinned.span)) : tracks[0];
  if (!track) return;
  const at = pinned ? track.row.ids.indexOf(pinned.span) + by : after(track.row.end, baseOf(model) + view.from);
  if (at >= 0 && at < track.row.ids.length) pin(block.index, track.row.ids[at]);
}

function followWait() {
  const waits = pinned ? waitsOf(models[pinned.timeline], pinned.span) : [];
  if (waits.length) pin(pinned.timeline, waits[0][0]);
}

const ACTIONS = {
  ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(1 / 1.5), "=": () => zoom(1 / 1.5), "-": () => zoom(1.5),
  "−": () => zoom(1.5), 0: showStep, Home: showStep, a: showAll, n: () => moveSteps(1), p: () => moveSteps(-1),
  ".": () => stepInstruction(1), ",": () => stepInstruction(-1), w: followWait, Escape: () => pin(-1, -1), "?": toggleHelp,
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (document.getElementById("help").open && event.key !== "?") return;
  const action = ACTIONS[event.key];
  if (!action || !models.length) return;
  event.preventDefault();
  leave(); // what the mouse is over may move, and its time with it
  action();
});

// ---- the beginning --------------------------------------------------------------------------------------------------

host.append(element("div", { className: "bar-top" }, legend(), toolbar()), axis, cursor);
models.forEach(addTimeline);
host.append(details, tip);
readTheme();
paintSwatches();
if (models.length) showStep();
addEventListener("resize", redraw);
addEventListener("scroll", schedule, { passive: true });
document.addEventListener("themechange", () => {
  readTheme();
  paintSwatches();
  redraw();
});

// For tests. state(): what is in view, hovered and pinned. drawn: what the last redraw did. place(timeline, span): where a
// span is drawn, in CSS pixels of the window. settled(): a promise that is kept after the next redraw.
window.gpipe = {
  models, drawn, show, pin, showStep, showAll,
  state: () => ({ from: view.from, to: view.to, steps: models.map((model) => model.step), hovered, pinned,
    tip: tip.hidden ? null : tip.innerText, details: details.hidden ? null : details.innerText }),
  place(timeline, span) {
    const block = blocks[timeline], box = boxOf(block, span), origin = block.canvas.getBoundingClientRect();
    const ratio = block.canvas.width / block.canvas.clientWidth;
    return box && { x: origin.left + box.x / ratio, y: origin.top + box.y / ratio, width: box.width / ratio, height: box.height / ratio };
  },
  settled: () => new Promise((resolve) => { waiting.push(resolve); schedule(); }),
};
