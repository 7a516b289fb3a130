// All about one event, as text.
import { button, make, named, pairs } from "./dom.js";
import { clock, count, visible, whole } from "./text.js";

const SHOWN = 200; // Entries of any list.

export const waiting = (id) => make("p", `${visible(id, 200)} …`, "quiet");

export const describe = ({ event, past, future, concurrent }, acts) => {
  const parts = [heading(event)];
  if (event.state && event.state !== "complete") parts.push(note(STATES[event.state] ?? event.state));
  if (event.note) parts.push(note(event.note));
  for (const text of past.notes ?? []) parts.push(note(text));
  parts.push(counts(past.past, future, concurrent));
  if (past.scope) parts.push(make("p", past.scope, "quiet"));
  parts.push(actions(acts));
  parts.push(...led(past, acts));
  parts.push(
    make("h3", "Event"),
    pairs([
      [event.run ? "events" : "event", whole(event.run ?? event.id), "code"],
      ["process", whole(event.process)],
      ...(event.run ? [] : [["index", count(event.index)]]),
      ["kind", event.kind],
      ...(event.run ? [] : [["its clock", event.time === null || event.time === undefined ? "no time" : timeOf(event.time), "time"]]),
      ...(event.causal_time ? [["causal time", timeOf(event.causal_time), "time"]] : []),
      ...(event.execution ? [["execution", whole(event.execution)]] : []),
    ]),
  );
  if ((event.name ?? "").length > 160) parts.push(make("h3", "Name"), make("p", whole(event.name), "long"));
  if (event.run) return [...parts, ...names(event.names)];
  const attributes = Array.isArray(event.attributes) ? event.attributes : Object.entries(event.attributes ?? {});
  parts.push(make("h3", "Attributes"), ...listed(attributes, "none", event.attributes_more));
  parts.push(...messages("Receives", event.receives, acts, event.receives_more), ...messages("Sends", event.sends, acts, event.sends_more));
  const stamp = Object.entries(event.stamp ?? {});
  if (stamp.length) parts.push(folded(`Vector stamp (${count(stamp.length)})`, listed(stamp, "none")));
  if (event.conflicts?.length) {
    parts.push(make("h3", "Reports that differ"));
    for (const one of event.conflicts.slice(0, 16)) parts.push(make("pre", whole(JSON.stringify(one, null, 1))));
  }
  return parts;
};

const STATES = {
  waiting: "It waits for reports of its causes: its past may be larger than what is shown.",
  incomplete: "Something in its past was not reported in time.",
};

const heading = (event) => {
  const title = make("h2");
  title.append(named(visible(event.name || `${event.process}:${event.index}`, 160)));
  return title;
};

const note = (text) => make("p", whole(text), "note");

const counts = (past, future, concurrent) => {
  const box = make("div", "", "counts");
  for (const [role, number, word] of [
    ["past", past, "◐ before it"],
    ["future", future, "◑ after it"],
    ["concurrent", concurrent, "◌ concurrent"],
  ]) {
    const cell = make("div", "", role);
    cell.append(make("b", count(number)), make("span", word));
    box.append(cell);
  }
  return box;
};

const actions = ({ cutAfter, locate, onlyIts, showAll }) => {
  const row = make("p", "", "acts");
  row.append(
    button("Show it", locate, { label: "Bring the event into sight" }),
    button("Cut after it", cutAfter, { label: "The smallest consistent cut with this event" }),
    button("Only its processes", onlyIts, { label: "Only its processes: hide those without its past or future (p)" }),
    button("All processes", showAll, { label: "All processes: show hidden ones again (h)", className: "all-processes" }),
  );
  return row;
};

const led = (past, { jump, short }) => {
  const events = past.events ?? [];
  const parts = [make("h3", "What led to this")];
  if (past.missing?.length) parts.push(note(`missing: ${past.missing.map((one) => visible(one, 80)).slice(0, 20).join(", ")}`));
  if (!events.length) return [...parts, make("p", "Nothing that was reported happened before it.", "quiet")];
  if (past.past > events.length) {
    parts.push(make("p", `The last ${events.length} of ${count(past.past)}, newest first.`, "quiet"));
  }
  const list = make("ol", "", "led");
  for (const one of [...events].reverse()) {
    const item = make("li");
    const go = button("", () => jump(one), { className: "jump" });
    go.append(named(visible(`${short(one.process)}:${one.index}`, 60), "id"), named(visible(one.name || one.kind, 90), "what"));
    go.title = visible(`${one.id}: ${one.name}`, 300);
    item.append(go);
    list.append(item);
  }
  return [...parts, list];
};

const listed = (entries, none, more = 0) => {
  if (!entries.length) return [make("p", none, "quiet")];
  const parts = [pairs(entries.slice(0, SHOWN).map(([key, value]) => [whole(key), whole(String(value)), "long"]))];
  const left = Math.max(0, entries.length - SHOWN) + more;
  if (left) parts.push(make("p", `and ${count(left)} more`, "quiet"));
  return parts;
};

// A message is its id, or, where they are known, its id and the events at its other end.
const messages = (title, all, acts, more = 0) => {
  if (!all?.length) return [];
  const list = make("ul", "", "messages");
  for (const one of all.slice(0, SHOWN)) {
    const item = make("li");
    item.append(named(whole(one.message ?? one), "code"));
    if (one.ends) item.append(...peers(one, title, acts));
    list.append(item);
  }
  const left = Math.max(0, all.length - SHOWN) + more;
  if (left) list.append(make("li", `and ${count(left)} more`, "quiet"));
  return [make("h3", title), list];
};

const peers = ({ ends, more, elsewhere }, title, { jump, short }) => {
  const parts = ends.map((end) => {
    const go = button("", () => jump(end), { className: "peer" });
    go.append(named(visible(`${short(end.process)}:${end.index}`, 60)));
    go.title = visible(`${end.process}:${end.index}`, 300);
    return go;
  });
  const rest = [];
  if (more) rest.push(`and ${count(more)} more`);
  if (elsewhere) rest.push(`${count(elsewhere)} not drawn`);
  if (!ends.length && !elsewhere) rest.push(title === "Sends" ? "never received" : "nobody sent it");
  if (rest.length) parts.push(make("span", ` ${rest.join(", ")}`, "quiet"));
  return parts;
};

const names = (all) => {
  if (!all.length) return [];
  const list = make("ul");
  for (const one of all) {
    const item = make("li");
    item.append(named(whole(one)));
    list.append(item);
  }
  return [make("h3", "Names"), list];
};

const folded = (title, content) => {
  const box = make("details");
  box.append(make("summary", title), ...content);
  return box;
};

const timeOf = (time) => (/^-?\d+$/.test(String(time)) ? clock(time) : whole(String(time)));
