"use strict";
// Colours that people with any kind of colour vision can distinguish: Okabe and Ito for clusters, cividis for the map.
const PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#000000"];
const ALARM = { 1: ["spike", "#D55E00"], 2: ["recovered", "#009E73"], 3: ["distress", "#7A0177"] };
const CIVIDIS = ["00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838"]
  .map((h) => [0, 2, 4].map((i) => parseInt(h.slice(i, i + 2), 16)));
const LEVELS = 4094, INFINITE = 4095;

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
  return a !== 0 && (a >= 1e5 || a < 1e-3) ? v.toExponential(2).replace("e+", "e") : String(+v.toPrecision(4));
}

// A text cut to so many pixels in its middle, since names often differ at the end.
function fitted(g, text, room) {
  const cut = (n) => n >= text.length ? text : text.slice(0, Math.ceil(n / 2)) + "…" + text.slice(text.length - Math.floor(n / 2));
  let low = 0, high = text.length;
  while (low < high) { const m = (low + high + 1) >> 1; if (g.measureText(cut(m)).width <= room) low = m; else high = m - 1; }
  return cut(low);
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

function when(ms, span) {
  const text = new Date(ms).toISOString();
  if (span > 3 * DAY) return text.slice(0, 10);
  if (span > 3 * HOUR) return text.slice(5, 16).replace("T", " ");
  return span > 3 * MINUTE ? text.slice(11, 19) : text.slice(11, 23);
}

function fullTime(ms) {
  return new Date(ms).toISOString().slice(0, 19).replace("T", " ");
}

function timeTicks(low, high, dated, count) {
  if (!dated) return ticks(low, high, count).map((v) => [v, neat(v)]);
  const step = STEPS.find((s) => s >= (high - low) / count) || STEPS[STEPS.length - 1], out = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) out.push([v, when(v, high - low)]);
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
