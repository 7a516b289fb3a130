// Answers the questions of the page from the data of a file, as the service would: same paths, same keys.
//
// A *place* is one event, or a run of local events that is drawn as one sign. The file says which places are directly
// before which (see diagram/page/relations.py), and a search along that gives the past and the future: exact for the
// events that were given, drawn or not.
import { ApiError } from "../modules/errors.js";
import { visible } from "../modules/text.js";
import { nanoseconds, searchOf } from "./predicate.js";

const exact = (digits) => (Number.isSafeInteger(Number(digits)) ? Number(digits) : BigInt(digits));

export class Given {
  constructor(data) {
    this.data = data;
    this.immediate = true; // A search may follow the typing, and plain words are ours to understand.
    this.records = data.events.map((one) => ({ ...one, index: exact(one.index) }));
    this.use(0);
  }

  // Which drawing is looked at: the whole, or the one with runs of local events folded.
  use(number) {
    const { data } = this;
    this.number = number;
    this.view = data.views[number];
    this.lanes = this.view.lanes.map((process) => data.processes[process]);
    this.places = this.view.places.map((one, number) => this.place(one, number));
    for (const place of this.places) for (const cause of place.causes) this.places[cause].effects.push(place);
    this.named = new Map(this.places.map((place) => [this.name(place), place]));
    this.ranks = {};
    for (const axis of Object.keys(data.axes)) this.rank(axis);
  }

  place(one, number) {
    const { run = null } = one;
    const record = run ? null : this.records[one.event];
    const index = run ? exact(run.first) : record.index;
    return { ...one, run, number, record, index, role: one.role ?? "plain", violation: one.violation === true, last: run ? exact(run.last) : index, count: run?.count ?? 1, effects: [] };
  }

  name({ lane, index }) {
    return `${this.lanes[lane]}:${index}`;
  }

  id(place) {
    return this.data.execution ? `${this.data.execution}/${this.name(place)}` : this.name(place);
  }

  find(id) {
    const found = this.named.get(id);
    if (found) return found;
    const at = id.lastIndexOf(":");
    const lane = this.lanes.indexOf(id.slice(0, at));
    const index = /^\d{1,19}$/.test(id.slice(at + 1)) ? exact(id.slice(at + 1)) : null;
    const around = index === null ? null : this.places.find((one) => one.lane === lane && one.index <= index && index <= one.last);
    if (!around) throw new ApiError(404, `${visible(id, 80)} is not drawn here`);
    return around;
  }

  // How many of its lane stand at the same x before each.
  rank(axis) {
    const seen = new Map();
    this.ranks[axis] = this.places.map((place) => {
      const key = `${place.lane} ${place[axis]}`;
      seen.set(key, (seen.get(key) ?? -1) + 1);
      return seen.get(key);
    });
  }

  axis(asked) {
    return Object.hasOwn(this.data.axes, asked ?? "") ? asked : this.data.axis;
  }

  async get(path, question = {}, { signal } = {}) {
    const answer = ANSWERS[path];
    signal?.throwIfAborted();
    if (!answer) throw new ApiError(404, "a file cannot answer this");
    return answer(this, question);
  }

  past(place) {
    return reach(place, (one) => one.causes.map((cause) => this.places[cause]));
  }

  future(place) {
    return reach(place, (one) => one.effects);
  }

  // What was pointed out when nobody has chosen anything.
  get roles() {
    if (this.data.selected !== null || this.places.every((one) => one.role === "plain")) return null;
    const byPlace = new Map(this.places.map((one) => [`${one.lane} ${one.index}`, one.role]));
    return {
      lane: -1,
      lanes: new Map(),
      of: ({ lane, index }) => byPlace.get(`${lane} ${index}`) ?? "plain",
      ends: () => [null, null],
      atTime: () => "plain",
    };
  }
}

const reach = (start, next) => {
  const found = new Set();
  const waiting = [start];
  while (waiting.length) {
    for (const one of next(waiting.pop())) {
      if (found.has(one)) continue;
      found.add(one);
      waiting.push(one);
    }
  }
  found.delete(start);
  return found;
};

const eventsIn = (places) => [...places].reduce((sum, place) => sum + place.count, 0);
const isFailure = (place) => place.record?.failure === true;
const nameOf = (place) => (place.run ? `${place.count} local events` : place.record.name);

const overview = (given, { axis: asked }) => {
  const axis = given.axis(asked);
  const { data, places, view } = given;
  const processes = given.lanes.map((name, lane) => {
    const own = places.filter((place) => place.lane === lane);
    const xs = own.map((place) => place[axis]);
    const [first, last] = own.length ? [Math.min(...xs), Math.max(...xs)] : [0, 0];
    return { name, events: eventsIn(own), failures: own.filter(isFailure).length, first, last };
  });
  return {
    source: "file",
    executions: [],
    execution: data.execution,
    axis,
    axes: Object.keys(data.axes),
    ...data.axes[axis],
    generation: `${given.number} ${axis}`,
    cursor: null,
    span: places.reduce((most, place) => Math.max(most, place[axis]), 0),
    events: eventsIn(places),
    failures: places.filter(isFailure).length,
    processes,
    violations: 0, // How many there are is not known, only which events show one:
    marked: places.filter((place) => place.violation).length,
    warnings: view.warnings,
  };
};

const placed = (given, place, axis) => ({
  lane: place.lane,
  index: place.index,
  x: place[axis],
  rank: given.ranks[axis][place.number],
});

const drawnEvent = (given, place, axis) => ({
  id: given.id(place),
  ...placed(given, place, axis),
  name: place.run ? "" : place.record.name,
  kind: place.run ? "local" : place.record.kind,
  failure: isFailure(place),
  state: "complete",
  violation: place.violation,
  note: place.record?.note ?? "",
  count: place.count,
});

const windowOf = (given, { axis: asked, from = 0, to = Infinity, columns = 256, events_max: most = 1, lanes = null }) => {
  const axis = given.axis(asked);
  const chosen = lanes ? new Set(String(lanes).split(",").map(Number)) : null;
  const inside = (place) => place[axis] >= from && place[axis] <= to && (!chosen || chosen.has(place.lane));
  const here = given.places.filter(inside);
  const head = { axis, from, to, total: here.length };
  if (most === 0) return { ...head, detail: "columns", columns, counts: counted(here, axis, from, to, columns), flows: [], flows_more: 0 };
  const { places, view } = given;
  const messages = view.messages
    .filter((one) => inside(places[one.from]) || inside(places[one.to]))
    .map(({ message, from: send, to: receive, violation }) => {
      return { message, from: placed(given, places[send], axis), to: placed(given, places[receive], axis), violation };
    });
  const stubs = view.stubs.filter((one) => inside(places[one.at])).map((one) => ({ ...one, ...placed(given, places[one.at], axis) }));
  return { ...head, detail: "events", events: here.map((place) => drawnEvent(given, place, axis)), messages, stubs, violations: [] };
};

const counted = (here, axis, from, to, columns) => {
  const counts = {};
  for (const place of here) {
    const column = Math.min(columns - 1, Math.floor(((place[axis] - from) / (to - from + 1)) * columns));
    const cells = (counts[place.lane] ??= new Map());
    const [events, failures] = cells.get(column) ?? [0, 0];
    cells.set(column, [events + place.count, failures + Number(isFailure(place))]);
  }
  return Object.fromEntries(Object.entries(counts).map(([lane, cells]) => [lane, [...cells].map(([column, both]) => [column, ...both])]));
};

const relations = (given, { id, axis: asked }) => {
  const axis = given.axis(asked);
  const place = given.find(id);
  const lanes = given.lanes.map((_, lane) => ({ lane, past_to: 0, future_from: null, past_x: null, future_x: null }));
  for (const one of given.past(place)) {
    const row = lanes[one.lane];
    if (one.last > row.past_to) Object.assign(row, { past_to: one.last, past_x: one[axis] });
  }
  for (const one of given.future(place)) {
    const row = lanes[one.lane];
    if (row.future_from === null || one.index < row.future_from) Object.assign(row, { future_from: one.index, future_x: one[axis] });
  }
  return { id: given.id(place), execution: given.data.execution, axis, ...placed(given, place, axis), lanes };
};

const ends = (given, list) =>
  list.map(({ message, events, more, elsewhere }) => ({
    message,
    more,
    elsewhere,
    ends: events.map((number) => ({ process: given.data.processes[given.records[number].owner], index: given.records[number].index })),
  }));

const event = (given, { id }) => {
  const place = given.find(id);
  const process = given.lanes[place.lane];
  const { record, run } = place;
  const about = { id: given.id(place), process, index: place.index, execution: given.data.execution, name: nameOf(place), state: "complete" };
  if (run) return { ...about, kind: "local", run: `${process}:${run.first} to ${process}:${run.last}`, names: run.names, attributes: [] };
  return {
    ...about,
    kind: record.kind,
    time: record.time || null,
    note: record.note,
    attributes: record.attributes,
    attributes_more: record.attributesMore,
    receives: ends(given, record.receives),
    receives_more: record.receivesMore,
    sends: ends(given, record.sends),
    sends_more: record.sendsMore,
  };
};

const past = (given, { id, last }) => {
  const found = given.past(given.find(id));
  const when = (place) => place.time ?? 0;
  const ordered = [...found].sort((a, b) => when(a) - when(b) || a.steps - b.steps || a.lane - b.lane);
  const events = ordered.slice(-last).map((place) => ({
    id: given.id(place),
    process: given.lanes[place.lane],
    index: place.index,
    name: nameOf(place),
    kind: place.record?.kind ?? "local",
  }));
  return { past: eventsIn(found), events, missing: [], notes: [], scope: "Counted among the events of this diagram." };
};

const future = (given, { id }) => ({ future: eventsIn(given.future(given.find(id))) });

const concurrent = (given, { id }) => {
  const place = given.find(id);
  return { concurrent: eventsIn(given.places) - place.count - eventsIn(given.past(place)) - eventsIn(given.future(place)) };
};

// The event of a place as a search sees it.
const searched = (given, place) => {
  const { record, run } = place;
  const process = given.lanes[place.lane];
  const name = run ? run.names.join("\n") : record.name;
  const attributes = new Map(record?.attributes ?? []);
  const messages = record ? [...record.sends, ...record.receives].map((one) => one.message) : [];
  const pairs = [...attributes].map(([key, value]) => `${key}=${value}`);
  return {
    name,
    process,
    execution: given.data.execution,
    kind: record?.kind ?? "local",
    ns: record?.time ? nanoseconds(record.time) : null,
    attributes,
    text: [name, given.id(place), record?.kind ?? "local", ...pairs, ...messages, record?.note ?? ""].join("\n").toLowerCase(),
  };
};

const find = (given, { where }) => {
  const holds = searchOf(where);
  const found = given.places.filter((place) => holds(searched(given, place)));
  found.sort((a, b) => a.steps - b.steps || a.lane - b.lane); // As one reads, not the newest first.
  const events = found.map((place) => ({ id: given.id(place), process: given.lanes[place.lane], index: place.index }));
  return { events, more: false, cursor: null };
};

const cut = (given, { at, after }) => {
  const { places, view, data } = given;
  let inside = new Set();
  if (at !== undefined) {
    const { origin, unit } = data.axes.time;
    const x = Number((BigInt(at) - BigInt(origin)) / BigInt(unit));
    inside = largest(given, new Set(places.filter((place) => place.time <= x)));
  } else {
    for (const id of Array.isArray(after) ? after : [after]) {
      const place = given.find(id);
      for (const one of [place, ...given.past(place)]) inside.add(one);
    }
  }
  const last = new Map();
  for (const place of inside) if (!last.has(place.lane) || place.last > last.get(place.lane).last) last.set(place.lane, place);
  const within = (at) => inside.has(places[at]);
  return {
    cut: Object.fromEntries([...last].map(([lane, place]) => [given.lanes[lane], place.last])),
    events: eventsIn(inside),
    front: [...last.values()].map((place) => given.id(place)),
    in_flight: [...new Set(view.messages.filter((one) => within(one.from) && !within(one.to)).map((one) => one.message))],
    unreceived: view.stubs.filter((one) => one.kind === "unreceived" && within(one.at)).map((one) => one.message),
    consistent: true,
  };
};

// The largest consistent cut inside a set.
const largest = (given, inside) => {
  for (let before = -1; before !== inside.size; ) {
    before = inside.size;
    for (const place of inside) if (place.causes.some((cause) => !inside.has(given.places[cause]))) inside.delete(place);
  }
  return inside;
};

const ANSWERS = {
  "/api/overview": overview,
  "/api/window": windowOf,
  "/api/relations": relations,
  "/api/event": event,
  "/api/past": past,
  "/api/future": future,
  "/api/concurrent": concurrent,
  "/api/find": find,
  "/api/cut": cut,
};
