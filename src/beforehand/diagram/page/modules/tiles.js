// Windows of an execution, loaded when they are looked at: a binary tree of stretches of causal time.
//
// 1. A stretch of few events is loaded as events and is never divided again; one of many is loaded as columns of counts
//    and divided until it is narrow on the screen. So what is loaded depends on the screen, not on the history.
// 2. At most `KEPT` stretches are kept and `AT_ONCE` requests are under way; those that nobody looks at any more are
//    aborted.
// 3. What is not here yet is shown by the nearest stretch above it that is.
import { isAborted } from "./errors.js";

export const COLUMNS = 256; // Of one stretch; it is at most 800 px wide.
const WIDTH_PX = 800;
const EVENTS = 2000;
const KEPT = 120;
const AT_ONCE = 4;
const RETRY_MS = 4000; // After an error.

export class Tree {
  // `ask(from, to, signal)` gives the window of the service; `changed` is called when something has come.
  constructor(span, events, ask, changed, failed) {
    this.ask = ask;
    this.changed = changed;
    this.failed = failed;
    this.events = events;
    this.used = 0; // A clock for what was used last.
    this.loaded = new Set();
    this.waiting = new Map(); // Node to AbortController.
    this.wanted = [];
    this.root = node(0, 2 ** Math.max(4, Math.ceil(Math.log2(span + 1))));
  }

  // Stretches that cover from..to at this scale (px per unit), from left to right.
  cover(from, to, scale) {
    const leaves = [];
    const visit = (one, above) => {
      if (one.from > to || one.from + one.width <= from) return;
      one.used = this.used;
      const nearest = one.data ? one : above;
      const single = one.data?.detail === "events";
      const small = one === this.root && this.events <= EVENTS;
      if (single || small || one.width * scale <= WIDTH_PX || one.width <= 1) {
        leaves.push({ node: one, shown: nearest });
        return;
      }
      one.children ??= [node(one.from, one.width / 2), node(one.from + one.width / 2, one.width / 2)];
      visit(one.children[0], nearest);
      visit(one.children[1], nearest);
    };
    this.used += 1;
    visit(this.root, null);
    return leaves;
  }

  // Load what these leaves lack, the ones nearest to `middle` first.
  want(leaves, middle) {
    const now = performance.now();
    const lacking = leaves.map((leaf) => leaf.node).filter((one) => (!one.data || one.stale) && one.retryAt <= now);
    const kept = new Set(lacking);
    for (const [one, control] of this.waiting) if (!kept.has(one)) control.abort();
    const far = (one) => Math.abs(one.from + one.width / 2 - middle);
    this.wanted = lacking.filter((one) => !this.waiting.has(one)).sort((a, b) => far(a) - far(b));
    this.pump();
  }

  pump() {
    while (this.wanted.length && this.waiting.size < AT_ONCE) this.load(this.wanted.shift());
  }

  async load(one) {
    const control = new AbortController();
    this.waiting.set(one, control);
    const stale = one.stale;
    try {
      const window = await this.ask(one.from, one.from + one.width - 1, EVENTS, control.signal);
      one.data = window.detail === "events" ? eventsOf(window, one) : columnsOf(window, one);
      if (one.stale === stale) one.stale = 0;
      if (one.data.detail === "events") one.children = null;
      this.loaded.add(one);
      this.forget();
    } catch (error) {
      if (!isAborted(error)) {
        one.retryAt = performance.now() + RETRY_MS;
        setTimeout(() => this.changed(), RETRY_MS + 10);
        this.failed(error);
      }
    } finally {
      this.waiting.delete(one);
      this.changed();
      this.pump();
    }
  }

  // Something new was reported: all that is here is shown until it is replaced.
  age(span, events) {
    this.events = events;
    for (const one of this.loaded) one.stale += 1;
    while (this.root.width <= span) {
      const above = node(0, this.root.width * 2);
      above.children = [this.root, node(this.root.width, this.root.width)];
      this.root = above;
    }
  }

  get busy() {
    return this.waiting.size > 0 || this.wanted.length > 0;
  }

  forget() {
    if (this.loaded.size <= KEPT) return;
    const oldest = [...this.loaded].sort((a, b) => a.used - b.used);
    for (const one of oldest.slice(0, this.loaded.size - KEPT)) {
      if (one.used === this.used) break;
      one.data = null;
      this.loaded.delete(one);
    }
  }

  close() {
    this.wanted = [];
    for (const control of this.waiting.values()) control.abort();
  }
}

const node = (from, width) => ({ from, width, data: null, stale: 0, children: null, used: 0, retryAt: 0 });

const columnsOf = (window, { from, width }) => {
  let most = 1;
  const counts = new Map();
  for (const [lane, cells] of Object.entries(window.counts)) {
    if (!cells.length) continue;
    counts.set(Number(lane), cells);
    for (const cell of cells) most = Math.max(most, cell[1]);
  }
  return { detail: "columns", from, width, columns: window.columns, counts, flows: window.flows, flowsMore: window.flows_more, most };
};

const eventsOf = (window, { from, width }) => {
  const events = window.events.filter((one) => one.x >= from && one.x < from + width);
  events.sort((a, b) => a.x - b.x || a.rank - b.rank || a.lane - b.lane);
  const byPlace = new Map(events.map((one) => [placeOf(one), one]));
  const wrong = new Set((window.violations ?? []).flatMap(idsOf));
  const wrongMessages = new Set((window.violations ?? []).flatMap((one) => one?.messages ?? []));
  for (const one of events) {
    one.depth = 0;
    one.place = null;
    one.violation = wrong.has(one.id) || one.violation === true;
  }
  const messages = window.messages.map((one) => ({
    ...one,
    violation: one.violation === true || wrongMessages.has(one.message),
  }));
  deepen(events, messages, byPlace);
  const columns = new Set(events.map((one) => `${one.x} ${one.depth}`)).size;
  return { detail: "events", from, width, events, messages, stubs: window.stubs ?? [], columns };
};

const idsOf = (violation) => (typeof violation === "string" ? [violation] : violation?.events ?? []);

export const placeOf = (one) => (one.place ??= `${one.lane} ${one.index}`);

// Events of one instant stand side by side in causal order: along their process and along messages.
const deepen = (events, messages, byPlace) => {
  const inside = messages
    .filter(({ from, to }) => from && to && from.x === to.x)
    .map(({ from, to }) => [byPlace.get(placeOf(from)), byPlace.get(placeOf(to))])
    .filter(([from, to]) => from && to);
  const next = [];
  const last = new Map();
  for (const one of events) {
    const before = last.get(one.lane);
    if (before && before.x === one.x) next.push([before, one]);
    last.set(one.lane, one);
  }
  // The longest way to each, from those that nothing leads to on. A way round is not possible, but would end.
  const after = new Map();
  const open = new Map();
  for (const [from, to] of [...next, ...inside]) {
    if (!after.has(from)) after.set(from, []);
    after.get(from).push(to);
    open.set(to, (open.get(to) ?? 0) + 1);
  }
  const ready = [...after.keys()].filter((one) => !open.has(one));
  while (ready.length) {
    const one = ready.pop();
    for (const to of after.get(one) ?? []) {
      to.depth = Math.max(to.depth, one.depth + 1);
      open.set(to, open.get(to) - 1);
      if (open.get(to) === 0) ready.push(to);
    }
  }
  events.sort((a, b) => a.x - b.x || a.depth - b.depth || a.lane - b.lane);
};
