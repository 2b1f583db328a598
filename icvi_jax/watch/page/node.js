// One node: its recent curves, clusters and alarms.
import { $, make, count, colour, ago, moment, tip } from "./parts.js";

const LEFT = 62, RIGHT = 10;
let shown = null, at = null;

const offset = (zone) => /^[+-]/.test(zone) ? (zone[0] === "-" ? -1 : 1) * (60 * +zone.slice(1, 3) + +zone.slice(4, 6)) * 60000 : 0;
function prepared(n) {
  const T = n.time.length, known = n.time.every((t) => t !== null), dated = known && T > 0 && n.time[0] > 3.2e8;
  const clock = n.time.map((t, i) => known ? (dated ? t * 1000 + offset(n.zone) : t) : n.seen - T + 1 + i);
  const titled = (name) => n.units[name] ? `${name} [${n.units[name]}]` : name;
  const curves = [
    ...Object.entries(n.indices).map(([name, values]) => ({ name, values, height: 120, color: "--curve", marks: true })),
    ...Object.entries(n.features).map(([name, values]) => ({ name: titled(name), values, height: 90, color: "--ink" })),
    { name: "cluster", values: n.label.map((v) => v < 0 ? null : v), height: 70, dots: true }];
  const axis = known ? (n.time_name || "time") + (dated ? ` (${n.zone || "UTC"})` : "") : "sample";
  return { ...n, clock, dated, curves, axis };
}
export function drawNode(node) {
  const n = shown = prepared(node), T = n.clock.length;
  $("who").textContent = n.name || "(no name)";
  $("mute").textContent = n.muted ? "Unmute" : "Mute";
  $("mute").title = "a muted node ranks last, and its alarms are not sent to receivers";
  const state = [n.standing && "in distress", n.silent && "silent", n.muted && "muted"].filter(Boolean).join(", ");
  const k = n.k.at(-1);
  $("about").textContent = `${state ? state + "; " : ""}score ${n.score === null ? "–" : neat(+n.score.toFixed(2))}; ${count(k ?? 0, "cluster", "clusters")}; heard ${ago(n.heard)}${n.heard >= 1.5 ? " ago" : ""}; ${count(n.seen, "sample", "samples")}, the last ${T} shown.`;
  curves();
  const said = n.events.slice().reverse().map((e) => { const li = make("li"); li.append(make("time", moment(e)), make("b", e.alarm, e.alarm), make("span", e.reason)); return li; });
  $("story").replaceChildren(...(said.length ? said : [make("li", "No alarm is on record.")]));
}
function curves() {
  const box = $("curves"), all = shown.curves;
  while (box.childElementCount > all.length) box.lastElementChild.remove();
  while (box.childElementCount < all.length) box.append(make("canvas"));
  all.forEach((c, i) => { box.children[i].setAttribute("aria-label", c.name); draw(box.children[i], c, box.clientWidth, i === all.length - 1); });
}
function reach(values) {
  const good = values.filter((v) => v !== null);
  const low = good.length ? Math.min(...good) : 0, high = good.length ? Math.max(...good) : 1;
  const pad = (high - low) * 0.06 || Math.abs(high) * 0.05 || 0.5;
  return [low - pad, high + pad];
}
const across = (width) => { const a = shown.clock[0] ?? 0, b = shown.clock.at(-1) ?? 1; return (t) => LEFT + (t - a) / (b - a || 1) * (width - LEFT - RIGHT); };
function draw(canvas, c, width, last) {
  const g = sized(canvas, width, c.height + (last ? 34 : 0)), [low, high] = reach(c.values), { clock, dated } = shown;
  const x = across(width), y = (v) => 8 + (high - v) / (high - low) * (c.height - 16), soft = colour("--soft");
  g.strokeStyle = colour("--grid"); g.fillStyle = soft; g.textAlign = "right"; g.textBaseline = "middle"; g.lineWidth = 1;
  for (const v of ticks(low, high, 4).filter((v) => !c.dots || Number.isInteger(v))) { g.beginPath(); g.moveTo(LEFT, y(v)); g.lineTo(width - RIGHT, y(v)); g.stroke(); g.fillText(neat(v), LEFT - 5, y(v)); }
  if (last && clock.length > 1) {
    g.textAlign = "center"; g.textBaseline = "top";
    for (const [v, text] of timeTicks(clock[0], clock.at(-1), dated, Math.max(2, width / 130))) g.fillText(text, Math.min(x(v), width - 34), c.height - 2);
    g.fillText(shown.axis, (LEFT + width) / 2, c.height + 15);
  }
  if (c.dots) c.values.forEach((v, i) => { if (v !== null) { g.fillStyle = PALETTE[v % PALETTE.length]; g.fillRect(x(clock[i]) - 1.5, y(v) - 1.5, 3, 3); } });
  else {
    g.strokeStyle = colour(c.color); g.lineWidth = 1.2; g.beginPath();
    let pen = false;
    c.values.forEach((v, i) => { if (v === null) pen = false; else if (pen) g.lineTo(x(clock[i]), y(v)); else { g.moveTo(x(clock[i]), y(v)); pen = true; } });
    g.stroke();
  }
  if (at !== null && clock[at] !== undefined) { g.strokeStyle = soft; g.lineWidth = 1; g.beginPath(); g.moveTo(x(clock[at]), 0); g.lineTo(x(clock[at]), c.height); g.stroke(); }
  g.font = "12px system-ui, sans-serif"; g.textAlign = "left"; g.textBaseline = "top";
  g.fillStyle = colour("--label"); g.fillRect(LEFT + 2, 0, g.measureText(c.name).width + 6, 15);
  g.fillStyle = colour("--ink"); g.fillText(c.name, LEFT + 5, 1);
  if (c.marks) shown.code.forEach((code, i) => { if (ALARM[code] && c.values[i] !== null) mark(g, x(clock[i]), y(c.values[i]), code); });
}

// ---- the pointer --------------------------------------------------------------------------------------------------------
function point(event) {
  const { clock, dated } = shown, box = $("curves"), x = across(box.clientWidth), here = event.clientX - box.getBoundingClientRect().left;
  at = clock.reduce((best, t, i) => Math.abs(x(t) - here) < Math.abs(x(clock[best]) - here) ? i : best, 0);
  if (clock[at] === undefined) return;
  const lines = shown.curves.map((c) => `${c.name}: ${c.values[at] === null ? "–" : neat(c.values[at])}`);
  tip([dated ? fullTime(clock[at]) : `${shown.axis} ${neat(clock[at])}`, ...lines, ...(ALARM[shown.code[at]] ? [ALARM[shown.code[at]][0]] : [])].join("\n"), event);
  curves();
}
$("curves").onmousemove = (event) => { if (shown) point(event); };
$("curves").onmouseleave = () => { at = null; tip(""); if (shown) curves(); };
