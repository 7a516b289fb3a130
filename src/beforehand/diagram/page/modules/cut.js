// A consistent cut: at a time, by the slider below the diagram, or after an event.
import { isAborted } from "./errors.js";
import { make, named } from "./dom.js";
import { clock, elapsed, plural, visible } from "./text.js";

const STEPS = 2000; // Of the slider, over the width of the diagram.
const WAIT_MS = 120;
const NAMED = 40;

export class Cut {
  constructor(app) {
    this.app = app;
    this.front = null; // {x: time or null, cut, places}
    this.flight = new Set();
    this.event = null; // The event that it is after, if it is after one.
    this.timer = 0;
    this.control = null;
    this.slider = this.app.byId("cut-slider");
    this.slider.max = String(STEPS);
    this.slider.addEventListener("input", () => this.slide());
    this.app.byId("cut-toggle").addEventListener("click", () => this.toggle());
    this.app.byId("cut-close").addEventListener("click", () => this.close());
  }

  get state() {
    if (!this.front || (this.event === null && this.front.x === null)) return null;
    return this.event !== null ? `after:${this.event}` : `at:${this.front.x}`;
  }

  async restore(text) {
    if (!text) return this.close();
    const { pane } = this.app;
    if (text.startsWith("after:")) return this.after(pane, text.slice(6));
    const x = Number(text.slice(3));
    if (text.startsWith("at:") && Number.isFinite(x)) return this.at(pane, x);
  }

  toggle() {
    if (this.front) return this.close();
    const { pane } = this.app;
    return this.at(pane, pane.camera.map.time(pane.camera.width / 2));
  }

  close() {
    this.control?.abort();
    clearTimeout(this.timer);
    this.front = null;
    this.event = null;
    this.flight = new Set();
    this.app.byId("cut-bar").hidden = true;
    this.app.byId("cut-toggle").setAttribute("aria-pressed", "false");
    this.app.redraw();
    this.app.remember();
  }

  slide() {
    const { pane } = this.app;
    const x = pane.camera.map.time((Number(this.slider.value) / STEPS) * pane.camera.width);
    this.event = null;
    this.open();
    this.front = { x: this.held(pane, x), cut: {}, places: null, upright: true };
    this.app.redraw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.at(pane, x), WAIT_MS);
  }

  held(pane, x) {
    return Math.round(Math.min(Math.max(x, 0), pane.overview.span));
  }

  open() {
    this.app.byId("cut-bar").hidden = false;
    this.app.byId("cut-toggle").setAttribute("aria-pressed", "true");
  }

  async at(pane, wanted) {
    const x = this.held(pane, wanted);
    const { origin, unit } = pane.overview;
    const { axis } = pane.asked;
    const question = axis === "time" ? { at: String(BigInt(origin) + BigInt(x) * BigInt(unit ?? 1)) } : this.stepsBefore(pane, x);
    if (!question) return this.app.say("Zoom in to cut here: this history has no times, so a cut goes by its events.");
    this.event = null;
    const label = axis === "steps" ? `step ${x}` : `${elapsed(x * (unit ?? 1))} · ${clock(BigInt(origin) + BigInt(x) * BigInt(unit ?? 1))}`;
    // Along the clocks of the processes a cut is not upright: what happened before it may be later by its own clock.
    await this.ask(pane, question, { x, places: null, upright: axis !== "clocks" }, `Cut at ${label}`);
  }

  // A cut that is known already, process by process.
  async given(pane, cut) {
    const after = Object.entries(cut).map(([process, index]) => `${process}:${index}`);
    this.event = null;
    await this.ask(pane, { after }, { x: null, places: null }, "Cut");
  }

  // Without times: after the last event of every lane until here.
  stepsBefore(pane, x) {
    if (pane.detail !== "events") return null;
    const last = new Map();
    for (const { shown } of pane.leaves) {
      for (const event of shown?.data?.events ?? []) {
        if (event.x <= x && event.index > (last.get(event.lane)?.index ?? 0)) last.set(event.lane, event);
      }
    }
    const after = [...last.values()].map((event) => pane.named(event.lane, event.index));
    return after.length ? { after } : null;
  }

  async after(pane, id, relations = null) {
    let known = relations;
    try {
      const { source, execution, axis } = pane.asked;
      known ??= await this.app.api.get("/api/relations", { source, execution, id, axis });
    } catch (error) {
      return this.app.say(error.message, { wrong: true });
    }
    const rows = [...(known.lanes?.values?.() ?? [])].map((one) => [one.lane, { x: one.past_x }]);
    const places = new Map([...rows, [known.lane, { x: known.x }]]);
    this.event = id;
    await this.ask(pane, { after: id }, { x: null, places }, `Cut after ${visible(id, 80)}`);
  }

  async ask(pane, question, front, title) {
    this.control?.abort();
    this.control = new AbortController();
    const { source, execution } = pane.asked;
    try {
      const found = await this.app.api.get("/api/cut", { ...question, source, execution }, { signal: this.control.signal });
      this.open();
      this.front = { ...front, cut: found.cut };
      this.flight = new Set(found.in_flight);
      this.show(pane, found, title);
    } catch (error) {
      if (!isAborted(error)) this.app.say(error.message, { wrong: true });
    }
  }

  show(pane, found, title) {
    const events = found.events ?? Object.values(found.cut).reduce((sum, index) => sum + index, 0);
    const box = this.app.byId("cut-says");
    const processes = Object.values(found.cut).filter((index) => index > 0).length;
    box.replaceChildren(
      make("b", title),
      ` · ${plural(events, "event")} on ${plural(processes, "process").replace("processs", "processes")} inside · ${
        found.consistent ? "consistent" : "not consistent"
      } · `,
      make("b", `${plural(found.in_flight.length, "message")} in flight`),
    );
    if (found.in_flight.length) {
      const names = found.in_flight.slice(0, NAMED).map((one) => visible(one, 40)).join(", ");
      box.append(": ", named(names), found.in_flight.length > NAMED ? ", …" : "");
    }
    if (found.unreceived?.length) box.append(` · ${plural(found.unreceived.length, "message")} never received`);
    this.app.redraw();
    this.app.remember();
  }

  // Keeps the handle below the front when the diagram moves.
  follow(pane) {
    if (!this.front || pane !== this.app.pane || this.app.root.activeElement === this.slider || this.front.x === null) return;
    const px = pane.camera.map.pos(this.front.x, Infinity);
    this.slider.value = String(Math.round((px / pane.camera.width) * STEPS));
  }

  decorate(view, pane) {
    if (pane !== this.app.pane || !this.front) return;
    view.front = this.front;
    view.flight = this.flight;
  }
}
