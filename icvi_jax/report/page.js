(async function () {
  const began = performance.now(), $ = (id) => document.getElementById(id);
  const meta = JSON.parse($("meta").textContent);
  const make = (tag, text) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; return e; };

  async function unpack() {
    const text = atob($("block").textContent.trim()), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    $("block").textContent = "";
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
  }
  if (!window.DecompressionStream) { $("lead").textContent = "This report needs a browser from 2023 or later."; return; }
  const buffer = await unpack();
  const TYPES = { uint8: Uint8Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array };
  const view = (p) => new TYPES[p.type](buffer, p.at, p.length);
  const T = meta.steps, N = meta.nodes.length, clock = view(meta.time.data), dated = meta.time.kind === "date";
  for (const s of [...meta.indices, ...meta.detail.features]) { s.high_ = view(s.data.high); s.low_ = view(s.data.low); }
  const level = (s, i) => (s.high_[i] << 4) | s.low_[i];
  const scaled = (s, q) => q === 0 ? NaN : q === INFINITE ? Infinity : s.low + (q - 1) / (LEVELS - 1) * (s.high - s.low);
  // All values of a series of the chosen node, taken apart once; curves are drawn from them at every zoom.
  const series = (s) => {
    if (s.node !== chosen) {
      s.node = chosen; s.cache = new Float64Array(T);
      for (let t = 0; t < T; t++) s.cache[t] = scaled(s, level(s, chosen * T + t));
    }
    const cache = s.cache;
    return (t) => cache[t];
  };
  const value = (s, i) => { const v = scaled(s, level(s, i)); return s.log ? 10 ** v : v; };
  const labels = view(meta.detail.label), ks = view(meta.detail.k), centers = view(meta.detail.centers);
  for (const a of meta.alarms) {
    for (const key of ["row", "at", "code", "cause"]) a[key] = view(a[key]);
    for (const key of ["row", "from", "to"]) a.spans[key] = view(a.spans[key]);
  }
  let chosen = 0, from = 0, to = Math.max(1, T - 1), colour = 0, px = 0, py = Math.min(1, meta.detail.features.length - 1);
  // The first sample at or after a time, and how long nothing may come before a curve is interrupted.
  const at = (v) => { let a = 0, b = T; while (a < b) { const m = (a + b) >> 1; if (clock[m] < v) a = m + 1; else b = m; } return a; };
  const steps = Array.from({ length: T - 1 }, (_, t) => clock[t + 1] - clock[t]).filter((v) => v > 0).sort((a, b) => a - b);
  const GAP = steps.length ? 8 * steps[steps.length >> 1] : Infinity, MOST_FEATURES = 60;
  const stamp = (t) => dated ? fullTime(clock[t]) : (meta.time.kind === "sample" ? "sample " : meta.time.name + " ") + neat(clock[t]);

  // ---- the heat map -------------------------------------------------------------------------------------------------
  const map = $("map"), box = $("mapbox"), GUTTER = N <= 60 ? 190 : 0;
  const rowHeight = Math.max(2, Math.min(20, Math.floor(440 / N)));
  function drawMap() {
    const s = meta.indices[colour], width = box.clientWidth, plot = Math.max(50, width - GUTTER), g = sized(map, width, N * rowHeight);
    const cols = Math.min(T, Math.round(plot * (window.devicePixelRatio || 1))), picture = new ImageData(cols, N), out = new Uint32Array(picture.data.buffer);
    // Colours span the middle 98 % of the levels, so that one wild node does not wash out the rest.
    const count = new Uint32Array(INFINITE + 1), every = Math.max(1, Math.floor(N * T / 200000));
    for (let i = 0; i < N * T; i += every) count[level(s, i)]++;
    let total = 0; for (let q = 1; q <= LEVELS; q++) total += count[q];
    let lo = 1, hi = LEVELS, sum = 0;
    for (let q = 1; q <= LEVELS; q++) { sum += count[q]; if (sum <= total * 0.01) lo = q; if (sum <= total * 0.99) hi = q + 1; }
    hi = Math.max(hi, lo + 1);
    const table = new Uint32Array(INFINITE + 1), flip = s.goal === "max";
    for (let q = 1; q <= INFINITE; q++) {
      const part = q === INFINITE ? 1 : (q - lo) / (hi - lo), [r, gr, b] = shade(flip ? 1 - part : part);
      table[q] = (255 << 24) | (b << 16) | (gr << 8) | r;
    }
    table[0] = (255 << 24) | (235 << 16) | (232 << 8) | 230;
    // Columns are of equal time, like the curves below: where nothing came for long, the map has a gap too.
    const span = clock[T - 1] - clock[0] || 1, first = Array.from({ length: cols + 1 }, (_, c) => c === cols ? T : at(clock[0] + c / cols * span));
    for (let n = 0; n < N; n++) for (let c = 0; c < cols; c++) {
      const a = first[c], b = first[c + 1];
      let worst = 0;
      if (a === b && a > 0 && clock[0] + c / cols * span - clock[a - 1] < GAP) worst = level(s, n * T + a - 1);
      for (let t = a; t < b; t++) { const q = level(s, n * T + t); if (q && (!worst || (flip ? q < worst : q > worst))) worst = q; }
      out[n * cols + c] = table[worst];
    }
    const sheet = make("canvas"); sheet.width = cols; sheet.height = N; sheet.getContext("2d").putImageData(picture, 0, 0);
    g.imageSmoothingEnabled = false;
    g.drawImage(sheet, GUTTER, 0, plot, N * rowHeight);
    const alarms = meta.alarms.find((a) => a.index === s.name);
    if (alarms) {
      g.fillStyle = "#ff2d95";
      for (let i = 0; i < alarms.row.length; i++) if (alarms.code[i] === 3)
        g.fillRect(GUTTER + (clock[alarms.at[i]] - clock[0]) / span * plot - 1, alarms.row[i] * rowHeight, 3, rowHeight);
    }
    const axis = sized($("mapaxis"), width, 36), across = (v) => GUTTER + (v - clock[0]) / span * plot;
    axis.fillStyle = "#5b6570"; axis.textAlign = "center"; axis.textBaseline = "top";
    for (const [v, text] of timeTicks(clock[0], clock[T - 1], dated, Math.max(2, plot / 130)))
      axis.fillText(text, Math.min(Math.max(across(v), 34), width - 34), 5);
    axis.textAlign = "right"; axis.fillText(meta.time.name, width - 4, 20);
    if (GUTTER) {
      g.fillStyle = "#1b1f24"; g.textBaseline = "middle"; g.textAlign = "right";
      for (let n = 0; n < N; n++) if (rowHeight >= 9) g.fillText(fitted(g, meta.nodes[n], GUTTER - 10), GUTTER - 6, (n + 0.5) * rowHeight);
    }
    const stops = Array.from({ length: 10 }, (_, i) => `rgb(${shade(flip ? 1 - i / 9 : i / 9)})`), scale = $("scale"), strip = make("i");
    strip.style.background = `linear-gradient(to right, ${stops})`;
    const edge = (q) => neat(s.log ? 10 ** scaled(s, q) : scaled(s, q)), pink = make("span", "▮ distress begins");
    pink.style.color = "#d6006c";
    scale.replaceChildren(make("span", edge(lo)), strip, make("span", edge(hi)), make("span", "dark is good, yellow is bad"), ...(alarms ? [pink] : []));
  }
  function placeCursor() {
    const c = $("cursor");
    c.style.top = chosen * rowHeight - 2 + "px"; c.style.height = rowHeight + 4 + "px";
  }
  const mapRow = (e) => Math.min(N - 1, Math.max(0, Math.floor((e.clientY - map.getBoundingClientRect().top) / rowHeight)));
  const mapStep = (e) => {
    const r = map.getBoundingClientRect();
    return Math.min(T - 1, Math.max(0, at(clock[0] + (e.clientX - r.left - GUTTER) / (r.width - GUTTER) * (clock[T - 1] - clock[0]))));
  };

  // ---- one node -----------------------------------------------------------------------------------------------------
  const LEFT = 50, RIGHT = 10, TOP = 20, BOTTOM = 8, curves = [];
  function buildCurves() {
    const add = (kind, s, height) => { const c = make("canvas"); c.setAttribute("role", "img"); $("curves").append(c); curves.push({ kind, s, height, canvas: c }); c.setAttribute("aria-label", s.name || kind); };
    for (const s of meta.indices) add("index", s, 160);
    for (const s of meta.detail.features.slice(0, MOST_FEATURES)) add("feature", s, 100);
    add("clusters", { name: "cluster" }, 92);
  }
  const stretch = (w) => (t) => LEFT + (clock[t] - clock[from]) / (clock[to] - clock[from] || 1) * (w - LEFT - RIGHT);
  function frame(c, low, high, tickList, text, width, last) {
    const g = sized(c.canvas, width, c.height + (last ? 20 : 0)), y = (v) => TOP + (high - v) / (high - low || 1) * (c.height - TOP - BOTTOM);
    g.strokeStyle = "#e4e8ec"; g.fillStyle = "#5b6570"; g.textAlign = "right"; g.textBaseline = "middle"; g.lineWidth = 1;
    for (const [v, label] of tickList) {
      g.beginPath(); g.moveTo(LEFT, y(v)); g.lineTo(width - RIGHT, y(v)); g.stroke(); g.fillText(label, LEFT - 5, y(v));
    }
    g.textAlign = "center"; g.textBaseline = "top";
    const x = (v) => LEFT + (v - clock[from]) / (clock[to] - clock[from] || 1) * (width - LEFT - RIGHT);
    for (const [v, label] of timeTicks(clock[from], clock[to], dated, Math.max(2, width / 130))) {
      g.beginPath(); g.moveTo(x(v), TOP); g.lineTo(x(v), c.height - BOTTOM); g.stroke();
      if (last) g.fillText(label, Math.min(x(v), width - 34), c.height - 4);
    }
    if (last) { g.textAlign = "right"; g.fillText(meta.time.name, width - RIGHT, c.height + 8); }
    g.textAlign = "left"; g.textBaseline = "top"; g.fillStyle = "#1b1f24";
    g.fillText(fitted(g, text, width - LEFT - RIGHT), LEFT, 4);
    return [g, y];
  }
  // Of all values that fall on one column of pixels draw the first, lowest, highest and last: no peak is lost.
  function line(g, x, y, get, color) {
    g.strokeStyle = color; g.lineWidth = 1.2; g.lineCap = "round"; g.beginPath();
    let column = NaN, low = 0, high = 0, final = NaN;
    const flush = () => { if (Number.isFinite(final)) { g.lineTo(column, y(low)); g.lineTo(column, y(high)); g.lineTo(column, y(final)); } };
    for (let t = from; t <= to; t++) {
      const v = get(t), at = Math.round(x(t) * 2) / 2;
      if (!Number.isFinite(v)) { flush(); final = NaN; continue; }
      if (t > from && clock[t] - clock[t - 1] > GAP) { flush(); final = NaN; }
      if (!Number.isFinite(final)) { g.moveTo(at, y(v)); column = at; low = high = v; }
      else if (at !== column) { flush(); g.lineTo(at, y(v)); column = at; low = high = v; }
      else { if (v < low) low = v; if (v > high) high = v; }
      final = v;
    }
    flush(); g.stroke();
  }
  const stride = () => Math.max(1, Math.ceil((to - from) / 20000));
  function bounds(get) {
    let low = Infinity, high = -Infinity;
    for (let t = from; t <= to; t++) { const v = get(t); if (Number.isFinite(v)) { if (v < low) low = v; if (v > high) high = v; } }
    if (low > high) return [0, 1];
    const pad = (high - low) * 0.06 || Math.abs(high) * 0.05 || 0.5;
    return [low - pad, high + pad];
  }
  function drawNode() {
    const width = $("curves").clientWidth, x = stretch(width), known = chosen < meta.detail.rows;
    curves.forEach((c, i) => {
      const last = c === curves[curves.length - 1] || (!known && i === meta.indices.length - 1);
      c.canvas.hidden = c.kind !== "index" && !known;
      if (c.canvas.hidden) return;
      if (c.kind === "index") drawIndex(c, width, x, last);
      else if (c.kind === "feature") drawFeature(c, width, x, last);
      else drawClusters(c, width, x, last);
    });
    $("scatterbox").hidden = !known;
    if (known) drawScatter();
  }
  function drawIndex(c, width, x, last) {
    const s = c.s, get = series(s), [low, high] = bounds(get);
    const list = (s.log ? logTicks(low, high).map((v) => [v, neat(10 ** v)]) : ticks(low, high, 4).map((v) => [v, neat(v)]));
    const [g, y] = frame(c, low, high, list, `${s.name}${s.log ? " (logarithmic)" : ""}: ${s.goal === "min" ? "small" : "large"} is good`, width, last), alarms = meta.alarms.find((a) => a.index === s.name);
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
    line(g, x, y, get, "#0072B2");
    let drawn = 0;
    if (alarms) for (let i = 0; i < alarms.row.length; i++) if (alarms.row[i] === chosen && alarms.at[i] >= from && alarms.at[i] <= to) {
      const v = get(alarms.at[i]);
      mark(g, x(alarms.at[i]), Math.max(TOP + 4, y(Number.isFinite(v) ? v : high)), alarms.code[i]); drawn++;
    }
    c.canvas.dataset.alarms = drawn;
  }
  function drawFeature(c, width, x, last) {
    const s = c.s, get = series(s), [low, high] = bounds(get);
    const [g, y] = frame(c, low, high, ticks(low, high, 4).map((v) => [v, neat(v)]), s.name, width, last);
    g.globalAlpha = 0.35; line(g, x, y, get, "#8a949d"); g.globalAlpha = 1;
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
        const v = get(a.at[i]), across = x(a.at[i]);
        g.strokeStyle = "#D55E0099"; g.beginPath(); g.moveTo(across, TOP); g.lineTo(across, c.height - BOTTOM); g.stroke();
        mark(g, across, Math.max(TOP + 9, y(Number.isFinite(v) ? v : high)), a.code[i]); drawn++;
      }
    c.canvas.dataset.alarms = drawn;
  }
  function drawClusters(c, width, x, last) {
    let top = 1;
    for (let t = from; t <= to; t++) top = Math.max(top, ks[chosen * T + t]);
    const [g, y] = frame(c, -0.6, top + 0.2, ticks(0, top, 3).filter(Number.isInteger).map((v) => [v, String(v)]), "cluster of each sample, and how many there are (line)", width, last);
    for (let t = from; t <= to; t += stride()) {
      const l = labels[chosen * T + t];
      if (l !== 255) { g.fillStyle = PALETTE[l % PALETTE.length]; g.fillRect(x(t) - 1, y(l) - 2, 2.2, 4); }
    }
    line(g, x, y, (t) => ks[chosen * T + t] || NaN, "#555");
  }
  function drawScatter() {
    const [a, b] = [meta.detail.features[px], meta.detail.features[py]], size = 330, g = sized($("scatter"), size, size);
    const ga = series(a), gb = series(b), [l, h] = bounds(ga), [u, v] = bounds(gb);
    const X = (q) => 46 + (q - l) / (h - l) * (size - 56), Y = (q) => 8 + (v - q) / (v - u) * (size - 44);
    g.strokeStyle = "#e4e8ec"; g.fillStyle = "#5b6570"; g.textAlign = "center"; g.textBaseline = "top";
    for (const q of ticks(l, h, 4)) { g.beginPath(); g.moveTo(X(q), 8); g.lineTo(X(q), size - 36); g.stroke(); g.fillText(neat(q), X(q), size - 32); }
    g.textAlign = "right"; g.textBaseline = "middle";
    for (const q of ticks(u, v, 5)) { g.beginPath(); g.moveTo(46, Y(q)); g.lineTo(size - 10, Y(q)); g.stroke(); g.fillText(neat(q), 42, Y(q)); }
    g.globalAlpha = 0.55;
    for (let t = from; t <= to; t += stride()) {
      const i = labels[chosen * T + t]; g.fillStyle = i === 255 ? "#aaa" : PALETTE[i % PALETTE.length];
      g.fillRect(X(ga(t)) - 1.2, Y(gb(t)) - 1.2, 2.6, 2.6);
    }
    g.globalAlpha = 1;
    const shots = meta.detail.snapshots, K = meta.detail.slots, p = meta.detail.features.length;
    let snap = shots.findIndex((t) => t >= to); if (snap < 0) snap = shots.length - 1;
    for (let i = 0; i < K; i++) {
      const base = ((chosen * shots.length + snap) * K + i) * p, cx = X(a.low + centers[base + px]), cy = Y(b.low + centers[base + py]);
      if (!Number.isFinite(cx) || !Number.isFinite(cy) || cx < 46 || cx > size || cy < 0 || cy > size - 36) continue;
      for (const [w, color] of [[7, "#fff"], [4.6, "#1b1f24"], [2, PALETTE[i % PALETTE.length]]]) {
        g.strokeStyle = color; g.lineWidth = w; g.beginPath();
        g.moveTo(cx - 6, cy); g.lineTo(cx + 6, cy); g.moveTo(cx, cy - 6); g.lineTo(cx, cy + 6); g.stroke();
      }
    }
    g.lineWidth = 1; g.fillStyle = "#1b1f24"; g.textAlign = "center"; g.textBaseline = "bottom"; g.fillText(fitted(g, a.name, size - 60), size / 2, size - 4);
    g.save(); g.translate(7, size / 2); g.rotate(-Math.PI / 2); g.textBaseline = "middle"; g.fillText(fitted(g, b.name, size - 60), 0, 0); g.restore();
    $("scatterhint").textContent = `Crosses are the centres at ${stamp(Math.min(shots[snap], T - 1))}; points are those of the curves at the left.`;
  }

  // ---- choosing, zooming, pointing --------------------------------------------------------------------------------------
  function select(n, quiet) {
    const start = performance.now();
    chosen = Math.min(N - 1, Math.max(0, n));
    const share = meta.missing[chosen];
    $("who").textContent = N === 1 ? "The stream" : `${chosen + 1}. ${meta.nodes[chosen]} — distress score ${neat(meta.score[chosen])}` + (share ? `, ${neat(100 * share)} % missing` : "");
    const story = meta.stories[chosen];
    $("story").replaceChildren(...(story.length ? story : ["Nothing: no alarm was raised."]).map((s) => make("li", s)));
    drawNode();
    if (N > 1) {
      placeCursor();
      const top = chosen * rowHeight;
      if (top < box.scrollTop || top + rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 2;
    }
    if (!quiet) window.icvi.click = performance.now() - start;
  }
  function tip(e, text) {
    const t = $("tip");
    if (!text) { t.hidden = true; return; }
    t.hidden = false; t.textContent = text;
    t.style.left = Math.min(e.clientX + 14, innerWidth - 350) + "px"; t.style.top = e.clientY + 14 + "px";
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
        const rows = [stamp(t), ...meta.indices.map((s) => `${s.name}: ${neat(value(s, i))}`)];
        if (chosen < meta.detail.rows) rows.push(...meta.detail.features.slice(0, 8).map((s) => `${s.name}: ${neat(value(s, i))}`), `cluster ${labels[i] === 255 ? "–" : labels[i]} of ${ks[i]}`);
        tip(e, (begin !== null && begin !== t ? `zoom ${stamp(Math.min(begin, t))} – ${stamp(Math.max(begin, t))}\n` : "") + rows.join("\n"));
      };
      c.canvas.onpointerup = (e) => {
        const end = nearest(e, c.canvas);
        if (begin !== null && Math.abs(end - begin) > 3) { [from, to] = [Math.min(begin, end), Math.max(begin, end)]; drawNode(); }
        begin = null;
      };
      c.canvas.onpointerleave = () => tip();
      c.canvas.ondblclick = () => { from = 0; to = Math.max(1, T - 1); drawNode(); };
    }
    map.onclick = (e) => select(mapRow(e));
    map.onpointermove = (e) => {
      const n = mapRow(e), t = mapStep(e), s = meta.indices[colour];
      tip(e, `${meta.nodes[n]}\n${stamp(t)}\n${s.name}: ${neat(value(s, n * T + t))}`);
    };
    map.onpointerleave = () => tip();
    box.onkeydown = (e) => {
      const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[e.key];
      if (by) { e.preventDefault(); select(chosen + by); }
    };
    $("colour").onchange = (e) => { colour = e.target.selectedIndex; drawMap(); };
    $("find").onchange = (e) => { const n = meta.nodes.indexOf(e.target.value); if (n >= 0) select(n); };
    let wait;
    addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(() => { if (N > 1) drawMap(); drawNode(); }, 120); });
  }
  function write() {
    const span = dated ? `${fullTime(clock[0])} to ${fullTime(clock[T - 1])}` : `${T * meta.factor} samples`;
    const alarms = meta.happened, distressed = meta.alarms.length ? new Set(meta.alarms[0].spans.row).size : 0;
    $("lead").textContent = `${N > 1 ? N + " nodes, " : ""}${span}. ${alarms ? alarms + " alarms" : "No alarm"}${N > 1 ? `; ${distressed} nodes were in distress at some time` : ""}.`;
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
    if (N > meta.detail.rows) notes.push(`Readings and clusters are kept for the ${meta.detail.rows} worst nodes; index curves for all.`);
    if (meta.detail.features.length > MOST_FEATURES) notes.push(`Curves of the first ${MOST_FEATURES} of ${meta.detail.features.length} columns are drawn; the scatter plot offers all.`);
    if (meta.overflow) notes.push("More clusters were wanted than there was room for: raise --capacity.");
    $("notes").append(...notes.map((n) => make("li", n)));
    for (const [code, [word, color]] of Object.entries(ALARM)) { const b = make("b", { 1: "▼ ", 2: "▲ ", 3: "◆ " }[code] + word); b.style.color = color; $("legend").append(b); }
    if (meta.changes.length) $("legend").append(make("b", "┊ true change"));
    if (meta.detail.features.length > 2) for (const which of [0, 1]) {
      const s = make("select");
      s.setAttribute("aria-label", which ? "vertical axis" : "horizontal axis");
      s.append(...meta.detail.features.map((f) => make("option", f.name)));
      s.selectedIndex = which ? py : px;
      s.onchange = () => { if (which) py = s.selectedIndex; else px = s.selectedIndex; drawScatter(); };
      $("axes").append(s);
    }
  }
  window.icvi = { meta, select, zoom: (a, b) => { from = a; to = b; drawNode(); }, state: () => ({ chosen, from, to }) };
  write(); buildCurves();
  if (N > 1) { $("fleet").hidden = false; drawMap(); }
  select(0, true); listen();
  window.icvi.drawn = performance.now() - began;
  requestAnimationFrame(() => { window.icvi.ready = performance.now(); document.body.dataset.ready = "yes"; });
})();
