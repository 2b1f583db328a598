// The heat map of all nodes.
const map = $("map"), box = $("mapbox"), GUTTER = N <= 60 ? 190 : 0;
const rowHeight = Math.max(2, Math.min(20, Math.floor(440 / N)));
const OWN_TIME = 3;
let scaling = 0, timing = N > 1 && meta.spans.map(([a, b]) => b - a).sort((a, b) => a - b)[N >> 1] * OWN_TIME < T ? 1 : 0;
// The part of the colour scale, 0 good to 1 bad, of each value of a node: how unusual it is for this node, or one scale for all.
function parts(s, n, ends) {
  const levels = new Uint16Array(T), flip = s.goal === "max";
  for (let t = 0; t < T; t++) levels[t] = level(s, n * T + t);
  if (scaling === 0) return unusual(levels, flip);
  return Float32Array.from(levels, (q) => { const v = scaled(s, q, n), part = v === Infinity ? 1 : (v - ends[0]) / (ends[1] - ends[0]); return flip ? 1 - part : part; });
}
// Ends of the scale for all nodes: the middle 98 % of the values, so that one extreme node does not hide the others.
function middle(s) {
  const some = [], every = Math.max(1, Math.floor(N * T / 50000));
  for (let i = 0; i < N * T; i += every) { const v = scaled(s, level(s, i), Math.floor(i / T)); if (Number.isFinite(v)) some.push(v); }
  some.sort((a, b) => a - b);
  const low = some[Math.floor(0.01 * some.length)] ?? 0, high = some[Math.ceil(0.99 * some.length) - 1] ?? 1;
  return [low, high > low ? high : low + 1];
}
// First and last sample of a row of the map.
const reach = (n) => timing ? own(n) : [0, T - 1];
function drawMap() {
  const s = meta.indices[colour], width = box.clientWidth, plot = Math.max(50, width - GUTTER), g = sized(map, width, N * rowHeight), flip = s.goal === "max";
  const cols = Math.min(T, Math.round(plot * (window.devicePixelRatio || 1))), picture = new ImageData(cols, N), out = new Uint32Array(picture.data.buffer);
  const ends = middle(s), none = (255 << 24) | (235 << 16) | (232 << 8) | 230;
  const table = Uint32Array.from({ length: 256 }, (_, i) => { const [r, gr, b] = shade(i / 255); return (255 << 24) | (b << 16) | (gr << 8) | r; });
  // Columns have equal lengths of time, like the curves below: a long time without samples is a gap here too.
  for (let n = 0; n < N; n++) {
    const part = parts(s, n, ends), [begin, end] = reach(n), start = clock[begin], span = clock[end] - start || 1;
    const gap = usualGap(clock, (t) => !Number.isNaN(part[t]));
    for (let c = 0, a = begin, before = -1; c < cols; c++) {
      const until = start + (c + 1) / cols * span;
      let worst = NaN;
      for (; a <= end && (clock[a] < until || c === cols - 1); a++) if (!Number.isNaN(part[a])) { before = a; if (!(worst >= part[a])) worst = part[a]; }
      if (Number.isNaN(worst) && before >= 0 && until - clock[before] < gap) worst = part[before];
      out[n * cols + c] = Number.isNaN(worst) ? none : table[Math.round(255 * Math.min(Math.max(worst, 0), 1))];
    }
  }
  const sheet = make("canvas"); sheet.width = cols; sheet.height = N; sheet.getContext("2d").putImageData(picture, 0, 0);
  g.imageSmoothingEnabled = false;
  g.drawImage(sheet, GUTTER, 0, plot, N * rowHeight);
  const alarms = meta.alarms.find((a) => a.index === s.name);
  if (alarms) {
    g.fillStyle = "#ff2d95";
    for (let i = 0; i < alarms.row.length; i++) if (alarms.code[i] === 3) {
      const [begin, end] = reach(alarms.row[i]);
      g.fillRect(GUTTER + (clock[alarms.at[i]] - clock[begin]) / (clock[end] - clock[begin] || 1) * plot - 1, alarms.row[i] * rowHeight, 3, rowHeight);
    }
  }
  const axis = sized($("mapaxis"), width, 36), across = (v) => GUTTER + (v - clock[0]) / (clock[T - 1] - clock[0] || 1) * plot;
  axis.fillStyle = "#5b6570"; axis.textAlign = "center"; axis.textBaseline = "top";
  if (timing) axis.fillText(`from the first to the last sample of each ${meta.noun}`, GUTTER + plot / 2, 5);
  else for (const [v, text] of timeTicks(clock[0], clock[T - 1], dated, Math.max(2, plot / 130)))
    axis.fillText(text, Math.min(Math.max(across(v), 34), width - 34), 5);
  axis.textAlign = "right"; axis.fillText(meta.time.name, width - 4, 20);
  if (GUTTER) {
    g.textBaseline = "middle"; g.textAlign = "right";
    for (let n = 0; n < N; n++) if (rowHeight >= 9) {
      const [color, sign] = meta.trust.length ? TRUST[meta.trust[n][1]] : ["#1b1f24", ""];
      g.fillStyle = color; g.fillText(fitted(g, `${sign} ${meta.nodes[n]}`, GUTTER - 10), GUTTER - 6, (n + 0.5) * rowHeight);
    }
  } else meta.trust.forEach(([, word], n) => { g.fillStyle = TRUST[word][0]; g.fillRect(0, n * rowHeight, 5, rowHeight); });
  const stops = Array.from({ length: 10 }, (_, i) => `rgb(${shade(!scaling || !flip ? i / 9 : 1 - i / 9)})`), scale = $("scale"), strip = make("i");
  strip.style.background = `linear-gradient(to right, ${stops})`;
  const edge = (v) => neat(s.log ? 10 ** v : v), pink = make("span", "▮ distress begins");
  pink.style.color = "#d6006c";
  const words = scaling ? [edge(ends[0]), edge(ends[1]), "dark is good, yellow is bad"] : ["usual", "1 in 1000", `how rare so bad a value is for the ${meta.noun} itself`];
  const seen = new Set(meta.trust.map(([, word]) => word)), key = Object.entries(TRUST).filter(([word]) => seen.has(word)).map(([word, [color, sign]]) => { const b = make("span", `${sign} ${word} trust`); b.style.color = color; return b; });
  scale.replaceChildren(make("span", words[0]), strip, make("span", words[1]), make("span", words[2]), ...(alarms ? [pink] : []), ...key);
}
function placeCursor() {
  const c = $("cursor");
  c.style.top = chosen * rowHeight - 2 + "px"; c.style.height = rowHeight + 4 + "px";
}
const mapRow = (e) => Math.min(N - 1, Math.max(0, Math.floor((e.clientY - map.getBoundingClientRect().top) / rowHeight)));
const mapStep = (e) => {
  const r = map.getBoundingClientRect(), [begin, end] = reach(mapRow(e));
  return Math.min(T - 1, Math.max(0, at(clock[begin] + (e.clientX - r.left - GUTTER) / (r.width - GUTTER) * (clock[end] - clock[begin]))));
};
