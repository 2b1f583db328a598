// The live page: gets events from the watch and asks it for the data on the screen. Names are only set as text.
import { count, ask, moment } from "./parts.js";
import { tiles, drawFleet, onChoose } from "./fleet.js";
import { drawNode } from "./node.js";

const EVENTS = 500, SHOWN = 3;
let page = 0, index = "", paused = false, busy = false, again = false, fleet = null, node = null, chosen = null, shut = false;
let waiting = { now: null, events: [] };

// ---- events of the watch -----------------------------------------------------------------------------------------------
// Alarms of one incident are one entry, with a sentence about all of them once several nodes take part.
const incidents = new Map();
function happened(events) {
  const list = $("events");
  if (events.length) list.querySelector(".hint")?.remove();
  for (const e of events) {
    const alarm = make("div"), name = make("button", shortened(e.node || "(no name)", 36));
    name.type = "button"; name.title = e.node; name.onclick = () => choose(e.node);
    alarm.append(make("time", moment(e)), make("b", e.alarm + (e.index && e.index !== e.alarm ? ` (${e.index})` : ""), e.alarm), " ", name, make("span", e.reason));
    let entry = incidents.get(e.incident);
    if (!entry) {
      entry = make("li"); entry.append(make("p", "", "several"));
      if (e.incident) { incidents.set(e.incident, entry); entry.dataset.incident = e.incident; entry.append(seenButton(e.incident)); }
    }
    if (e.nodes) entry.firstChild.textContent = e.nodes;
    entry.firstChild.after(alarm);
    list.prepend(entry);
  }
  while (list.childElementCount > EVENTS) { incidents.delete(list.lastElementChild.dataset.incident); list.lastElementChild.remove(); }
  for (const entry of list.children) { // an entry of many alarms shows the newest ones, and says how many there are
    const alarms = entry.querySelectorAll("div");
    alarms.forEach((one, i) => { one.hidden = i >= SHOWN && !entry.dataset.open; });
    let more = entry.querySelector(".more");
    if (alarms.length > SHOWN && !more) {
      more = make("button", "", "more"); more.type = "button"; entry.append(more);
      more.onclick = () => { entry.dataset.open = entry.dataset.open ? "" : "yes"; happened([]); };
    }
    if (more) more.textContent = entry.dataset.open ? "show fewer" : `and ${count(alarms.length - SHOWN, "more alarm", "more alarms")}`;
  }
}
function seenButton(incident) {
  const button = make("button", "Acknowledge", "seen");
  button.type = "button";
  button.onclick = () => post("api/acknowledge", { incident, seen: !button.closest("li").classList.contains("acknowledged") });
  return button;
}
function acknowledged(names) {
  const known = new Set(names);
  for (const [name, entry] of incidents) {
    entry.classList.toggle("acknowledged", known.has(name));
    entry.querySelector(".seen").textContent = known.has(name) ? "Acknowledged" : "Acknowledge";
  }
}
function tell(text, name) { $("pulse").textContent = text; $("pulse").className = name; }
const source = new EventSource("events");
source.onmessage = (message) => {
  const { events, ...now } = JSON.parse(message.data);
  waiting = { now, events: waiting.events.concat(events).slice(-EVENTS) };
  if (paused) tell(`paused; ${count(waiting.events.length, "alarm", "alarms")} since`, "paused"); else catchUp();
};
source.onerror = () => tell("the watch does not answer; trying again …", "away");
function catchUp() {
  if (!waiting.now) return;
  tell("live", "");
  tiles(waiting.now); happened(waiting.events); acknowledged(waiting.now.acknowledged); refresh();
  waiting = { now: null, events: [] };
}

// ---- requests ----------------------------------------------------------------------------------------------------------
async function refresh(force) {
  if (document.hidden && !force) return;
  if (busy) { again = again || force === true; return; } // what is asked for meanwhile comes right after
  busy = true;
  const live = !paused, stopped = () => live && paused; // an answer that was on its way when the page was paused is not shown
  try {
    const found = await ask("api/fleet", { page, search: $("find").value, index });
    fleet = stopped() ? fleet : found || fleet;
    if (fleet && !stopped()) { page = fleet.page; index = fleet.index; drawFleet(fleet, chosen); }
    if (chosen === null && !shut && fleet?.found === 1 && !$("find").value) chosen = fleet.nodes[0].name; // a single node opens by itself
    const one = chosen === null ? null : await ask("api/node", { name: chosen });
    if (chosen !== null && !stopped()) { node = one; if (node) { $("node").hidden = false; drawNode(node); } }
    document.body.dataset.ready = "yes";
  } catch (problem) { if (!(problem instanceof TypeError)) throw problem; /* the watch is away: the event source says so */ } finally { busy = false; }
  if (again && !stopped()) { again = false; refresh(true); }
}

// ---- actions of the user -----------------------------------------------------------------------------------------------
async function choose(name, look = true) {
  chosen = name;
  history.replaceState(null, "", "#" + encodeURIComponent(name));
  await refresh(true);
  if (look) $("node").scrollIntoView({ block: "nearest", behavior: "smooth" });
}
onChoose(choose);
$("shut").onclick = () => { chosen = node = null; shut = true; $("node").hidden = true; history.replaceState(null, "", location.pathname); refresh(true); };
$("pause").onclick = () => {
  paused = !paused;
  $("pause").textContent = paused ? "Go on" : "Pause"; $("pause").setAttribute("aria-pressed", paused);
  if (paused) tell("paused", "paused"); else { catchUp(); refresh(true); }
};
$("find").oninput = () => { page = 0; refresh(true); };
$("colour").onchange = (e) => { index = e.target.value; refresh(true); };
$("by").onchange = () => { if (fleet) drawFleet(fleet, chosen); };
$("scaling").onchange = () => { if (fleet) drawFleet(fleet, chosen); };
$("back").onclick = () => { page = Math.max(0, page - 1); refresh(true); };
$("on").onclick = () => { page += 1; refresh(true); };
async function post(path, body) {
  await fetch(path, { method: "POST", headers: { "X-Icvi": "1", "Content-Type": "application/json" }, body: JSON.stringify(body) });
  refresh(true);
}
$("mute").onclick = () => { if (node) post("api/mute", { name: node.name, muted: !node.muted }); };
for (const id of ["mapbox", "events", "story"]) fade($(id));
addEventListener("resize", () => { if (fleet) drawFleet(fleet, chosen); if (node) drawNode(node); });
for (const [code, [word]] of Object.entries(ALARM)) $("legend").append(make("b", SIGN[code] + word, word));
$("legend").append(make("b", "│▼ change of a column", "change"));
window.icvi = { select: choose, state: () => ({ page, index, chosen, paused, fleet, node, names: [...$("rows").tBodies[0].rows].map((r) => r.dataset.name) }) };
const named = new URLSearchParams("n=" + location.hash.slice(1).replaceAll("+", "%2B")).get("n");
if (named) choose(named, false); else refresh(true);
