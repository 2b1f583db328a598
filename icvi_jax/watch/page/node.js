// One node: its recent curves, clusters and alarms.
import { count, ago, moment } from "./parts.js";

let shown = null, at = null;

const offset = (zone) => /^[+-]/.test(zone) ? (zone[0] === "-" ? -1 : 1) * (60 * +zone.slice(1, 3) + +zone.slice(4, 6)) * 60000 : 0;
function prepared(n) {
  const T = n.time.length, known = n.time.every((t) => t !== null), dated = known && T > 0 && n.time[0] > 3.2e8;
  const clock = n.time.map((t, i) => known ? (dated ? t * 1000 + offset(n.zone) : t) : n.seen - T + 1 + i);
  const titled = (name) => n.units[name] ? `${name} [${n.units[name]}]` : name;
  const curves = [
    ...Object.entries(n.indices).map(([name, values]) => ({ name, values, height: 120, color: "--curve", marks: true })),
    ...Object.entries(n.features).map(([name, values]) => ({ name: titled(name), column: name, values, height: 90, color: "--ink" })),
    { name: "cluster", values: n.label.map((v) => v < 0 ? null : v), height: 84, dots: true }];
  const axis = known ? (n.time_name || "time") + (dated ? ` (${n.zone || "UTC"})` : "") : "sample";
  return { ...n, clock, dated, curves, axis };
}
export function drawNode(node) {
  const n = shown = prepared(node), T = n.clock.length;
  $("who").textContent = shortened(n.name || "(no name)", 70); $("who").title = n.name;
  $("mute").textContent = n.muted ? "Unmute" : "Mute";
  $("mute").title = "a muted node ranks last, and its alarms are not sent to receivers";
  const state = { distress: "in distress; ", silent: "silent; ", muted: "muted; " }[n.state] || "";
  $("about").textContent = `${state}score ${n.score === null ? "–" : neat(+n.score.toFixed(2))}; ${count(n.k, "cluster", "clusters")}; heard ${ago(n.heard)}${n.heard >= 1.5 ? " ago" : ""}; ${count(n.seen, "sample", "samples")}, the last ${T} shown.`;
  $("trust").hidden = !n.trust;
  if (n.trust) showTrust(n.trust.word, n.trust.text);
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
const across = (width) => { const a = shown.clock[0] ?? 0, b = shown.clock.at(-1) ?? 1; return (t) => LEFT + (t - a) / (b - a || 1) * (width - LEFT - RIGHT); };
function draw(canvas, c, width, last) {
  const { clock, dated } = shown, T = clock.length, get = (i) => c.values[i], [low, high] = c.dots ? [-0.6, Math.max(1, ...c.values) + 0.4] : bounds(get, 0, T - 1);
  const list = labelled(ticks(low, high, 4).filter((v) => !c.dots || Number.isInteger(v)));
  const time = { from: clock[0] ?? 0, to: clock.at(-1) ?? 1, dated, axis: shown.axis };
  const [g, x, y] = frame({ canvas, height: c.height, name: c.name, low, high, ticks: list }, time, width, last);
  if (c.dots) c.values.forEach((v, i) => { if (v !== null) { g.fillStyle = PALETTE[v % PALETTE.length]; g.fillRect(x(clock[i]) - 1.5, y(v) - 1.5, 3, 3); } });
  else line(g, x, y, clock, get, 0, T - 1, usualGap(clock, (i) => get(i) !== null), css(c.color));
  if (at !== null && clock[at] !== undefined) { g.strokeStyle = css("--soft"); g.lineWidth = 1; g.beginPath(); g.moveTo(x(clock[at]), TOP); g.lineTo(x(clock[at]), c.height - BOTTOM); g.stroke(); }
  let drawn = 0;
  // An alarm of a column is marked on the curve of that column, one of an index on those of the indices.
  shown.code.forEach((code, i) => {
    if (!ALARM[code] || c.dots || (shown.cause[i] ? shown.cause[i] !== c.column : !c.marks)) return;
    if (shown.cause[i]) { g.strokeStyle = "#D55E0099"; g.beginPath(); g.moveTo(x(clock[i]), TOP); g.lineTo(x(clock[i]), c.height - BOTTOM); g.stroke(); }
    mark(g, x(clock[i]), Math.max(TOP + 9, y(c.values[i] ?? high)), code); drawn++;
  });
  canvas.dataset.alarms = drawn;
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
