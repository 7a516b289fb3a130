// The event that was chosen: what it is, how all others are related to it, and what led to it.
import { isAborted } from "./errors.js";
import { describe, waiting } from "./details.js";
import { Relations } from "./roles.js";
import { plural } from "./text.js";

export const LAST = 25;
const LISTED = 128; // px for the name of a process in a list.

export class Selection {
  constructor(app) {
    this.app = app;
    this.id = null;
    this.pane = null;
    this.relations = null;
    this.control = null;
  }

  // `reveal`: bring it into sight; it may be anywhere. `near`: so near that one reads what is around it.
  async choose(pane, id, { reveal = false, near = false } = {}) {
    this.control?.abort();
    this.control = new AbortController();
    const { signal } = this.control;
    this.id = id;
    this.pane = pane;
    if (id === null) return this.clear();
    const { api } = this.app;
    const { source, execution, axis } = pane.asked;
    const asked = { source, execution, id };
    try {
      const relations = await api.get("/api/relations", { ...asked, axis }, { signal });
      this.relations = new Relations(relations, relations);
      if (reveal || near) pane.reveal(relations, { close: true, near });
      this.app.redraw();
      this.app.remember();
      this.app.byId("details").replaceChildren(waiting(id));
      this.app.byId("help").hidden = true;
      const [event, past, future, concurrent] = await Promise.all([
        api.get("/api/event", asked, { signal }),
        api.get("/api/past", { ...asked, last: LAST }, { signal }),
        api.get("/api/future", { ...asked, limit: 1 }, { signal }).catch(unknown),
        api.get("/api/concurrent", { ...asked, limit: 1 }, { signal }).catch(unknown),
      ]);
      this.show({ event, past, future: future?.future, concurrent: concurrent?.concurrent });
    } catch (error) {
      if (isAborted(error)) return;
      this.id = null;
      this.clear();
      this.app.say(error.message, { wrong: true });
    }
  }

  // Hides the processes without anything of its past or future.
  onlyItsProcesses() {
    const { app, pane, relations } = this;
    if (!relations) return app.say("Choose an event first.");
    pane.lanes.showOnly((lane) => relations.touches(lane));
    pane.relay();
    pane.reveal(relations, { close: true, near: true });
    const { hidden } = pane.lanes.state;
    app.say(hidden.length ? `${plural(hidden.length, "process", "processes")} without its past or future hidden` : "Every process has something of its past or future.");
  }

  // Only where some are hidden is there something to show again.
  lanesTold() {
    const again = this.app.byId("details").querySelector(".all-processes");
    if (again) again.hidden = !this.pane.lanes.hidden.size;
  }

  clear() {
    this.relations = null;
    this.app.byId("details").replaceChildren();
    this.app.byId("help").hidden = false;
    this.app.redraw();
    this.app.remember();
  }

  show(found) {
    const { app, pane } = this;
    this.app.byId("details").replaceChildren(
      ...describe(found, {
        jump: (one) => this.choose(pane, `${one.process}:${one.index}`, { near: true }),
        short: (process) => pane.lanes.short(process, LISTED),
        onlyIts: () => this.onlyItsProcesses(),
        showAll: () => app.showAll(pane),
        cutAfter: () => app.cut.after(pane, this.id, this.relations),
        locate: () => pane.reveal(this.relations, { close: true, near: true }),
      }),
    );
    this.lanesTold();
    this.app.byId("panel").scrollTop = 0;
  }

  decorate(view, pane) {
    if (pane === this.pane && this.relations) view.relations = this.relations;
    else if (pane === this.app.pane) view.relations = this.app.api.roles ?? null;
  }

  // To the first or the last event of its process, where all of them are here.
  async toEdge(pane, key) {
    const row = pane.leaves
      .flatMap(({ shown }) => shown?.data?.events ?? [])
      .filter((event) => event.lane === this.relations.lane)
      .sort((a, b) => (a.index < b.index ? -1 : 1));
    const edge = key === "Home" ? row[0] : row.at(-1);
    if (edge) return this.choose(pane, pane.named(edge.lane, edge.index), { reveal: true });
  }

  // From the chosen event to its neighbours, by keys.
  async step(pane, key) {
    const spots = pane.spots.filter((spot) => spot.x >= 0 && spot.x <= pane.camera.width);
    if (!spots.length) return this.app.say("No single events are in sight: zoom in first (+).");
    const here = this.pane === pane && this.relations ? this.spotIn(pane) : null;
    if (!here) {
      const middle = pane.camera.width / 2;
      const near = spots.reduce((a, b) => (Math.abs(b.x - middle) < Math.abs(a.x - middle) ? b : a));
      return this.choose(pane, pane.named(near.event.lane, near.event.index), { reveal: true });
    }
    const along = key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0;
    const next = along ? neighbour(pane, here, along) : across(pane, here, key === "ArrowDown" ? 1 : -1);
    if (next) return this.choose(pane, pane.named(next.event.lane, next.event.index), { reveal: true });
  }

  // By name: the picture may be a frame behind keys that come fast, and still show the one before as chosen.
  spotIn(pane) {
    const { spots } = pane;
    return spots.find(({ event }) => pane.named(event.lane, event.index) === this.id) ?? spots.find((spot) => spot.role === "selected");
  }
}

const unknown = (error) => {
  if (isAborted(error)) throw error;
  return null; // The count stays unknown; the rest is shown.
};

const neighbour = (pane, here, along) => {
  const row = pane.spots.filter((spot) => spot.row.lane === here.row.lane).sort((a, b) => (a.event.index < b.event.index ? -1 : 1));
  return row[row.findIndex((spot) => spot.event.id === here.event.id) + along];
};

const across = (pane, here, step) => {
  const { rows } = pane.lanes;
  let at = rows.findIndex((row) => row.lane === here.row.lane) + step;
  for (; at >= 0 && at < rows.length; at += step) {
    const row = pane.spots.filter((spot) => spot.row.lane === rows[at].lane);
    if (row.length) return row.reduce((a, b) => (Math.abs(b.x - here.x) < Math.abs(a.x - here.x) ? b : a));
  }
  return null;
};
