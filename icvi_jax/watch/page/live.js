(function () {
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, name) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (name) e.className = name; return e; };
  const LEFT = 62, RIGHT = 10, EVENTS = 500;
  let page = 0, index = "", chosen = null, paused = false, busy = false, fleet = null, node = null, behind = false;
  const CODE = { spike: 1, recovered: 2, distress: 3 };

  // ---- what the watch says --------------------------------------------------------------------------------------------
  const count = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
  function tell(now) {
    $("lead").className = "";
    $("lead").textContent = `${count(now.samples, "sample", "samples")} of ${count(now.nodes, "node", "nodes")}; ${now.distressed} in distress, ${now.silent} silent; ${count(now.alarms, "alarm", "alarms")}, ${count(now.bad, "bad line", "bad lines")}, ${now.old.toLocaleString("en")} old samples passed over.`;
  }
  function happened(events) {
    const list = $("events");
    for (const e of events) {
      const line = make("li", `${e.time === null || e.time === undefined ? "" : e.time + " · "}${e.node} · ${e.alarm}${e.index ? ` (${e.index})` : ""}: ${e.reason}`);
      line.dataset.id = e.id;
      list.prepend(line);
    }
    while (list.childElementCount > EVENTS) list.lastElementChild.remove();
  }
  const source = new EventSource("events");
  source.onmessage = (message) => {
    const now = JSON.parse(message.data);
    if (paused) { behind = true; return; }
    tell(now); happened(now.events); refresh();
  };
  source.onerror = () => { $("lead").className = "away"; $("lead").textContent = "The watch does not answer; trying again …"; };

  // ---- asking ---------------------------------------------------------------------------------------------------------
  async function ask(path, values) {
    const answer = await fetch(path + "?" + new URLSearchParams(values));
    return answer.ok ? answer.json() : null;
  }
  async function refresh(force) {
    if (busy || (document.hidden && !force)) return;
    busy = true;
    try {
      fleet = await ask("api/fleet", { page, search: $("find").value, index }) || fleet;
      if (fleet) drawFleet();
      if (chosen !== null) { node = await ask("api/node", { name: chosen }); if (node) drawNode(); }
      document.body.dataset.ready = "yes";
    } catch { /* the watch is away: the event source says so */ } finally { busy = false; }
  }

  // ---- the heat map ---------------------------------------------------------------------------------------------------
  function scaleOf(rows, positive) {
    const all = rows.flatMap((r) => r.values).filter((v) => v !== null && (!positive || v > 0)).map((v) => positive ? Math.log(v) : v).sort((a, b) => a - b);
    const low = all[Math.floor(0.01 * all.length)] ?? 0, high = all[Math.ceil(0.99 * all.length) - 1] ?? 1;
    return [low, Math.max(high, low + 1e-12)];
  }
  function drawFleet() {
    page = fleet.page; index = fleet.index;
    const select = $("colour");
    if (select.childElementCount !== fleet.indices.length) select.replaceChildren(...fleet.indices.map((s) => make("option", s.name)));
    select.value = index;
    $("where").textContent = `${fleet.page + 1} of ${fleet.pages} (${count(fleet.found, "node", "nodes")})`;
    const flip = (fleet.indices.find((s) => s.name === index) || {}).goal === "max";
    const positive = fleet.nodes.every((r) => r.values.every((v) => v === null || v > 0)), [low, high] = scaleOf(fleet.nodes, positive);
    const body = $("rows").tBodies[0];
    while (body.rows.length > fleet.nodes.length) body.deleteRow(-1);
    while (body.rows.length < fleet.nodes.length) {
      const row = body.insertRow(), cells = [make("td"), make("td"), make("td"), make("td")];
      cells[3].append(make("canvas")); row.append(...cells); row.tabIndex = 0;
      row.onclick = () => select_(row.dataset.name);
      row.onkeydown = (e) => { if (e.key === "Enter") select_(row.dataset.name); };
    }
    fleet.nodes.forEach((n, i) => {
      const row = body.rows[i], [name, score, state, strip] = row.cells;
      row.dataset.name = n.name; name.textContent = n.name || "(no name)"; name.title = n.name;
      score.textContent = n.score === null ? "–" : neat(n.score);
      state.textContent = n.muted ? "muted" : n.silent ? "silent" : n.standing ? "distress" : "";
      state.className = n.silent ? "silent" : n.standing ? "distress" : "";
      row.className = (n.name === chosen ? "chosen " : "") + (n.muted ? "muted" : "");
      drawStrip(strip.firstChild, n, strip.clientWidth - 16, low, high, flip, positive);
    });
    const stops = Array.from({ length: 10 }, (_, i) => shade(flip ? 1 - i / 9 : i / 9));
    const bar = make("canvas"), g = sized(bar, 160, 12);
    stops.forEach((c, i) => { g.fillStyle = `rgb(${c})`; g.fillRect(i * 16, 0, 16, 12); });
    const edge = (v) => neat(positive ? Math.exp(v) : v);
    $("scale").replaceChildren(make("span", edge(low)), bar, make("span", edge(high)));
  }
  function drawStrip(canvas, n, width, low, high, flip, positive) {
    const g = sized(canvas, Math.max(width, 60), 16), cells = n.values.length, each = canvas.clientWidth / Math.max(cells, 1);
    n.values.forEach((v, i) => {
      const part = v === null ? null : ((positive ? Math.log(v) : v) - low) / (high - low);
      g.fillStyle = part === null ? "#e6e8eb" : `rgb(${shade(flip ? 1 - part : part)})`;
      g.fillRect(i * each, 0, each + 1, 16);
      if (n.codes[i] === 3) { g.fillStyle = "#ff2d95"; g.fillRect(i * each, 0, Math.max(2, each), 16); }
    });
  }

  // ---- one node -------------------------------------------------------------------------------------------------------
  function select_(name) { chosen = name; $("node").hidden = false; refresh(true); }
  const shift = (zone) => zone ? (zone[0] === "-" ? -1 : 1) * (60 * +zone.slice(1, 3) + +zone.slice(4, 6)) * 60000 : 0;
  function drawNode() {
    const n = node, T = n.time.length;
    $("who").textContent = `${n.name || "(no name)"} — distress score ${n.score === null ? "–" : neat(n.score)}`;
    $("mute").textContent = n.muted ? "Unmute" : "Mute";
    const known = n.time.every((t) => t !== null), dated = known && T > 0 && n.time[0] > 3.2e8;
    const clock = n.time.map((t, i) => known ? (dated ? t * 1000 + shift(n.zone) : t) : n.seen - T + 1 + i);
    $("about").textContent = `${count(n.seen, "sample", "samples")} so far, the last ${T} shown${dated ? `; times are ${n.zone || "UTC"}` : ""}${n.silent ? "; silent" : ""}${n.standing ? "; in distress" : ""}.`;
    const box = $("curves"), width = box.clientWidth, all = [
      ...Object.entries(n.indices).map(([name, values]) => ({ name, values, height: 130, color: "#0072B2", marks: true })),
      ...Object.entries(n.features).map(([name, values]) => ({ name, values, height: 90, color: "#1b1f24" })),
      { name: "cluster", values: n.label.map((v) => v < 0 ? null : v), height: 70, dots: true }];
    while (box.childElementCount > all.length) box.lastElementChild.remove();
    while (box.childElementCount < all.length) box.append(make("canvas"));
    all.forEach((c, i) => { box.children[i].setAttribute("aria-label", c.name); drawCurve(box.children[i], c, clock, dated, width, i === all.length - 1, n); });
    $("story").replaceChildren(...(n.events.length ? n.events.slice().reverse().map((e) => make("li", `${e.time ?? "sample " + e.sample} · ${e.alarm}: ${e.reason}`)) : [make("li", "No alarm is on record.")]));
  }
  function drawCurve(canvas, c, clock, dated, width, last, n) {
    const g = sized(canvas, width, c.height + (last ? 20 : 0)), good = c.values.filter((v) => v !== null);
    let low = Math.min(...good), high = Math.max(...good);
    if (!good.length) { low = 0; high = 1; }
    const pad = (high - low) * 0.06 || Math.abs(high) * 0.05 || 0.5; low -= pad; high += pad;
    const a = clock[0] ?? 0, b = clock[clock.length - 1] ?? 1;
    const x = (t) => LEFT + (t - a) / (b - a || 1) * (width - LEFT - RIGHT), y = (v) => 8 + (high - v) / (high - low) * (c.height - 16);
    g.strokeStyle = "#e4e8ec"; g.fillStyle = "#5b6570"; g.textAlign = "right"; g.textBaseline = "middle"; g.lineWidth = 1;
    for (const v of ticks(low, high, 4).filter((v) => !c.dots || Number.isInteger(v))) { g.beginPath(); g.moveTo(LEFT, y(v)); g.lineTo(width - RIGHT, y(v)); g.stroke(); g.fillText(neat(v), LEFT - 5, y(v)); }
    g.textAlign = "center"; g.textBaseline = "top";
    if (last && b > a) for (const [v, text] of timeTicks(a, b, dated, Math.max(2, width / 130))) g.fillText(text, Math.min(x(v), width - 34), c.height - 4);
    if (c.dots) c.values.forEach((v, i) => { if (v !== null) { g.fillStyle = PALETTE[v % PALETTE.length]; g.fillRect(x(clock[i]) - 1.5, y(v) - 1.5, 3, 3); } });
    else {
      g.strokeStyle = c.color; g.lineWidth = 1.2; g.beginPath();
      let pen = false;
      c.values.forEach((v, i) => { if (v === null) pen = false; else if (pen) g.lineTo(x(clock[i]), y(v)); else { g.moveTo(x(clock[i]), y(v)); pen = true; } });
      g.stroke();
    }
    g.font = "12px system-ui, sans-serif"; g.textAlign = "left"; g.textBaseline = "top";
    g.fillStyle = "#ffffffcc"; g.fillRect(LEFT + 2, 0, g.measureText(c.name).width + 6, 15);
    g.fillStyle = "#1b1f24"; g.fillText(c.name, LEFT + 5, 1);
    if (c.marks) n.code.forEach((code, i) => { if (ALARM[code] && c.values[i] !== null) mark(g, x(clock[i]), y(c.values[i]), code); });
  }

  // ---- hands ----------------------------------------------------------------------------------------------------------
  $("pause").onclick = () => { paused = !paused; $("pause").textContent = paused ? "Go on" : "Pause"; if (!paused && behind) { behind = false; location.reload(); } };
  $("find").oninput = () => { page = 0; refresh(true); };
  $("colour").onchange = (e) => { index = e.target.value; refresh(true); };
  $("back").onclick = () => { page = Math.max(0, page - 1); refresh(true); };
  $("on").onclick = () => { page += 1; refresh(true); };
  $("mute").onclick = async () => {
    if (!node) return;
    await fetch("api/mute", { method: "POST", headers: { "X-Icvi": "1", "Content-Type": "application/json" }, body: JSON.stringify({ name: node.name, muted: !node.muted }) });
    refresh(true);
  };
  for (const [code, [word, color]] of Object.entries(ALARM)) { const b = make("b", { 1: "▼ ", 2: "▲ ", 3: "◆ " }[code] + word); b.style.color = color; $("legend").append(b); }
  window.icvi = { select: select_, state: () => ({ page, index, chosen, paused, fleet, node }) };
  refresh(true);
})();
