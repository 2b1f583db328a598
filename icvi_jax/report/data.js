// The data of the report: unpacked once, then looked up by node and sample.
const began = performance.now();
const meta = JSON.parse($("meta").textContent);

async function unpack() {
  const text = atob($("block").textContent.trim()), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  $("block").textContent = "";
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}
const buffer = await unpack();
const TYPES = { uint8: Uint8Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array };
const view = (p) => new TYPES[p.type](buffer, p.at, p.length);
const T = meta.steps, N = meta.nodes.length, clock = view(meta.time.data), dated = meta.time.kind === "date";
for (const s of [...meta.indices, ...meta.detail.features]) { s.high_ = view(s.data.high); s.low_ = view(s.data.low); s.low = view(s.low); s.high = view(s.high); }
const level = (s, i) => (s.high_[i] << 4) | s.low_[i];
// Steps of the range of their own node n: nodes may have different units.
const scaled = (s, q, n) => q === 0 ? NaN : q === INFINITE ? Infinity : s.low[n] + (q - 1) / (LEVELS - 1) * (s.high[n] - s.low[n]);
// All values of a series for the chosen node, computed once; curves are drawn from them at every zoom.
const series = (s) => {
  if (s.node !== chosen) {
    s.node = chosen; s.cache = new Float64Array(T);
    for (let t = 0; t < T; t++) s.cache[t] = scaled(s, level(s, chosen * T + t), chosen);
    s.gap = usualGap(clock, (t) => !Number.isNaN(s.cache[t]));
  }
  const cache = s.cache;
  return (t) => cache[t];
};
const value = (s, n, t) => { const v = scaled(s, level(s, n * T + t), n); return s.log ? 10 ** v : v; };
const labels = view(meta.detail.label), ks = view(meta.detail.k), centers = view(meta.detail.centers);
for (const a of meta.alarms) {
  for (const key of ["row", "at", "code", "cause"]) a[key] = view(a[key]);
  for (const key of ["row", "from", "to"]) a.spans[key] = view(a.spans[key]);
}
let chosen = 0, from = 0, to = Math.max(1, T - 1), colour = 0, px = 0, py = Math.min(1, meta.detail.features.length - 1);
// The first sample at or after a time.
const at = (v) => { let a = 0, b = T; while (a < b) { const m = (a + b) >> 1; if (clock[m] < v) a = m + 1; else b = m; } return a; };
const MOST_FEATURES = 60;
const stamp = (t) => dated ? fullTime(clock[t]) : (meta.time.kind === "sample" ? "sample " : meta.time.name + " ") + neat(clock[t]);
// The part of the time axis in which a node has readings.
const own = (n) => [meta.spans[n][0], Math.max(meta.spans[n][0] + 1, meta.spans[n][1])].map((t) => Math.min(t, Math.max(1, T - 1)));
