// One node: curves of its indices and columns, its clusters, a scatter plot.
const curves = [];
function buildCurves() {
  const add = (kind, s, height) => { const c = make("canvas"); c.setAttribute("role", "img"); $("curves").append(c); curves.push({ kind, s, height, canvas: c }); c.setAttribute("aria-label", s.name || kind); };
  for (const s of meta.indices) add("index", s, 160);
  for (const s of meta.detail.features.slice(0, MOST_FEATURES)) add("feature", s, 100);
  add("clusters", { name: "cluster" }, 92);
}
// A curve with its frame: what is drawn on, and where the samples are across.
function begun(c, low, high, ticks, name, width, last) {
  const [g, x, y] = frame({ canvas: c.canvas, height: c.height, low, high, ticks, name }, { from: clock[from], to: clock[to], dated, axis: meta.time.name }, width, last);
  return [g, (t) => x(clock[t]), y, x];
}
const stride = () => Math.max(1, Math.ceil((to - from) / 20000));
function drawNode() {
  const width = $("curves").clientWidth, known = chosen < meta.detail.rows;
  curves.forEach((c, i) => {
    const last = c === curves[curves.length - 1] || (!known && i === meta.indices.length - 1);
    c.canvas.hidden = c.kind !== "index" && !known;
    if (c.canvas.hidden) return;
    if (c.kind === "index") drawIndex(c, width, last);
    else if (c.kind === "feature") drawFeature(c, width, last);
    else drawClusters(c, width, last);
  });
  const scatter = known && meta.detail.features.length > 1;
  $("scatterbox").hidden = !scatter;
  if (scatter) drawScatter();
}
function drawIndex(c, width, last) {
  const s = c.s, get = series(s), [low, high] = bounds(get, from, to);
  const list = (s.log ? logTicks(low, high).map((v) => [v, neat(10 ** v)]) : labelled(ticks(low, high, 4)));
  const [g, x, y, across] = begun(c, low, high, list, `${s.name}${s.log ? " (logarithmic)" : ""}: ${s.goal === "min" ? "small" : "large"} is good`, width, last), alarms = meta.alarms.find((a) => a.index === s.name);
  if (alarms) {
    g.fillStyle = "#7A017722";
    for (let i = 0; i < alarms.spans.row.length; i++) if (alarms.spans.row[i] === chosen && alarms.spans.to[i] >= from && alarms.spans.from[i] <= to) {
      const a = x(Math.max(from, alarms.spans.from[i])), b = x(Math.min(to, alarms.spans.to[i]));
      g.fillRect(a, TOP, Math.max(1, b - a), c.height - TOP - BOTTOM);
    }
  }
  g.strokeStyle = "#9aa3ab"; g.setLineDash([3, 3]);
  for (const t of meta.changes) if (t >= from && t <= to) { g.beginPath(); g.moveTo(x(t), TOP); g.lineTo(x(t), c.height - BOTTOM); g.stroke(); }
  g.setLineDash([]);
  line(g, across, y, clock, get, from, to, s.gap, "#0072B2");
  let drawn = 0;
  if (alarms) for (let i = 0; i < alarms.row.length; i++) if (alarms.row[i] === chosen && alarms.at[i] >= from && alarms.at[i] <= to) {
    const v = get(alarms.at[i]);
    mark(g, x(alarms.at[i]), Math.max(TOP + 4, y(Number.isFinite(v) ? v : high)), alarms.code[i]); drawn++;
  }
  c.canvas.dataset.alarms = drawn;
}
function drawFeature(c, width, last) {
  const s = c.s, get = series(s), [low, high] = bounds(get, from, to);
  const [g, x, y, across] = begun(c, low, high, labelled(ticks(low, high, 4)), s.name, width, last);
  g.globalAlpha = 0.35; line(g, across, y, clock, get, from, to, s.gap, "#8a949d"); g.globalAlpha = 1;
  for (let t = from; t <= to; t += stride()) {
    const v = get(t), l = labels[chosen * T + t];
    if (!Number.isFinite(v)) continue;
    g.fillStyle = l === 255 ? "#aaa" : PALETTE[l % PALETTE.length];
    g.fillRect(x(t) - 1, y(v) - 1, 2.2, 2.2);
  }
  let drawn = 0;
  const column = 1 + meta.detail.features.indexOf(s);
  for (const a of meta.alarms) for (let i = 0; i < a.row.length; i++)
    if (a.row[i] === chosen && a.cause[i] === column && a.at[i] >= from && a.at[i] <= to) {
      const v = get(a.at[i]), here = x(a.at[i]);
      g.strokeStyle = "#D55E0099"; g.beginPath(); g.moveTo(here, TOP); g.lineTo(here, c.height - BOTTOM); g.stroke();
      mark(g, here, Math.max(TOP + 9, y(Number.isFinite(v) ? v : high)), a.code[i]); drawn++;
    }
  c.canvas.dataset.alarms = drawn;
}
function drawClusters(c, width, last) {
  let top = 1;  // names of clusters last, so they may be larger than their number
  for (let t = from; t <= to; t++) { const l = labels[chosen * T + t]; top = Math.max(top, ks[chosen * T + t], l === 255 ? 0 : l); }
  const [g, x, y, across] = begun(c, -0.6, top + 0.2, ticks(0, top, 3).filter(Number.isInteger).map((v) => [v, String(v)]), "cluster of each sample, and how many there are (line)", width, last);
  for (let t = from; t <= to; t += stride()) {
    const l = labels[chosen * T + t];
    if (l !== 255) { g.fillStyle = PALETTE[l % PALETTE.length]; g.fillRect(x(t) - 1, y(l) - 2, 2.2, 4); }
  }
  line(g, across, y, clock, (t) => ks[chosen * T + t] || NaN, from, to, usualGap(clock, (t) => ks[chosen * T + t]), "#555");
}
function drawScatter() {
  const [a, b] = [meta.detail.features[px], meta.detail.features[py]], size = 330, g = sized($("scatter"), size, size);
  const ga = series(a), gb = series(b), [l, h] = bounds(ga, from, to), [u, v] = bounds(gb, from, to);
  const X = (q) => 46 + (q - l) / (h - l) * (size - 56), Y = (q) => 8 + (v - q) / (v - u) * (size - 44);
  g.strokeStyle = "#e4e8ec"; g.fillStyle = "#5b6570"; g.textAlign = "center"; g.textBaseline = "top";
  for (const [q, label] of labelled(ticks(l, h, 4))) { g.beginPath(); g.moveTo(X(q), 8); g.lineTo(X(q), size - 36); g.stroke(); g.fillText(label, Math.min(X(q), size - 4 - g.measureText(label).width / 2), size - 32); }
  g.textAlign = "right"; g.textBaseline = "middle";
  for (const [q, label] of labelled(ticks(u, v, 5))) { g.beginPath(); g.moveTo(46, Y(q)); g.lineTo(size - 10, Y(q)); g.stroke(); g.fillText(label, 42, Y(q)); }
  g.globalAlpha = 0.55;
  for (let t = from; t <= to; t += stride()) {
    const i = labels[chosen * T + t]; g.fillStyle = i === 255 ? "#aaa" : PALETTE[i % PALETTE.length];
    g.fillRect(X(ga(t)) - 1.2, Y(gb(t)) - 1.2, 2.6, 2.6);
  }
  g.globalAlpha = 1;
  const shots = meta.detail.snapshots, K = meta.detail.slots, p = meta.detail.features.length;
  let snap = shots.findIndex((t) => t >= to); if (snap < 0) snap = shots.length - 1;
  for (let i = 0; i < K; i++) {
    const base = ((chosen * shots.length + snap) * K + i) * p, cx = X(a.low[chosen] + centers[base + px]), cy = Y(b.low[chosen] + centers[base + py]);
    if (!Number.isFinite(cx) || !Number.isFinite(cy) || cx < 46 || cx > size || cy < 0 || cy > size - 36) continue;
    for (const [w, color] of [[7, "#fff"], [4, "#1b1f24"]]) {  // slots have no colour: names of clusters outlive them
      g.strokeStyle = color; g.lineWidth = w; g.beginPath();
      g.moveTo(cx - 6, cy); g.lineTo(cx + 6, cy); g.moveTo(cx, cy - 6); g.lineTo(cx, cy + 6); g.stroke();
    }
  }
  g.lineWidth = 1; g.fillStyle = "#1b1f24"; g.textAlign = "center"; g.textBaseline = "bottom"; g.fillText(fitted(g, a.name, size - 60), size / 2, size - 4);
  g.save(); g.translate(7, size / 2); g.rotate(-Math.PI / 2); g.textBaseline = "middle"; g.fillText(fitted(g, b.name, size - 60), 0, 0); g.restore();
  $("scatterhint").textContent = `Crosses are the centres at ${stamp(Math.min(shots[snap], T - 1))}; points are those of the curves at the left.`;
}
