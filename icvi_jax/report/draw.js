"use strict";
// What the report and the live page share: elements, numbers, axes, curves, colours. Both load this file first.
const $ = (id) => document.getElementById(id);
function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function tip(text, event) {
  const box = $("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  box.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)) + "px";
  box.style.top = Math.max(4, Math.min(event.clientY + 16, innerHeight - box.offsetHeight - 8)) + "px";
}
// Colours that people with any kind of colour vision can distinguish: Okabe and Ito for clusters, cividis for the map.
const PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#000000"];
const ALARM = { 1: ["spike", "#D55E00"], 2: ["recovered", "#009E73"], 3: ["distress", "#7A0177"] };
const SIGN = { 1: "▼ ", 2: "▲ ", 3: "◆ " };
const CIVIDIS = ["00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838"]
  .map((h) => [0, 2, 4].map((i) => parseInt(h.slice(i, i + 2), 16)));
const LEVELS = 4094, INFINITE = 4095;
// Trust in the clusters of a node: a word, a colour, and a shape for those who do not see the colour.
const TRUST = { low: ["#c2185b", "▼"], medium: ["#b25000", "◆"], high: ["#00795a", "●"], unknown: ["#8a949d", "○"] };

function showTrust(word, text) {
  $("trust").hidden = false; $("trust").textContent = `${TRUST[word][1]} trust ${word}: ${text}`; $("trust").style.color = TRUST[word][0];
}

function shade(part) {
  const at = Math.min(Math.max(part, 0), 1) * (CIVIDIS.length - 1), i = Math.min(Math.floor(at), CIVIDIS.length - 2), f = at - i;
  return CIVIDIS[i].map((c, j) => Math.round(c + f * (CIVIDIS[i + 1][j] - c)));
}

function sized(canvas, width, height) {
  const dpr = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * dpr); canvas.height = Math.round(height * dpr);
  canvas.style.width = width + "px"; canvas.style.height = height + "px";
  const g = canvas.getContext("2d");
  g.setTransform(dpr, 0, 0, dpr, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = "11px system-ui, sans-serif";
  return g;
}

function neat(v) {
  if (v === Infinity) return "∞";
  if (!Number.isFinite(v)) return "–";
  const a = Math.abs(v);
  if (a !== 0 && (a >= 1e7 || a < 1e-3)) return v.toExponential(2).replace("e+", "e");
  return String(a >= 1e4 ? Math.round(v) : +v.toPrecision(4));
}

// Ticks with labels of as many digits as it takes to tell them apart.
function labelled(values) {
  const place = (v) => Math.floor(Math.log10(v) + 1e-9), most = Math.max(...values.map(Math.abs)), large = most >= 1e7 || most < 1e-3;
  const digits = values.length > 1 ? Math.min(13, place(most) - place(values[1] - values[0]) + 1) : 4;
  return values.map((v) => [v, v === 0 ? "0" : large ? v.toExponential(digits - 1).replace("e+", "e") : String(+v.toPrecision(digits))]);
}

// A text cut to so many pixels in its middle, since names often differ at the end.
function fitted(g, text, room) {
  const cut = (n) => n >= text.length ? text : text.slice(0, Math.ceil(n / 2)) + "…" + text.slice(text.length - Math.floor(n / 2));
  let low = 0, high = text.length;
  while (low < high) { const m = (low + high + 1) >> 1; if (g.measureText(cut(m)).width <= room) low = m; else high = m - 1; }
  return cut(low);
}

// The same by the number of characters, for text outside of a canvas; its element has the whole text as title.
const shortened = (text, most) => text.length <= most ? text : text.slice(0, Math.ceil((most - 1) / 2)) + "…" + text.slice(text.length - Math.floor((most - 1) / 2));

// Fade the end of a box while there is more below: scroll bars are often hidden.
function fade(box) {
  const look = () => box.classList.toggle("cut", box.scrollHeight - box.scrollTop - box.clientHeight > 4);
  box.addEventListener("scroll", look);
  new ResizeObserver(look).observe(box);
  new MutationObserver(look).observe(box, { childList: true, subtree: true, attributes: true });
  look();
}

function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw), out = [];
  for (let i = Math.ceil(low / step); i * step <= high + 1e-9 * step; i++) out.push(i * step);
  return out;
}

// Ticks of a logarithmic axis, low and high in powers of ten: decades, with 2 and 5 between where there is room.
function logTicks(low, high) {
  const out = [], wide = high - low, every = Math.max(1, Math.ceil(wide / 6));
  for (let d = Math.floor(low); d <= high; d++) {
    if (wide > 2 && ((d % every) + every) % every) continue;
    for (const m of wide <= 2 ? [1, 2, 5] : [1]) {
      const at = d + Math.log10(m);
      if (at >= low && at <= high) out.push(at);
    }
  }
  return out;
}

const SECOND = 1e3, MINUTE = 6e4, HOUR = 36e5, DAY = 864e5;
const STEPS = [1, 1e1, 1e2, SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
  DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 91 * DAY, 365 * DAY, 1826 * DAY, 3652 * DAY];

function when(ms, span, step) {
  const text = new Date(ms).toISOString();
  if (span > 3 * DAY && step >= DAY) return text.slice(0, 10);
  if (span > 3 * HOUR) return text.slice(5, 16).replace("T", " ");
  return span > 3 * MINUTE ? text.slice(11, 19) : text.slice(11, 23);
}

function fullTime(ms) {
  return new Date(ms).toISOString().slice(0, 19).replace("T", " ");
}

function timeTicks(low, high, dated, count) {
  if (!dated) return labelled(ticks(low, high, count));
  const step = STEPS.find((s) => s >= (high - low) / count) || STEPS[STEPS.length - 1], out = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) out.push([v, when(v, high - low, step)]);
  return out;
}

function mark(g, x, y, code) {
  g.fillStyle = ALARM[code][1]; g.strokeStyle = "#fff"; g.lineWidth = 1;
  g.beginPath();
  if (code === 1) { g.moveTo(x - 5, y - 9); g.lineTo(x + 5, y - 9); g.lineTo(x, y); }
  if (code === 2) { g.moveTo(x - 5, y + 9); g.lineTo(x + 5, y + 9); g.lineTo(x, y); }
  if (code === 3) { for (const [i, j] of [[-5, 0], [0, -5], [5, 0], [0, 5]]) g.lineTo(x + i, y + j); }
  g.closePath(); g.fill(); g.stroke();
}

// ---- curves ------------------------------------------------------------------------------------------------------------
const LEFT = 56, RIGHT = 10, TOP = 20, BOTTOM = 8;
// The frame of a curve: grid, labels, name. `c` has canvas, height, name, low, high, ticks [[value, label]]; `time` has from, to
// (times), dated and axis; `last` draws the labels of the time. Returns the context and the two scales.
function frame(c, time, width, last) {
  const g = sized(c.canvas, width, c.height + (last ? 30 : 0)), span = time.to - time.from || 1, room = c.height - TOP - BOTTOM;
  const y = (v) => TOP + (c.high - v) / (c.high - c.low || 1) * room, x = (v) => LEFT + (v - time.from) / span * (width - LEFT - RIGHT);
  g.strokeStyle = css("--grid"); g.fillStyle = css("--soft"); g.textAlign = "right"; g.textBaseline = "middle"; g.lineWidth = 1;
  for (const [v, label] of c.ticks) { g.beginPath(); g.moveTo(LEFT, y(v)); g.lineTo(width - RIGHT, y(v)); g.stroke(); g.fillText(label, LEFT - 5, y(v)); }
  g.textAlign = "center"; g.textBaseline = "top";
  for (const [v, label] of timeTicks(time.from, time.to, time.dated, Math.max(2, width / 130))) {
    g.beginPath(); g.moveTo(x(v), TOP); g.lineTo(x(v), c.height - BOTTOM); g.stroke();
    if (last) g.fillText(label, Math.min(Math.max(x(v), 34), width - 34), c.height - 4);
  }
  if (last) { g.textAlign = "right"; g.fillText(fitted(g, time.axis, width / 2), width - RIGHT, c.height + 12); }
  g.textAlign = "left"; g.textBaseline = "top"; g.fillStyle = css("--ink");
  g.fillText(fitted(g, c.name, width - LEFT - RIGHT), LEFT, 4);
  return [g, x, y];
}
// Of all values that fall on one column of pixels draw the first, lowest, highest and last: no peak is lost. After a time
// without samples that is longer than `gap` the curve is interrupted.
function line(g, x, y, clock, get, from, to, gap, color) {
  g.strokeStyle = color; g.lineWidth = 1.2; g.lineCap = "round"; g.beginPath();
  let column = NaN, low = 0, high = 0, final = NaN, before = NaN;
  const flush = () => { if (Number.isFinite(final)) { g.lineTo(column, y(low)); g.lineTo(column, y(high)); g.lineTo(column, y(final)); } };
  for (let t = from; t <= to; t++) {
    const v = get(t);
    if (v === null || !Number.isFinite(v)) continue;
    const at = Math.round(x(clock[t]) * 2) / 2;
    if (clock[t] - before > gap) { flush(); final = NaN; }
    before = clock[t];
    if (!Number.isFinite(final)) { g.moveTo(at, y(v)); column = at; low = high = v; }
    else if (at !== column) { flush(); g.lineTo(at, y(v)); column = at; low = high = v; }
    else { if (v < low) low = v; if (v > high) high = v; }
    final = v;
  }
  flush(); g.stroke();
}
function bounds(get, from, to) {
  let low = Infinity, high = -Infinity;
  for (let t = from; t <= to; t++) { const v = get(t); if (v !== null && Number.isFinite(v)) { if (v < low) low = v; if (v > high) high = v; } }
  if (low > high) return [0, 1];
  const pad = (high - low) * 0.06 || Math.abs(high) * 0.05 || 0.5;
  return [low - pad, high + pad];
}
// Eight times the usual time between two samples that have a value: after a longer one a curve is interrupted.
function usualGap(clock, has) {
  const steps = [];
  for (let t = 0, before = NaN; t < clock.length; t++) if (has(t)) { if (clock[t] > before) steps.push(clock[t] - before); before = clock[t]; }
  steps.sort((a, b) => a - b);
  return steps.length ? 8 * steps[steps.length >> 1] : Infinity;
}

// ---- colours -----------------------------------------------------------------------------------------------------------
const FEW = 20, NINES = 3;
// How unusual each value is for its node, 0 to 1: its rank among the values before it, on a scale where 90, 99 and 99.9 % are
// one, two and three thirds. `levels` are integers from 1 to LEVELS, 0 is missing, INFINITE the worst. Counts are in a Fenwick tree.
function unusual(levels, flip) {
  const tree = new Uint32Array(INFINITE + 2), out = new Float32Array(levels.length).fill(NaN);
  let n = 0;
  for (let t = 0; t < levels.length; t++) {
    const q = levels[t];
    if (!q) continue;
    const k = flip && q !== INFINITE ? LEVELS + 1 - q : q;
    let below = 0;
    for (let i = k - 1; i > 0; i -= i & -i) below += tree[i];
    out[t] = n < FEW ? 0 : Math.min(1, -Math.log10(1 - below / (n + 1)) / NINES);
    for (let i = k; i <= INFINITE; i += i & -i) tree[i]++;
    n++;
  }
  return out;
}
// Numbers as levels for `unusual`; null is missing.
function levelsOf(values) {
  const known = values.filter((v) => v !== null), low = Math.min(...known), span = Math.max(...known) - low || 1;
  return values.map((v) => v === null ? 0 : 1 + Math.round((v - low) / span * (LEVELS - 1)));
}
