// All nodes: numbers, one cell for each node of a large fleet, and the ranking with its heat map.
import { whole, count, ago, ask } from "./parts.js";

const STATES = [["fine", "--good"], ["alarm lately", "--warn"], ["distress", "--bad"], ["silent", "--soft"], ["muted", "--line"]];
const WORDS = Object.keys(TRUST), HIGH = 0.7, LOW = 0.3;
const trustWord = (v) => v === null ? "unknown" : v < LOW ? "low" : v >= HIGH ? "high" : "medium";
const CELL = [14, 10, 7, 5], MANY = 50;
const gauge = make("canvas").getContext("2d");
let names = [], choose = () => {};
export function onChoose(action) { choose = action; }

// ---- numbers ------------------------------------------------------------------------------------------------------------
let before = [];
export function tiles(now) {
  before.push([performance.now() / 1000, now.samples]);
  before = before.filter(([t]) => t > before.at(-1)[0] - 10);
  const [[t0, n0], [t1, n1]] = [before[0], before.at(-1)], rate = t1 > t0 ? Math.max(0, n1 - n0) / (t1 - t0) : 0;
  const all = [[whole(now.nodes), now.nodes === 1 ? "node" : "nodes", ""], [whole(now.distressed), "in distress", now.distressed ? "bad" : ""],
    ...(now.distrusted === null ? [] : [[whole(now.distrusted), "of low trust", now.distrusted ? "bad" : ""]]),
    [whole(now.lately), "with an alarm lately", now.lately ? "warn" : ""], [now.silent === null ? "–" : whole(now.silent), "silent", now.silent ? "warn" : ""],
    [neat(rate < 10 ? +rate.toFixed(1) : Math.round(rate)), "samples a second", ""], [whole(now.samples), "samples", ""], [whole(now.alarms), "alarms", ""],
    [whole(now.bad), "bad lines", now.bad ? "warn" : ""], [whole(now.old), "old samples skipped", ""]];
  $("tiles").replaceChildren(...all.map(([value, words, name]) => { const li = make("li", undefined, name); li.append(make("b", value), words); return li; }));
  document.title = (now.distressed ? `(${now.distressed}) ` : "") + "icvi watch";
}

// ---- one cell per node -------------------------------------------------------------------------------------------------
function grid(n, width) {
  const size = CELL.find((s) => Math.ceil(n / Math.floor(width / s)) * s <= 220) || CELL.at(-1);
  return { size, across: Math.max(1, Math.floor(width / size)) };
}
async function overview(fleet) {
  const box = $("overview"), by = fleet.trusts && $("by").selectedIndex === 0, states = by ? fleet.trusts : fleet.states;
  const kinds = by ? WORDS.map((word) => [`${word} trust`, TRUST[word][0]]) : STATES.map(([word, name]) => [word, css(name)]);
  box.hidden = states.length <= MANY;
  if (box.hidden) return;
  if (names.length !== states.length) names = (await ask("api/names", {}) || { names: [] }).names;
  const width = box.clientWidth, { size, across } = grid(states.length, width), g = sized($("cells"), width, Math.ceil(states.length / across) * size);
  const paint = kinds.map(([, color]) => color), seen = kinds.map(() => 0);
  for (let i = 0; i < states.length; i++) {
    seen[states[i]] += 1;
    g.globalAlpha = states[i] === (by ? "2" : "0") ? 0.35 : 1;
    g.fillStyle = paint[states[i]];
    g.fillRect(i % across * size, Math.floor(i / across) * size, size - 1, size - 1);
  }
  $("key").replaceChildren("One cell per node, in the order of their names: ", ...kinds.map(([word], i) => { const b = make("b"), swatch = make("i", "■ "); swatch.style.color = paint[i]; b.append(swatch, `${word} ${whole(seen[i])}`); return b; }));
}
function cellAt(event) {
  const box = $("cells").getBoundingClientRect(), { size, across } = grid(names.length, $("overview").clientWidth);
  return names[Math.floor((event.clientY - box.top) / size) * across + Math.floor((event.clientX - box.left) / size)];
}
$("cells").onclick = (event) => { const name = cellAt(event); if (name !== undefined) choose(name); };
$("cells").onmousemove = (event) => tip(cellAt(event), event);
$("cells").onmouseleave = () => tip("");

// ---- the ranking --------------------------------------------------------------------------------------------------------
// The part of the colour scale of each value: how unusual it is for its node, or one scale for all nodes on the page.
function partsOf(rows, flip) {
  if ($("scaling").selectedIndex === 0) return rows.map((r) => [...unusual(levelsOf(r.values), flip)]);
  const positive = rows.every((r) => r.values.every((v) => v === null || v > 0)), scaled = (v) => positive ? Math.log(v) : v;
  const all = rows.flatMap((r) => r.values).filter((v) => v !== null).map(scaled).sort((a, b) => a - b);
  const low = all[Math.floor(0.01 * all.length)] ?? 0, high = Math.max(all[Math.ceil(0.99 * all.length) - 1] ?? 1, low + 1e-12);
  return rows.map((r) => r.values.map((v) => v === null ? NaN : flip ? (high - scaled(v)) / (high - low) : (scaled(v) - low) / (high - low)));
}
function word(n) {
  if (n.state === "muted") return ["muted", ""];
  if (n.state === "distress" || n.state === "silent") return [n.state, n.state];
  return n.alarmed === null ? ["", ""] : [`${n.last} ${ago(n.alarmed)} ago`.replace("now ago", "now"), n.last];
}
export function drawFleet(fleet, chosen) {
  const select = $("colour"), flip = (fleet.indices.find((s) => s.name === fleet.index) || {}).goal === "max";
  if (select.childElementCount !== fleet.indices.length) select.replaceChildren(...fleet.indices.map((s) => make("option", s.name)));
  select.value = fleet.index;
  $("where").textContent = fleet.pages > 1 ? `page ${fleet.page + 1} of ${fleet.pages}, ${count(fleet.found, "node", "nodes")}` : count(fleet.found, "node", "nodes");
  $("back").hidden = $("on").hidden = fleet.pages === 1;
  $("back").disabled = fleet.page === 0; $("on").disabled = fleet.page === fleet.pages - 1;
  $("span").textContent = `${fleet.index}, last ${fleet.strip} samples`;
  overview(fleet);
  const parts = partsOf(fleet.nodes, flip);
  const body = $("rows").tBodies[0], width = $("span").clientWidth - 16, none = css("--none");
  while (body.rows.length > fleet.nodes.length) body.deleteRow(-1);
  while (body.rows.length < fleet.nodes.length) addRow(body);
  if (body.rows.length) gauge.font = getComputedStyle(body.rows[0].cells[0]).font;
  fleet.nodes.forEach((n, i) => {
    const row = body.rows[i], [name, score, state, heard, strip] = row.cells, [text, style] = word(n);
    const [tint, sign] = fleet.trusts ? TRUST[trustWord(n.trust)] : ["", ""], trust = fleet.trusts ? `${sign} ${n.trust === null ? "–" : n.trust.toFixed(2)} ` : "";
    row.dataset.name = n.name; name.textContent = trust + fitted(gauge, n.name || "(no name)", name.clientWidth - 18 - gauge.measureText(trust).width);
    name.title = n.name + (trust && `: ${trustWord(n.trust)} trust`); name.style.color = tint; // the colour of the trust in its clusters
    score.textContent = n.score === null ? "–" : neat(+n.score.toFixed(2));
    state.textContent = state.title = text; state.className = style;
    heard.textContent = ago(n.heard);
    row.className = (n.name === chosen ? "chosen " : "") + (n.state === "muted" ? "muted" : "");
    drawStrip(strip.firstChild, n, parts[i], width, fleet.strip, none);
  });
  const bar = make("canvas"), g = sized(bar, 120, 12);
  for (let i = 0; i < 10; i++) { g.fillStyle = `rgb(${shade(i / 9)})`; g.fillRect(i * 12, 0, 12, 12); }
  $("scale").replaceChildren(make("span", "usual"), bar, make("span", $("scaling").selectedIndex ? "bad" : "rare"));
}
function addRow(body) {
  const row = body.insertRow();
  row.append(...Array.from({ length: 5 }, () => make("td")));
  row.cells[4].append(make("canvas")); row.tabIndex = 0;
  row.onclick = () => choose(row.dataset.name);
  row.onkeydown = (e) => { if (e.key === "Enter") choose(row.dataset.name); };
}
function drawStrip(canvas, n, parts, width, cells, none) {
  const g = sized(canvas, Math.max(width, 60), 16), each = Math.max(width, 60) / cells, start = cells - n.values.length;
  parts.forEach((part, i) => {
    g.fillStyle = n.codes[i] === 3 ? "#ff2d95" : Number.isNaN(part) ? none : `rgb(${shade(part)})`;
    g.fillRect((start + i) * each, 0, each + 0.5, 16);
  });
}
