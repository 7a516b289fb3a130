// The program of a file that stands alone: every element with `data-diagram` becomes a diagram to explore. Until then,
// without a script and on paper, it shows the drawing that it holds.
import { App } from "../modules/app.js";
import { make } from "../modules/dom.js";
import { readState } from "../modules/state.js";
import { plural, visible } from "../modules/text.js";
import { Given } from "./given.js";

const LANE = 64; // px of a process, where the height is ours to choose.
const AROUND = 215;
const BELOW = 220; // The panel, where it stands below.
const NEAR = 24; // px for each event.

class Drawn extends App {
  constructor(host, data) {
    const root = host.attachShadow({ mode: "open" });
    root.append(document.getElementById("frame").content.cloneNode(true));
    const whole = host.dataset.diagram === "";
    host.classList.toggle("part", !whole);
    super(root, new Given(data), { host, whole });
    this.data = data;
    this.byId("title").textContent = visible(data.title ?? "", 200);
    if (!whole) this.byId("wheel").textContent = "Ctrl + wheel";
    this.startKeys(data.views.length > 1 ? [["r", "fold runs of local events", "fold"]] : []);
    if (data.views.length > 1) this.foldable();
    if (!whole) this.measure();
  }

  // As tall as the processes ask for, within reason: the reader must get past it.
  measure() {
    const below = matchMedia("(max-width: 62rem)").matches ? BELOW : 0;
    const wanted = this.data.processes.length * LANE + AROUND + below;
    this.host.style.height = `${Math.min(innerHeight * 0.88, Math.max(430, wanted))}px`;
  }

  foldable() {
    const fold = this.tool("list", "fold", "Fold", "Draw runs of local events as one sign (r)", { pressed: true });
    fold.setAttribute("aria-label", "Fold local events");
    const show = () => fold.setAttribute("aria-pressed", String(this.api.view.name === "folded"));
    fold.addEventListener("click", () => {
      this.api.use(1 - this.api.number);
      show();
      this.reopen({ ...this.pane.asked });
    });
    show();
  }

  told() {
    super.told();
    const { warnings, marked } = this.pane.overview;
    if (marked) this.byId("facts").append(make("span", `◆ ${plural(marked, "event")} marked`));
    this.byId("warnings").replaceChildren(
      ...warnings.map((text) => {
        const made = make("p", `⚠ ${visible(text, 500)}`, "warning");
        made.setAttribute("role", "note");
        return made;
      }),
    );
  }

  // Near enough to read the names around what was chosen; what led to it stands left.
  approach() {
    const { pane, selection } = this;
    const { camera } = pane;
    const scale = NEAR * camera.density;
    if (selection.relations && camera.scale < scale) camera.look(selection.relations.x, camera.width / scale);
    pane.pan(camera.width * -0.22);
  }

  // What the file was drawn for, unless the address asks for something else.
  async later(state) {
    const { selected, cut } = this.data;
    if (selected !== null && !state.selected) {
      const { owner, index } = this.api.records[selected];
      await this.selection.choose(this.pane, `${this.data.processes[owner]}:${index}`, { reveal: true });
      this.approach();
    }
    if (cut && !state.cut) await this.cut.given(this.pane, cut);
  }
}

const start = (host, data) => {
  if (host.shadowRoot) return;
  try {
    host.diagram = new Drawn(host, data);
  } catch (error) {
    host.shadowRoot?.replaceChildren(make("slot")); // An old browser: what it lacks must not cost the drawing too.
    throw error;
  }
  const { diagram } = host;
  const state = readState(diagram.whole ? location.hash : "");
  diagram.pane.sized.then(() => diagram.restore(state)).then(() => (host.dataset.ready = "true"));
};

const block = document.getElementById("data");
const all = block ? JSON.parse(block.textContent) : {};
for (const host of document.querySelectorAll("[data-diagram]")) {
  const key = host.dataset.diagram;
  const data = key === "" ? all : all[key];
  const folded = host.closest("details:not([open])"); // What is folded away has no size yet.
  if (!folded) start(host, data);
  else folded.addEventListener("toggle", () => folded.open && start(host, data));
}
globalThis.beforehand = document.querySelector("[data-diagram]")?.diagram; // As on the service's page: for tests.
