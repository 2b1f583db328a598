// The heat map of all nodes.
const map = $("map"), box = $("mapbox"), GUTTER = N <= 60 ? 190 : 0;
const rowHeight = Math.max(2, Math.min(20, Math.floor(440 / N)));
function drawMap() {
  const s = meta.indices[colour], width = box.clientWidth, plot = Math.max(50, width - GUTTER), g = sized(map, width, N * rowHeight);
  const cols = Math.min(T, Math.round(plot * (window.devicePixelRatio || 1))), picture = new ImageData(cols, N), out = new Uint32Array(picture.data.buffer);
  // Colours span the middle 98 % of the levels, so that one extreme node does not hide the differences of the others.
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
  // Columns have equal lengths of time, like the curves below: a long time without samples is a gap here too.
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
