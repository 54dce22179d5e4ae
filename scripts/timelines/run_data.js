// Data of the curves, their means over windows, and numbers as text. run_page.js draws with it.
"use strict";
const runData = (() => {
  const data = JSON.parse(document.getElementById("data-curves").textContent);

  const list = (packed, count) => (Array.isArray(packed) ? packed : Array(count).fill(packed));
  const spread = (steps, by) =>
    Array.isArray(steps) ? steps : Array.from({ length: steps.count }, (_, i) => steps.from + i * by);
  data.runs.forEach((run) => {
    run.first = spread(run.first, run.bucket);
    run.last = run.last ? spread(run.last, run.bucket) : run.first;
    const count = run.first.length;
    run.x = { step: run.last, time: run.time };
    for (const curve of Object.values(run.curves))
      for (const name of ["mean", "min", "max"]) curve[name] = list(curve[name] ?? curve.mean, count);
    run.smooth = {};
  });

  // The mean of the last `window` steps, in whole rows; rows without a value do not count. A rate is not smoothed.
  function smoothed(run, key, window) {
    if (!data.curves.find((curve) => curve.key === key).smooth) return run.curves[key].mean;
    const name = `${key} ${window}`;
    if (run.smooth[name]) return run.smooth[name];
    const mean = run.curves[key].mean, rows = Math.max(1, Math.round(window / run.bucket));
    const out = new Array(mean.length);
    let sum = 0, known = 0, begin = 0;
    for (let i = 0; i < mean.length; i++) {
      if (mean[i] !== null) { sum += mean[i]; known++; }
      if (i - begin >= rows) {
        if (mean[begin] !== null) { sum -= mean[begin]; known--; }
        begin++;
      }
      if (rows > 1 && i % 4096 === 0) { // sums of differences drift: begin again
        sum = 0;
        for (let j = begin; j <= i; j++) if (mean[j] !== null) sum += mean[j];
      }
      out[i] = rows === 1 ? mean[i] : known > 0 && mean[i] !== null ? sum / known : null;
    }
    run.smooth = Object.fromEntries(Object.entries(run.smooth).slice(-24)); // only the newest stay
    return (run.smooth[name] = out);
  }
  // The first index whose x is at least `value`.
  function search(xs, value) {
    let low = 0, high = xs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (xs[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  }
  function nearest(xs, value) {
    const at = search(xs, value);
    if (at === xs.length) return at - 1;
    return at > 0 && value - xs[at - 1] <= xs[at] - value ? at - 1 : at;
  }
  // ---- numbers ----
  function text(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (value !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(4);
    return String(Number(value.toPrecision(6)));
  }
  function timeText(seconds) {
    if (seconds < 1) return `${Number((seconds * 1e3).toPrecision(4))} ms`;
    if (seconds < 120) return `${Number(seconds.toPrecision(4))} s`;
    const minutes = Math.floor(seconds / 60), rest = Math.round(seconds - 60 * minutes);
    return minutes < 120 ? `${minutes} min ${rest} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }
  function ticks(low, high, most) {
    const raw = (high - low) / Math.max(1, most);
    if (!(raw > 1e-290 && raw < 1e290) || Math.abs(low) > 1e12 * raw) return [low]; // doubles have no round values between
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5, 10].find((n) => n * power >= raw) || 10), out = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) out.push(Number((i * step).toPrecision(12)));
    return out;
  }
  function logTicks(low, high) {
    const out = [], first = Math.floor(low), last = Math.ceil(high), every = Math.max(1, Math.ceil((last - first) / 6));
    for (let e = first; e <= last; e += every)
      for (const n of every > 1 || last - first > 3 ? [1] : [1, 2, 5]) out.push(Math.log10(n) + e);
    return out.filter((v) => v >= low && v <= high);
  }
  const tickText = (v) =>
    v === 0 ? "0" : Math.abs(v) >= 1e6 || Math.abs(v) < 1e-3 ? v.toExponential(1).replace(".0e", "e") : String(Number(v.toPrecision(4)));

  return { data, smoothed, search, nearest, text, timeText, ticks, logTicks, tickText };
})();
