// The page of the service: the app of every diagram, with what only a service can do. It follows what is reported,
// reads files, compares executions, and asks for a token.
import { Api } from "./api.js";
import { App } from "./app.js";
import { Compare } from "./compare.js";
import { make } from "./dom.js";
import { startImporting } from "./importing.js";
import { Live } from "./live.js";
import { readState } from "./state.js";
import { count, plural, visible } from "./text.js";
import { tokenFrom } from "./token.js";

const JUDGED_MAX = 6; // Times that violations are asked for.

class Service extends App {
  constructor() {
    super(document, new Api((why) => tokenFrom(this, why)));
    this.sources = new Map([[null, "This service"]]); // What was looked at, for comparing.
    this.head();
    this.compare = new Compare(this);
    this.live = new Live(this);
    startImporting(this);
    this.startKeys([
      ["m", "compare with another execution", "compare"],
      ["v", "follow what is reported", "live"],
      ["o", "look at a file", "import"],
    ]);
    this.select.addEventListener("change", () => {
      const [source, execution] = JSON.parse(this.select.value);
      this.open({ source, execution, axis: null }).catch((error) => this.failed(error));
    });
  }

  // What the head has here and not in a file.
  head() {
    const sign = make("img");
    Object.assign(sign, { src: "/page/sign.svg", alt: "", width: 26, height: 26 });
    this.byId("brand").prepend(sign);
    this.byId("title").textContent = "Beforehand";
    this.byId("nothing").textContent = "No events are here yet. Report some, or drop a file on this page.";
    this.select = make("select");
    this.select.id = "execution";
    this.select.setAttribute("aria-label", "Execution");
    this.byId("what").append(this.select);
    this.tool("list", "compare", "Compare", "Compare with another execution (m)", { pressed: true });
    this.byId("list").after(this.tool("list", "live", "Live", "Follow what is reported (v)", { pressed: true }));
    this.tool("export", "import", "Open", "Look at a file (o), or drop one here");
    const compared = make("div");
    compared.id = "compared";
    this.byId("panel").prepend(compared);
  }

  decorate(view, pane) {
    super.decorate(view, pane);
    this.compare.decorate(view, pane);
  }

  async open(asked) {
    this.compare.close();
    this.live.stop();
    await super.open(asked);
    const { source } = this.pane.asked;
    if (!this.sources.has(source)) {
      this.sources.set(source, `File ${source}`);
      this.executions();
    }
  }

  told() {
    super.told();
    const { overview } = this.pane;
    this.executions();
    this.byId("live").disabled = overview.source !== "store";
    document.title = overview.execution ? `${visible(overview.execution, 80)} · Beforehand` : "Beforehand";
    this.judge();
  }

  // What else there is to look at: other executions, and other sources.
  executions() {
    const { overview, asked } = this.pane;
    const all = overview.executions.map((one) => (one.execution === overview.execution ? { ...one, failures: overview.failures } : one));
    if (overview.execution !== null && !all.some((one) => one.execution === overview.execution)) all.unshift(overview);
    all.sort((a, b) => Boolean(b.failures) - Boolean(a.failures)); // Those that failed first, else as they come.
    const names = shortNames(all.map((one) => one.execution));
    const option = (text, source, execution, title = "") => {
      const made = make("option", visible(text, 120));
      made.title = title;
      made.value = JSON.stringify([source, execution]);
      made.selected = source === asked.source && execution === overview.execution;
      return made;
    };
    const here = make("optgroup");
    here.label = visible(this.sources.get(asked.source) ?? `File ${asked.source}`, 60);
    here.append(...all.map((one, at) => option(aboutExecution(one, names[at]), asked.source, one.execution, visible(one.execution, 400))));
    const elsewhere = make("optgroup");
    elsewhere.label = "Others";
    for (const [source, title] of this.sources) {
      if (source !== asked.source) elsewhere.append(option(title, source, null));
    }
    this.select.replaceChildren(here, ...(elsewhere.childElementCount ? [elsewhere] : []));
    this.select.hidden = !all.length && !elsewhere.childElementCount;
  }

  // Violations are looked for when somebody looks: they are asked for again a few times, and then shown.
  judge(tries = 0) {
    const unjudged = () => [this.pane, this.compare.other].filter((pane) => pane?.overview?.events && pane.overview.violations === null);
    clearTimeout(this.judging);
    if (!unjudged().length || tries >= JUDGED_MAX) return;
    this.judging = setTimeout(async () => {
      try {
        for (const pane of unjudged()) await (pane === this.pane ? this.live.follow() : pane.refresh());
        if (unjudged().length) this.judge(tries + 1);
        else this.told();
      } catch {
        this.judge(tries + 1); // The diagram is as good as it was.
      }
    }, 800 * 2 ** tries);
  }

  get state() {
    return { ...super.state, ...this.compare.state };
  }

  // A file that the service has forgotten must not leave the page empty.
  async first(state) {
    const { source, execution } = state;
    try {
      await super.first(state);
    } catch (error) {
      if (source === null && execution === null) throw error;
      this.failed(error);
      await this.open({ source: null, execution: null, axis: null });
    }
    if (this.pane.overview.source === "store" && !this.pane.overview.events) this.live.start();
  }

  async later({ against, othersource }) {
    if (against !== null) await this.compare.open(othersource, against);
  }
}

const LONG = /^[0-9a-f-]{16,}$/i; // The ids of traces: their two ends tell them apart.

const shortNames = (names) => {
  const short = names.map((name) => (LONG.test(name) ? `${name.slice(0, 4)}…${name.slice(-4)}` : visible(name || "(unnamed)", 60)));
  return short.map((name, at) => (short.indexOf(name) === short.lastIndexOf(name) ? name : visible(names[at] || "(unnamed)", 80)));
};

const aboutExecution = ({ events, failures }, name) => `${name} · ${plural(events, "event")}${failures ? ` · ▲ ${count(failures)}` : ""}`;

const app = new Service();
globalThis.beforehand = app; // For a console, for tests and for measurements; no interface to rely on.
app.restore(readState()).then(() => {
  document.documentElement.dataset.ready = "true";
});
