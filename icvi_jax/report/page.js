// Choosing a node, zooming, pointing; then the start.
function select(n, quiet) {
  const start = performance.now();
  chosen = Math.min(N - 1, Math.max(0, n));
  [from, to] = own(chosen);
  const share = meta.missing[chosen];
  $("who").textContent = N === 1 ? "The stream" : `${chosen + 1}. ${shortened(meta.nodes[chosen], 70)} — score ${neat(meta.score[chosen])}` + (share ? `, ${neat(100 * share)} % missing` : "");
  $("who").title = meta.nodes[chosen];
  if (meta.trust.length) showTrust(meta.trust[chosen][1], meta.trust[chosen][2]);
  const story = meta.stories[chosen];
  $("story").replaceChildren(...(story.length ? story : ["Nothing: no alarm was raised."]).map((s) => make("li", s)));
  explain(); drawNode();
  if (N > 1) {
    placeCursor();
    const top = chosen * rowHeight;
    if (top < box.scrollTop || top + rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 2;
  }
  if (!quiet) window.icvi.click = performance.now() - start;
}
// What the marks mean; those on the curves of columns are changes of these columns.
function explain() {
  const marks = Object.entries(ALARM).map(([code, [word, color]]) => [SIGN[code] + word, color]);
  for (const a of meta.alarms) {
    const columns = new Set();
    a.row.forEach((row, i) => { if (row === chosen && a.cause[i]) columns.add(meta.detail.features[a.cause[i] - 1].name); });
    if (columns.size) marks.push([`│▼ ${a.index === "stuck" ? "stuck:" : "change of"} ${[...columns].slice(0, 4).map((name) => shortened(name, 32)).join(", ")}${columns.size > 4 ? " …" : ""}`, ALARM[1][1]]);
  }
  if (meta.changes.length) marks.push(["┊ true change", ""]);
  $("legend").replaceChildren(...marks.map(([text, color]) => { const b = make("b", text); b.style.color = color; return b; }));
}
function nearest(e, canvas) {
  const r = canvas.getBoundingClientRect(), v = clock[from] + (e.clientX - r.left - LEFT) / (r.width - LEFT - RIGHT) * (clock[to] - clock[from]);
  let a = from, b = to;
  while (b - a > 1) { const m = (a + b) >> 1; if (clock[m] <= v) a = m; else b = m; }
  return v - clock[a] < clock[b] - v ? a : b;
}
function listen() {
  for (const c of curves) {
    let begin = null;
    c.canvas.onpointerdown = (e) => { begin = nearest(e, c.canvas); c.canvas.setPointerCapture(e.pointerId); };
    c.canvas.onpointermove = (e) => {
      const t = nearest(e, c.canvas), i = chosen * T + t;
      const rows = [stamp(t), ...meta.indices.map((s) => `${s.name}: ${neat(value(s, chosen, t))}`)];
      if (chosen < meta.detail.rows) rows.push(...meta.detail.features.slice(0, 8).map((s) => `${s.name}: ${neat(value(s, chosen, t))}`), `cluster ${labels[i] === 255 ? "–" : labels[i]} of ${ks[i]}`);
      tip((begin !== null && begin !== t ? `zoom ${stamp(Math.min(begin, t))} – ${stamp(Math.max(begin, t))}\n` : "") + rows.join("\n"), e);
    };
    c.canvas.onpointerup = (e) => {
      const end = nearest(e, c.canvas);
      if (begin !== null && Math.abs(end - begin) > 3) { [from, to] = [Math.min(begin, end), Math.max(begin, end)]; drawNode(); }
      begin = null;
    };
    c.canvas.onpointerleave = () => tip();
    c.canvas.ondblclick = () => { [from, to] = own(chosen); drawNode(); };
  }
  for (const id of ["mapbox", "story"]) fade($(id));
  map.onclick = (e) => select(mapRow(e));
  map.onpointermove = (e) => {
    const n = mapRow(e), t = mapStep(e), s = meta.indices[colour];
    tip(`${meta.nodes[n]}${meta.trust.length ? `: ${meta.trust[n][2]}` : ""}\n${stamp(t)}\n${s.name}: ${neat(value(s, n, t))}`, e);
  };
  map.onpointerleave = () => tip();
  box.onkeydown = (e) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[e.key];
    if (by) { e.preventDefault(); select(chosen + by); }
  };
  $("colour").onchange = (e) => { colour = e.target.selectedIndex; drawMap(); };
  $("scaling").onchange = (e) => { scaling = e.target.selectedIndex; drawMap(); };
  $("timing").selectedIndex = timing;
  $("timing").onchange = (e) => { timing = e.target.selectedIndex; drawMap(); };
  $("find").onchange = (e) => { const n = found(e.target.value); if (n >= 0) select(n); };
  let wait;
  addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(() => { if (N > 1) drawMap(); drawNode(); }, 120); });
}
// The node of a name; otherwise the first whose name begins with the text, or has it somewhere.
function found(text) {
  const names = meta.nodes.map((n) => n.toLowerCase()), part = text.trim().toLowerCase();
  const ways = [(n) => n === part, (n) => n.startsWith(part), (n) => n.includes(part)];
  const exact = meta.nodes.indexOf(text);
  return exact >= 0 || !part ? exact : ways.reduce((at, way) => at >= 0 ? at : names.findIndex(way), -1);
}
function write() {
  const span = dated ? `${fullTime(clock[0])} to ${fullTime(clock[T - 1])}` : `${T * meta.factor} samples`;
  const alarms = meta.happened, heard = meta.alarms.filter((a) => meta.indices.some((s) => s.name === a.index)), distressed = new Set(heard.flatMap((a) => [...a.spans.row])).size;
  $("lead").textContent = `${N > 1 ? `${N} ${meta.noun}s, ` : ""}${N > 1 && meta.noun === "node" ? meta.samples.toLocaleString("en") + " samples, " : ""}${span}. ${alarms ? alarms + (alarms === 1 ? " alarm" : " alarms") : "No alarm"}${N > 1 ? `; ${distressed === 1 ? `1 ${meta.noun} was` : `${distressed} ${meta.noun}s were`} in distress at some time` : ""}.`;
  for (const s of meta.indices) {
    $("colour").append(make("option", `${s.name} — ${s.title}`));
    const row = make("tr");
    row.append(make("td", s.name), make("td", s.goal === "min" ? "small" : "large"), make("td", s.title + ": " + s.meaning));
    $("meanings").tBodies[0].append(row);
  }
  $("names").append(...meta.nodes.slice(0, 5000).map((n) => { const o = make("option"); o.value = n; return o; }));
  for (const [word, text] of meta.settings) $("settings").append(make("dt", word), make("dd", text));
  const notes = [...meta.notes];
  if (meta.factor > 1) notes.push(`To keep this page small, curves show the worst of every ${meta.factor} samples; the table of readings has them all.`);
  if (N > meta.detail.rows) notes.push(`Readings and clusters are shown for the ${meta.detail.rows} worst ${meta.noun}s; index curves for all.`);
  if (meta.detail.features.length > MOST_FEATURES) notes.push(`Curves of the first ${MOST_FEATURES} of ${meta.detail.features.length} columns are drawn; the scatter plot offers all.`);
  if (meta.overflow) notes.push("More clusters were needed than there was room for: raise --capacity or --slots.");
  $("notes").append(...notes.map((n) => make("li", n)));
  if (meta.detail.features.length > 2) for (const which of [0, 1]) {
    const s = make("select");
    s.setAttribute("aria-label", which ? "vertical axis" : "horizontal axis");
    s.append(...meta.detail.features.map((f) => { const o = make("option", shortened(f.name, 40)); o.title = f.name; return o; }));
    s.selectedIndex = which ? py : px;
    s.onchange = () => { if (which) py = s.selectedIndex; else px = s.selectedIndex; drawScatter(); };
    $("axes").append(s);
  }
}
for (const e of document.querySelectorAll("[data-noun]")) e.textContent = e.textContent.replaceAll("node", meta.noun);
window.icvi = { meta, select, values: (name, n) => { const s = [...meta.indices, ...meta.detail.features].find((one) => one.name === name); return Array.from({ length: T }, (_, t) => value(s, n, t)); }, zoom: (a, b) => { from = a; to = b; drawNode(); }, state: () => ({ chosen, from, to }) };
write(); buildCurves();
if (N > 1) { $("fleet").hidden = false; drawMap(); }
select(0, true); listen();
window.icvi.drawn = performance.now() - began;
requestAnimationFrame(() => { window.icvi.ready = performance.now(); document.body.dataset.ready = "yes"; });
