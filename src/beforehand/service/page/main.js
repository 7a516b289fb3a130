// Puts the parts together. Each part knows the app, and the app knows what is asked of all of them.
import { Api, isAborted } from "./api.js";
import { Compare } from "./compare.js";
import { Cut } from "./cut.js";
import { button, byId, make, say } from "./dom.js";
import { startExporting } from "./exporting.js";
import { startImporting } from "./importing.js";
import { startKeyboard } from "./keyboard.js";
import { drawLegend } from "./legend.js";
import { Live } from "./live.js";
import { Minimap } from "./minimap.js";
import { startTheme } from "./palette.js";
import { Pane } from "./pane.js";
import { startPointer } from "./pointer.js";
import { Search } from "./search.js";
import { Selection } from "./selection.js";
import { hashOf, onState, readState, writeState } from "./state.js";
import { Table } from "./table.js";
import { showTip } from "./tip.js";
import { askToken } from "./token.js";
import { count, plural, visible } from "./text.js";

const JUDGED_MAX = 6; // Times that violations are asked for.

class App {
  constructor() {
    this.api = new Api(askToken);
    this.sources = new Map([[null, "This service"]]); // What was looked at, for comparing.
    this.ready = false; // Until then the address is read, not written.
    this.hooks = {
      decorate: (view, pane) => this.decorate(view, pane),
      moved: (pane) => this.moved(pane),
      drawn: (pane) => this.drawn(pane),
      failed: (error) => say(error.message, { wrong: true }),
    };
    this.pane = new Pane(byId("stage-main"), this.api, this.hooks);
    this.panes = [this.pane];
    this.active = this.pane; // The one that keys move.
    this.selection = new Selection(this);
    this.cut = new Cut(this);
    this.compare = new Compare(this);
    this.minimap = new Minimap(this);
    this.table = new Table(this);
    this.live = new Live(this);
    this.search = new Search(this);
    this.adopt(this.pane);
    this.buttons();
    startTheme(byId("theme"), () => this.recolour());
    startKeyboard(this);
    startImporting(this);
    startExporting(this);
    onState((state) => this.restore(state));
  }

  buttons() {
    byId("in").addEventListener("click", () => this.active.zoom(1.8));
    byId("out").addEventListener("click", () => this.active.zoom(1 / 1.8));
    byId("fit").addEventListener("click", () => this.active.fit());
    byId("axis").addEventListener("click", () => this.turnAxis());
    byId("execution").addEventListener("change", (event) => {
      const [source, execution] = JSON.parse(event.target.value);
      this.open({ source, execution, axis: null }).catch((error) => this.failed(error));
    });
  }

  // Panes.

  adopt(pane) {
    if (!this.panes.includes(pane)) this.panes.push(pane);
    startPointer(pane, {
      pick: (where, spot) => {
        this.active = where;
        this.selection.choose(where, spot ? where.named(spot.event.lane, spot.event.index) : null);
      },
      hover: showTip,
      nearer: (where, x) => where.zoom(4, x),
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
    this.compare.decorate(view, pane);
  }

  moved(pane) {
    if (pane !== this.pane) return;
    this.remember();
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
    drawLegend(byId("legend"));
    this.redraw();
  }

  focusStage() {
    this.active.canvas.focus();
  }

  // What is looked at.

  async open(asked) {
    this.compare.close();
    this.cut.close();
    this.selection.choose(null, null);
    this.live.stop();
    await this.pane.open(asked);
    const { source } = this.pane.asked;
    if (!this.sources.has(source)) this.sources.set(source, `File ${source}`);
    this.pane.lanes.restore({});
    if (this.search.asked) this.search.run("");
    this.told();
    this.remember();
  }

  async turnAxis() {
    const { source, execution, axis } = this.pane.asked;
    const { selection } = this;
    const chosen = selection.id;
    const lanes = this.pane.lanes.state;
    try {
      await this.open({ source, execution, axis: axis === "steps" ? "time" : "steps" });
      this.pane.lanes.restore(lanes);
      this.pane.relay();
      if (chosen !== null) await selection.choose(this.pane, chosen, { reveal: true });
    } catch (error) {
      this.failed(error);
    }
  }

  // The head of the page, after something new is known.
  told() {
    const { overview } = this.pane;
    this.executions();
    const facts = [
      plural(overview.events, "event"),
      `${count(overview.processes.length)} ${overview.processes.length === 1 ? "process" : "processes"}`,
    ];
    if (overview.failures) facts.push(`▲ ${plural(overview.failures, "failure")}`);
    if (overview.violations) facts.push(`◆ ${plural(overview.violations, "violation")}`);
    byId("facts").replaceChildren(...facts.map((fact) => make("span", fact)));
    byId("axis").textContent = overview.axis === "steps" ? "Steps" : "Time";
    byId("axis").setAttribute("aria-label", `The axis is causal ${overview.axis === "steps" ? "steps" : "time"}. Change it`);
    byId("live").disabled = overview.source !== "store";
    const title = overview.execution ? `${visible(overview.execution, 80)} · Beforehand` : "Beforehand";
    document.title = title;
    this.minimap.load();
    this.judge();
  }

  // What else there is to look at: other executions, and other sources.
  executions() {
    const { overview, asked } = this.pane;
    const names = overview.executions.map((one) => one.execution);
    if (overview.execution !== null && !names.includes(overview.execution)) names.unshift(overview.execution);
    const option = (text, source, execution) => {
      const made = make("option", visible(text, 80));
      made.value = JSON.stringify([source, execution]);
      made.selected = source === asked.source && execution === overview.execution;
      return made;
    };
    const here = make("optgroup");
    here.label = visible(this.sources.get(asked.source), 60);
    here.append(...names.map((name) => option(name || "(unnamed execution)", asked.source, name)));
    const elsewhere = make("optgroup");
    elsewhere.label = "Others";
    for (const [source, title] of this.sources) {
      if (source !== asked.source) elsewhere.append(option(title, source, null));
    }
    byId("execution").replaceChildren(here, ...(elsewhere.childElementCount ? [elsewhere] : []));
    byId("execution").hidden = !names.length && !elsewhere.childElementCount;
  }

  // Violations are looked for when somebody looks: they are asked for again a few times, and then shown.
  judge(tries = 0) {
    const { overview } = this.pane;
    clearTimeout(this.judging);
    if (overview.violations !== null || !overview.events || tries >= JUDGED_MAX) return;
    this.judging = setTimeout(async () => {
      try {
        await this.live.follow();
        if (this.pane.overview.violations === null) this.judge(tries + 1);
        else this.told();
      } catch {
        this.judge(tries + 1); // The diagram is as good as it was.
      }
    }, 800 * 2 ** tries);
  }

  hiddenLanes() {
    const { lanes } = this.pane;
    const box = byId("hidden-lanes");
    const hidden = lanes.state.hidden;
    if (box.dataset.count === String(hidden.length)) return;
    box.dataset.count = String(hidden.length);
    box.hidden = !hidden.length;
    const text = `${hidden.length} ${hidden.length === 1 ? "process is" : "processes are"} hidden `;
    box.replaceChildren(text, button("Show all", () => this.showAll()));
  }

  showAll() {
    this.pane.lanes.showAll();
    this.pane.relay();
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
      ...this.compare.state,
    };
  }

  remember() {
    if (this.ready) writeState(() => this.state);
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
        this.pane.camera.look(state.at, state.width);
        this.pane.moved();
      }
      if (state.where) await this.search.run(state.where, { move: false });
      if (state.selected) await this.selection.choose(this.pane, state.selected);
      if (state.cut) await this.cut.restore(state.cut);
      if (state.against !== null) await this.compare.open(state.othersource, state.against);
    } catch (error) {
      this.failed(error);
    }
    this.ready = true;
    this.remember();
  }

  // A file that the service has forgotten must not leave the page empty.
  async first({ source, execution, axis }) {
    try {
      await this.open({ source, execution, axis });
    } catch (error) {
      if (source === null && execution === null) throw error;
      this.failed(error);
      await this.open({ source: null, execution: null, axis: null });
    }
    if (this.pane.overview.source === "store" && !this.pane.overview.events) this.live.start();
  }

  failed(error) {
    if (!isAborted(error)) say(error.message, { wrong: true });
  }
}

const app = new App();
globalThis.beforehand = app; // For a console, for tests and for measurements; no interface to rely on.
app.restore(readState()).then(() => {
  document.documentElement.dataset.ready = "true";
});
