// Curves of runs: one axis for all charts, over steps or time; smoothing, zoom, hover.
"use strict";
(() => {
  const { data, search, nearest, text, timeText, ticks, logTicks, tickText } = runData;
  const HEIGHT = 240, LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 22, NEAR = 7; // pixels
  const root = document.documentElement, box = document.getElementById("charts"), tip = document.getElementById("tip");
  const state = { axis: "step", window: data.window, view: null, hover: null, shown: data.runs.map(() => true), drag: null };
  const charts = [];

  const smoothed = (run, key) => runData.smoothed(run, key, state.window);
  const markX = (mark) => mark[state.axis];
  function extent() {
    let low = Infinity, high = -Infinity;
    data.runs.forEach((run, r) => {
      if (!state.shown[r]) return;
      const xs = run.x[state.axis], marks = [...run.evaluations, ...run.events].map(markX).filter((x) => x !== null);
      for (const x of [xs[0], xs[xs.length - 1], ...marks]) {
        if (x === undefined || x === null) continue;
        low = Math.min(low, x); high = Math.max(high, x);
      }
    });
    if (low > high) return [0, 1];
    return low === high ? [low - 0.5, high + 0.5] : [low, high];
  }
  const view = () => state.view || extent();

  const xText = (x) => (state.axis === "time" ? timeText(x) : `step ${x.toLocaleString("en")}`);

  // ---- drawing ----
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  let colours = {};
  function readColours() {
    colours = Object.fromEntries(["page", "text", "muted", "line", "lane", "edge"].map((name) => [name, css(`--${name}`)]));
    colours.runs = data.runs.map((_, r) => css(`--series-${(r % 8) + 1}`));
  }
  const value = (chart, v) => (v === null ? null : !chart.log ? v : v > 0 ? Math.log10(v) : null);

  // Calls `take(run, r, from, to)` for the rows of each shown run that are in view, with one on each side.
  function eachRun(chart, take) {
    const [low, high] = view();
    data.runs.forEach((run, r) => {
      if (!state.shown[r] || !run.curves[chart.key]) return;
      const xs = run.x[state.axis];
      take(run, r, Math.max(0, search(xs, low) - 1), Math.min(xs.length, search(xs, high) + 1));
    });
  }
  function evaluations(chart, r) {
    if (!chart.evaluated || !state.shown[r]) return [];
    return data.runs[r].evaluations.filter((one) => one[chart.key] !== null && markX(one) !== null);
  }
  function limits(chart) {
    let low = Infinity, high = -Infinity;
    const [from, to] = view();
    const take = (v) => {
      v = value(chart, v);
      if (v === null) return;
      if (v < low) low = v;
      if (v > high) high = v;
    };
    eachRun(chart, (run, r, begin, end) => {
      const { min, max } = run.curves[chart.key], xs = run.x[state.axis];
      for (let i = begin; i < end; i++) if (xs[i] >= from && xs[i] <= to) { take(min[i]); take(max[i]); }
    });
    data.runs.forEach((_, r) => evaluations(chart, r).forEach((one) => {
      if (markX(one) >= from && markX(one) <= to) take(one[chart.key]);
    }));
    if (low > high) return [0, 1];
    if (!chart.log && low >= 0 && low < 0.5 * high) low = 0;
    if (low === high) { const by = Math.abs(low) * 0.1 || 1; low -= by; high += by; }
    const room = 0.04 * (high - low);
    return [low === 0 && !chart.log ? 0 : low - room, high + room];
  }
  // One vertical line per pixel column from the smallest to the largest value, so that spikes stay.
  function band(chart, ctx, px, py, run, begin, end) {
    const { min, max } = run.curves[chart.key], xs = run.x[state.axis];
    let column = null, low = 0, high = 0, before = null;
    ctx.beginPath();
    const flush = () => {
      if (column === null) return;
      if (before === null) ctx.moveTo(column, py(low)); else ctx.lineTo(column, py(low));
      ctx.lineTo(column, py(high));
      before = column;
    };
    for (let i = begin; i < end; i++) {
      const a = value(chart, min[i]), b = value(chart, max[i]), at = Math.round(px(xs[i]));
      if (a === null && b === null) { flush(); column = before = null; continue; }
      const bottom = a === null ? b : a;
      if (at !== column) { flush(); column = at; low = bottom; high = b; } else { low = Math.min(low, bottom); high = Math.max(high, b); }
    }
    flush();
    ctx.stroke();
  }
  function line(chart, ctx, px, py, values, xs, begin, end) {
    const skip = Math.max(1, Math.floor((end - begin) / 4000));
    let drawn = 0, pen = false;
    ctx.beginPath();
    for (let i = begin; i < end; i += i + skip < end || i === end - 1 ? skip : end - 1 - i) {
      const v = value(chart, values[i]);
      if (v === null) { pen = false; continue; }
      if (pen) ctx.lineTo(px(xs[i]), py(v)); else ctx.moveTo(px(xs[i]), py(v));
      pen = true;
      drawn++;
    }
    ctx.stroke();
    return drawn;
  }
  function drawAxes(chart, ctx, width, px, py, from, to, low, high) {
    ctx.font = "11px system-ui, sans-serif";
    ctx.lineWidth = 1;
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    for (const v of chart.log ? logTicks(low, high) : ticks(low, high, 5)) {
      const y = Math.round(py(v)) + 0.5;
      ctx.strokeStyle = colours.lane; ctx.fillStyle = colours.muted;
      ctx.beginPath(); ctx.moveTo(LEFT, y); ctx.lineTo(width - RIGHT, y); ctx.stroke();
      ctx.fillText(tickText(chart.log ? 10 ** v : v), LEFT - 6, y);
    }
    ctx.textBaseline = "top";
    for (const x of ticks(from, to, Math.max(2, (width - LEFT) / 110))) {
      if (state.axis === "step" && !Number.isInteger(x)) continue;
      ctx.textAlign = px(x) > width - RIGHT - 30 ? "right" : "center";
      ctx.fillText(state.axis === "time" ? timeText(x) : x.toLocaleString("en"), Math.min(px(x), width - RIGHT), HEIGHT - BOTTOM + 6);
    }
    ctx.strokeStyle = colours.line;
    ctx.beginPath(); ctx.moveTo(LEFT, HEIGHT - BOTTOM + 0.5); ctx.lineTo(width - RIGHT, HEIGHT - BOTTOM + 0.5); ctx.stroke();
  }
  function drawMarks(chart, ctx, px, py) {
    data.runs.forEach((run, r) => {
      if (!state.shown[r]) return;
      ctx.strokeStyle = colours.runs[r];
      ctx.setLineDash([3, 3]);
      ctx.globalAlpha = 0.6;
      for (const event of run.events) {
        if (markX(event) === null || event.kind === "snapshot") continue;
        const x = Math.round(px(markX(event))) + 0.5;
        ctx.beginPath(); ctx.moveTo(x, TOP); ctx.lineTo(x, HEIGHT - BOTTOM); ctx.stroke();
      }
      ctx.setLineDash([]);
      ctx.globalAlpha = 1;
      ctx.fillStyle = colours.runs[r];
      for (const event of run.events) {
        if (event.kind !== "snapshot" || markX(event) === null) continue;
        ctx.fillRect(px(markX(event)) - 2, HEIGHT - BOTTOM - 4, 4, 4);
      }
      ctx.fillStyle = colours.page;
      ctx.lineWidth = 1.5;
      for (const one of evaluations(chart, r)) {
        const v = value(chart, one[chart.key]);
        if (v === null) continue;
        ctx.beginPath(); ctx.arc(px(markX(one)), py(v), 3, 0, 7); ctx.fill(); ctx.stroke();
      }
    });
  }
  function draw(chart) {
    const canvas = chart.canvas, width = canvas.clientWidth, ratio = devicePixelRatio || 1;
    if (width === 0) return;
    if (canvas.width !== Math.round(width * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(HEIGHT * ratio); }
    const ctx = canvas.getContext("2d"), [from, to] = view(), [low, high] = limits(chart);
    const px = (x) => LEFT + ((x - from) / (to - from)) * (width - LEFT - RIGHT);
    const py = (v) => HEIGHT - BOTTOM - ((v - low) / (high - low)) * (HEIGHT - BOTTOM - TOP);
    chart.px = px; chart.py = py; chart.points = 0;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, HEIGHT);
    drawAxes(chart, ctx, width, px, py, from, to, low, high);
    ctx.save();
    ctx.beginPath(); ctx.rect(LEFT, TOP - 4, width - LEFT - RIGHT + 4, HEIGHT - BOTTOM - TOP + 4); ctx.clip();
    eachRun(chart, (run, r, begin, end) => {
      ctx.strokeStyle = colours.runs[r];
      ctx.lineJoin = "round";
      ctx.globalAlpha = (chart.smooth && state.window > 1) || run.bucket > 1 ? 0.3 : 1;
      ctx.lineWidth = 1;
      band(chart, ctx, px, py, run, begin, end);
      ctx.globalAlpha = 1;
      ctx.lineWidth = 1.75;
      chart.points += line(chart, ctx, px, py, smoothed(run, chart.key), run.x[state.axis], begin, end);
    });
    drawMarks(chart, ctx, px, py);
    drawPointer(chart, ctx, width);
    ctx.restore();
  }
  function drawPointer(chart, ctx, width) {
    if (state.drag && state.drag.to !== null && !state.drag.moves) {
      const [a, b] = [state.drag.from, state.drag.to].map((x) => chart.px(x));
      ctx.fillStyle = colours.edge; ctx.globalAlpha = 0.25;
      ctx.fillRect(Math.min(a, b), TOP, Math.abs(b - a), HEIGHT - BOTTOM - TOP);
      ctx.globalAlpha = 1;
    } else if (state.hover) {
      const x = Math.round(Math.min(width, chart.px(state.hover.x))) + 0.5;
      ctx.strokeStyle = colours.edge; ctx.lineWidth = 1;
      ctx.beginPath(); ctx.moveTo(x, TOP); ctx.lineTo(x, HEIGHT - BOTTOM); ctx.stroke();
    }
  }
  let pending = false;
  function redraw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; charts.forEach(draw); });
  }

  // ---- hover ----
  function element(kind, className, content) {
    const one = document.createElement(kind);
    one.className = className;
    if (content !== undefined) one.textContent = content;
    return one;
  }
  function row(r, name, shown) {
    const one = element("div", "row");
    one.append(element("span", `swatch run-${(r % 8) + 1}`), element("span", "name", name), element("span", "value", shown));
    return one;
  }
  function stepsText(run, i) {
    const a = run.first[i], b = run.last[i];
    return a === b ? `step ${a.toLocaleString("en")}` : `steps ${a.toLocaleString("en")}–${b.toLocaleString("en")}`;
  }
  function valueText(chart, run, i) {
    const { mean, min, max } = run.curves[chart.key], unit = chart.unit ? ` ${chart.unit}` : "";
    const its = min[i] !== max[i] ? `${text(mean[i])}${unit} (${text(min[i])} to ${text(max[i])})` : text(mean[i]) + unit;
    const over = Math.max(1, Math.round(state.window / run.bucket)) * run.bucket;
    return chart.smooth && state.window > 1 && over > run.bucket ? `${its}; mean of ${over}: ${text(smoothed(run, chart.key)[i])}` : its;
  }
  function fillTip(chart, x) {
    tip.replaceChildren(element("div", "head", `${chart.title}, ${xText(x)}`));
    data.runs.forEach((run, r) => {
      if (!state.shown[r]) return;
      const xs = run.x[state.axis], i = xs.length ? nearest(xs, x) : -1, close = (at) => Math.abs(chart.px(at) - chart.px(x)) <= NEAR;
      if (i >= 0 && run.curves[chart.key] && (close(xs[i]) || (x >= xs[0] && x <= xs[xs.length - 1])))
        tip.append(row(r, `${run.name}, ${stepsText(run, i)}`, valueText(chart, run, i)));
      evaluations(chart, r).filter((one) => close(markX(one))).slice(0, 3).forEach((one) =>
        tip.append(row(r, `${run.name}, evaluation after step ${one.step.toLocaleString("en")}`, text(one[chart.key]))));
      run.events.filter((event) => markX(event) !== null && close(markX(event))).slice(0, 3).forEach((event) =>
        tip.append(row(r, `${run.name}, step ${event.step.toLocaleString("en")}: ${event.text}`, event.kind === event.text ? "" : event.kind)));
    });
  }
  function hover(chart, event) {
    const x = atPointer(chart, event), [from, to] = view();
    if (x < from || x > to) return leave();
    const runs = data.runs.filter((run, r) => state.shown[r] && run.x[state.axis].length);
    const candidates = runs.map((run) => run.x[state.axis][nearest(run.x[state.axis], x)]);
    data.runs.forEach((_, r) => evaluations(chart, r).forEach((one) => candidates.push(markX(one))));
    const inside = candidates.filter((at) => at >= from && at <= to);
    const at = inside.length ? inside.reduce((a, b) => (Math.abs(b - x) < Math.abs(a - x) ? b : a)) : x;
    state.hover = { x: at };
    fillTip(chart, at);
    tip.hidden = false;
    const left = event.pageX + 16 + tip.offsetWidth > scrollX + innerWidth ? event.pageX - tip.offsetWidth - 12 : event.pageX + 16;
    tip.style.left = `${Math.max(scrollX, left)}px`;
    tip.style.top = `${event.pageY + 14}px`;
    redraw();
  }
  function leave() {
    tip.hidden = true;
    if (state.hover) { state.hover = null; redraw(); }
  }

  // ---- zoom ----
  function atPointer(chart, event) {
    const [from, to] = view(), frame = chart.canvas.getBoundingClientRect();
    return from + ((event.clientX - frame.left - LEFT) / (frame.width - LEFT - RIGHT)) * (to - from);
  }
  function setView(from, to) {
    const [low, high] = extent(), least = state.axis === "step" ? 2 : (high - low) * 1e-7;
    if (to - from < least) { const middle = (from + to) / 2; from = middle - least / 2; to = middle + least / 2; }
    const span = Math.min(to - from, high - low);
    from = Math.max(low, Math.min(from, high - span));
    state.view = span >= high - low ? null : [from, from + span];
    redraw();
  }
  function zoom(factor, at) {
    const [from, to] = view(), middle = at ?? (from + to) / 2;
    setView(middle - (middle - from) * factor, middle + (to - middle) * factor);
  }
  function move(share) {
    const [from, to] = view();
    setView(from + share * (to - from), to + share * (to - from));
  }
  function listen(chart) {
    const canvas = chart.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      state.drag = { from: atPointer(chart, event), to: null, moves: event.shiftKey, view: view(), x: event.clientX };
      leave();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!state.drag) return hover(chart, event);
      if (Math.abs(event.clientX - state.drag.x) < 4 && state.drag.to === null) return;
      state.drag.to = atPointer(chart, event);
      if (state.drag.moves) {
        const [from, to] = state.drag.view, by = ((state.drag.x - event.clientX) / (canvas.clientWidth - LEFT - RIGHT)) * (to - from);
        setView(from + by, to + by);
      }
      redraw();
    });
    canvas.addEventListener("pointerup", () => {
      const drag = state.drag;
      state.drag = null;
      if (drag && drag.to !== null && !drag.moves) setView(Math.min(drag.from, drag.to), Math.max(drag.from, drag.to));
      redraw();
    });
    canvas.addEventListener("pointercancel", () => { state.drag = null; redraw(); });
    canvas.addEventListener("pointerleave", leave);
    canvas.addEventListener("dblclick", () => { state.view = null; redraw(); });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, atPointer(chart, event));
    }, { passive: false });
  }
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const acts = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => { state.view = null; redraw(); },
      ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2) };
    if (!acts[event.key]) return;
    acts[event.key]();
    leave();
    if (event.key.startsWith("Arrow")) event.preventDefault();
  });

  // ---- the page ----
  // The same part of the runs in the other unit: of the run with the most steps in view.
  function setAxis(axis) {
    if (axis === state.axis) return;
    const old = state.axis, seen = state.view;
    state.axis = axis;
    state.view = null;
    const run = data.runs.reduce((a, b) => (b.first.length > a.first.length ? b : a));
    if (seen && run.first.length > 1) {
      const [a, b] = seen.map((x) => nearest(run.x[old], x));
      setView(run.x[axis][a], run.x[axis][b]);
    }
    document.querySelectorAll("[data-axis]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.axis === axis)));
    leave();
    redraw();
  }
  // Positive values that differ by a factor of 100 and more: on a linear axis the small ones would all look alike.
  function isWide(key) {
    let low = Infinity, high = -Infinity;
    for (const run of data.runs) {
      if (!run.curves[key]) continue;
      for (const v of run.curves[key].min) if (v !== null && v < low) low = v;
      for (const v of run.curves[key].max) if (v !== null && v > high) high = v;
    }
    return low > 0 && high >= 100 * low;
  }
  function build(curve) {
    const has = data.runs.some((run) => run.curves[curve.key] || (curve.evaluated && run.evaluations.some((one) => one[curve.key] !== null)));
    if (!has) return;
    const figure = element("figure", "chart"), caption = element("figcaption", ""), log = element("button", "", "log");
    const chart = { ...curve, log: curve.key === "loss" && isWide(curve.key), canvas: element("canvas", "") };
    caption.append(element("span", "", curve.unit ? `${curve.title} [${curve.unit}]` : curve.title), log);
    log.type = "button";
    log.title = "logarithmic axis; values up to 0 are left out";
    log.setAttribute("aria-pressed", String(chart.log));
    log.addEventListener("click", () => {
      chart.log = !chart.log;
      log.setAttribute("aria-pressed", String(chart.log));
      redraw();
    });
    chart.canvas.tabIndex = 0;
    chart.canvas.setAttribute("role", "img");
    chart.canvas.setAttribute("aria-label", `${curve.title} of ${data.runs.map((run) => run.name).join(", ")}`);
    figure.id = `chart-${curve.key}`;
    figure.append(caption, chart.canvas);
    box.append(figure);
    charts.push(chart);
    listen(chart);
  }
  data.curves.forEach(build);
  document.querySelectorAll("[data-axis]").forEach((button) => button.addEventListener("click", () => setAxis(button.dataset.axis)));
  document.querySelectorAll("[data-run]").forEach((check) => check.addEventListener("change", () => {
    state.shown[Number(check.dataset.run)] = check.checked;
    redraw();
  }));
  document.getElementById("reset").addEventListener("click", () => { state.view = null; redraw(); });
  const select = document.getElementById("window");
  select.value = String(data.window);
  select.addEventListener("change", () => { state.window = Number(select.value); redraw(); });
  document.addEventListener("themechange", () => { readColours(); redraw(); });
  addEventListener("resize", redraw);
  readColours();
  charts.forEach(draw);

  // For tests: where a value is drawn, in pixels of the window.
  window.gpipeReport = {
    state, charts, view,
    place(key, x, v) {
      const chart = charts.find((one) => one.key === key), frame = chart.canvas.getBoundingClientRect();
      return { x: frame.left + chart.px(x), y: frame.top + (v === undefined ? HEIGHT / 2 : chart.py(value(chart, v))) };
    },
    smoothed: (r, key) => smoothed(data.runs[r], key),
  };
})();
