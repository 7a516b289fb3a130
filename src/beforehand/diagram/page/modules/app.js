// Puts the parts together. Each part knows the app, and the app knows what is asked of all of them.
//
// An app lives in one tree of the document: in the document itself, or in a shadow root, so that several can stand on
// one page and none sees the elements, ids or keys of another. What it draws it asks of `api`, which is a service or
// the data of a file: the parts cannot tell.
import { Cut } from "./cut.js";
import { button, make, named } from "./dom.js";
import { isAborted } from "./errors.js";
import { startExporting } from "./exporting.js";
import { startKeyboard } from "./keyboard.js";
import { drawLegend } from "./legend.js";
import { Minimap } from "./minimap.js";
import { startTheme } from "./palette.js";
import { Pane } from "./pane.js";
import { startPointer } from "./pointer.js";
import { Search } from "./search.js";
import { Selection } from "./selection.js";
import { hashOf, onState, writeState } from "./state.js";
import { Table } from "./table.js";
import { tipOf } from "./tip.js";
import { count, plural } from "./text.js";

const AXES = {
  time: ["Time", "causal time"],
  steps: ["Steps", "causal steps"],
  clocks: ["Clocks", "the clocks of the processes"],
};

export class App {
  // `host`: where the theme is set; `whole`: the page is this app's alone, with all keys, the wheel and the address.
  constructor(root, api, { host = document.documentElement, whole = true } = {}) {
    Object.assign(this, { root, api, host, whole });
    this.ready = false; // Until then the address is read, not written.
    this.hooks = {
      decorate: (view, pane) => this.decorate(view, pane),
      moved: (pane) => this.moved(pane),
      drawn: (pane) => this.drawn(pane),
      failed: (error) => this.failed(error),
    };
    this.pane = new Pane(this.byId("stage-main"), api, this.hooks);
    this.panes = [this.pane];
    this.active = this.pane; // The one that keys move.
    this.selection = new Selection(this);
    this.cut = new Cut(this);
    this.minimap = new Minimap(this);
    this.table = new Table(this);
    this.search = new Search(this);
    this.tip = tipOf(this);
    this.adopt(this.pane);
    this.buttons();
    startTheme(this, () => this.recolour());
    startExporting(this);
    if (whole) onState((state) => this.restore(state));
  }

  byId(id) {
    return this.root.getElementById(id);
  }

  // Said by screen readers, and seen by all for a while.
  say(text, { wrong = false } = {}) {
    const box = this.byId("notice");
    box.replaceChildren(named(text));
    box.classList.toggle("wrong", wrong);
    box.hidden = !text;
    clearTimeout(this.hush);
    if (text && !wrong) this.hush = setTimeout(() => (box.hidden = true), 6000);
  }

  failed(error) {
    if (!isAborted(error)) this.say(error.message, { wrong: true });
  }

  // A button more, before another one.
  tool(before, id, text, title, { pressed = false } = {}) {
    const made = make("button", text);
    made.id = id;
    made.type = "button";
    made.title = title;
    if (pressed) made.setAttribute("aria-pressed", "false");
    this.byId(before).before(made);
    return made;
  }

  startKeys(more = []) {
    startKeyboard(this, more);
  }

  buttons() {
    this.byId("in").addEventListener("click", () => this.active.zoom(1.8));
    this.byId("out").addEventListener("click", () => this.active.zoom(1 / 1.8));
    this.byId("fit").addEventListener("click", () => this.active.fit());
  }

  // Panes.

  adopt(pane) {
    if (!this.panes.includes(pane)) this.panes.push(pane);
    startPointer(pane, {
      pick: (where, spot) => {
        this.active = where;
        this.selection.choose(where, spot ? where.named(spot.event.lane, spot.event.index) : null);
      },
      hover: this.tip,
      nearer: (where, x) => where.zoom(4, x),
      wheel: this.whole, // Else the wheel scrolls the page, and zooms with Ctrl only.
    });
    pane.canvas.addEventListener("focus", () => (this.active = pane));
  }

  release(pane) {
    this.panes = this.panes.filter((one) => one !== pane);
    if (this.active === pane) this.active = this.pane;
  }

  decorate(view, pane) {
    this.selection.decorate(view, pane);
    this.search.decorate(view, pane);
    this.cut.decorate(view, pane);
  }

  moved(pane) {
    if (pane === this.pane) this.remember();
  }

  drawn(pane) {
    this.table.later();
    if (pane !== this.pane) return;
    this.cut.follow(pane);
    this.minimap.draw();
    this.hiddenLanes();
  }

  redraw() {
    for (const pane of this.panes) pane.redraw();
  }

  recolour() {
    drawLegend(this.byId("legend"));
    this.redraw();
  }

  focusStage() {
    this.active.canvas.focus();
  }

  // What is looked at.

  async open(asked) {
    this.cut.close();
    this.selection.choose(null, null);
    await this.pane.open(asked);
    this.pane.lanes.restore({});
    if (this.search.asked) this.search.run("");
    this.told();
    this.remember();
  }

  // The same events along another axis, or folded otherwise.
  async reopen(asked) {
    const chosen = this.selection.id;
    const lanes = this.pane.lanes.state;
    const { asked: where, at } = this.search;
    try {
      await this.open(asked);
      this.pane.lanes.restore(lanes);
      this.pane.relay();
      if (chosen !== null) await this.selection.choose(this.pane, chosen, { reveal: true });
      if (where) await this.search.run(where, { move: false, at });
    } catch (error) {
      this.failed(error);
    }
  }

  turnAxis() {
    const { axes } = this;
    return this.useAxis(axes[(axes.indexOf(this.pane.asked.axis) + 1) % axes.length]);
  }

  useAxis(axis) {
    const { source, execution, axis: used } = this.pane.asked;
    if (axis !== used) return this.reopen({ source, execution, axis });
  }

  get axes() {
    return this.pane.overview.axes ?? ["time", "steps"];
  }

  // The head of the page, after something new is known.
  told() {
    const { overview } = this.pane;
    const facts = [
      plural(overview.events, "event"),
      `${count(overview.processes.length)} ${overview.processes.length === 1 ? "process" : "processes"}`,
    ];
    if (overview.failures) facts.push(`▲ ${plural(overview.failures, "failure")}`);
    if (overview.violations) facts.push(`◆ ${plural(overview.violations, "violation")}`);
    this.byId("facts").replaceChildren(...facts.map((fact) => make("span", fact)));
    this.axisTold();
    this.byId("never").hidden = overview.axis === "clocks"; // Clocks disagree.
    this.minimap.load();
  }

  // All axes that there are, and which one is used.
  axisTold() {
    const box = this.byId("axis");
    const { axes } = this;
    box.hidden = axes.length < 2;
    if (box.dataset.axes !== axes.join()) {
      box.dataset.axes = axes.join();
      box.replaceChildren(
        ...axes.map((axis) => {
          const [word, meaning] = AXES[axis];
          const made = button(word, () => this.useAxis(axis));
          made.dataset.axis = axis;
          made.title = `From left to right: ${meaning} (s turns to the next)`;
          return made;
        }),
      );
    }
    for (const one of box.children) one.setAttribute("aria-pressed", String(one.dataset.axis === this.pane.overview.axis));
  }

  hiddenLanes() {
    const { lanes } = this.pane;
    const box = this.byId("hidden-lanes");
    const hidden = lanes.state.hidden;
    if (box.dataset.count === String(hidden.length)) return;
    box.dataset.count = String(hidden.length);
    box.hidden = !hidden.length;
    const text = `${hidden.length} ${hidden.length === 1 ? "process is" : "processes are"} hidden `;
    box.replaceChildren(text, button("Show all", () => this.showAll()));
    this.selection.lanesTold();
  }

  showAll(pane = this.pane) {
    pane.lanes.showAll();
    pane.relay();
  }

  foldAll() {
    this.active.lanes.foldAll();
    this.active.relay();
  }

  cutBy(steps) {
    const { slider } = this.cut;
    if (!this.cut.front) return this.cut.toggle();
    slider.value = String(Number(slider.value) + steps * 20);
    this.cut.slide();
  }

  // The address.

  get state() {
    const { camera, fitted, asked, lanes } = this.pane;
    const width = camera.width / camera.scale;
    return {
      source: asked.source,
      execution: asked.execution,
      axis: asked.axis,
      selected: this.selection.pane === this.pane ? this.selection.id : null,
      where: this.search.asked || null,
      cut: this.cut.state,
      at: fitted ? null : Math.round(camera.map.time(camera.width / 2)),
      width: fitted ? null : Number(width.toPrecision(6)),
      ...lanes.state,
    };
  }

  remember() {
    if (this.ready && this.whole) writeState(() => this.state);
  }

  link() {
    return location.href.replace(/#.*$/, "") + hashOf(this.state);
  }

  async restore(state) {
    this.ready = false;
    try {
      await this.first(state);
      this.pane.lanes.restore(state);
      this.pane.relay();
      if (state.at !== null && state.width) {
        this.pane.fitted = this.pane.pinned = false;
        this.pane.approached = null;
        this.pane.camera.look(state.at, state.width);
        this.pane.moved();
      }
      if (state.where) await this.search.run(state.where, { move: false });
      if (state.selected) await this.selection.choose(this.pane, state.selected);
      if (state.cut) await this.cut.restore(state.cut);
      await this.later(state);
    } catch (error) {
      this.failed(error);
    }
    this.ready = true;
    this.remember();
  }

  // What is opened before the rest of an address is restored, and what after it.
  async first({ source, execution, axis }) {
    await this.open({ source, execution, axis });
  }

  async later() {}
}
