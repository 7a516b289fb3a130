// Two executions beside each other. The service aligns them process by process; what only one has is framed by a
// square, and the panel says how many and where they part.
import { isAborted } from "./errors.js";
import { button, make, named } from "./dom.js";
import { Pane } from "./pane.js";
import { count, visible, whole } from "./text.js";

const NAMED = 60; // Processes in the panel.

export class Compare {
  constructor(app) {
    this.app = app;
    this.other = null;
    this.only = new Map(); // Pane to the ids that only it has.
    this.app.byId("compare").addEventListener("click", () => (this.other ? this.close() : this.choose()));
  }

  get state() {
    if (!this.other) return { against: null, othersource: null };
    return { against: this.other.asked.execution, othersource: this.other.asked.source };
  }

  // Which execution: of this source, of what the service serves, or of a file opened before.
  async choose() {
    const { app } = this;
    const select = this.app.byId("against");
    select.replaceChildren();
    const { source, execution } = app.pane.asked;
    for (const [known, title] of app.sources) {
      let overview;
      try {
        overview = known === source ? app.pane.overview : await app.api.get("/api/overview", { source: known });
      } catch {
        continue; // A file that the service has forgotten.
      }
      const group = make("optgroup");
      group.label = visible(title, 60);
      for (const one of overview.executions) {
        if (known === source && one.execution === execution) continue;
        const option = make("option", `${visible(one.execution || "(unnamed)", 80)} · ${count(one.events)} events`);
        option.value = JSON.stringify([known, one.execution]);
        group.append(option);
      }
      if (group.childElementCount) select.append(group);
    }
    if (!select.childElementCount) {
      return this.app.say("There is no other execution to compare with. Open a second file first, or report one.", { wrong: true });
    }
    const dialog = this.app.byId("choosing");
    dialog.returnValue = "";
    dialog.showModal();
    dialog.addEventListener(
      "close",
      () => {
        if (dialog.returnValue !== "use" || !select.value) return;
        const [otherSource, name] = JSON.parse(select.value);
        this.open(otherSource, name);
        app.pane.fit();
      },
      { once: true },
    );
  }

  async open(source, execution) {
    this.close();
    const { app } = this;
    const root = this.app.byId("stage-main").cloneNode(true);
    root.id = "stage-other";
    root.querySelector(".heads").replaceChildren();
    this.app.byId("panes").append(root);
    this.app.byId("panes").classList.add("two");
    const other = new Pane(root, app.api, app.hooks);
    this.other = other;
    app.adopt(other);
    this.app.byId("compare").setAttribute("aria-pressed", "true");
    try {
      await other.open({ source, execution, axis: app.pane.asked.axis });
      this.title(app.pane, "First");
      this.title(other, "Second");
      const found = await app.api.get("/api/compare", {
        first: app.pane.asked.execution,
        second: other.asked.execution,
        source: app.pane.asked.source,
        source2: other.asked.source ?? (app.pane.asked.source ? "store" : null),
      });
      if (this.other !== other) return;
      this.only.set(app.pane, new Set(found.processes.flatMap((one) => one.only_first_ids)));
      this.only.set(other, new Set(found.processes.flatMap((one) => one.only_second_ids)));
      this.show(found);
      app.redraw();
      app.judge(); // The second may never have been looked at before.
    } catch (error) {
      if (!isAborted(error)) this.app.say(error.message, { wrong: true });
    }
    app.remember();
  }

  title(pane, word) {
    const title = pane.root.querySelector(".pane-title");
    title.hidden = false;
    title.replaceChildren(make("b", `${word}: `), named(visible(pane.asked.execution || "(unnamed)", 80)));
    title.append(make("span", ` ${count(pane.overview.events)} events`, "quiet"));
  }

  close() {
    this.app.byId("compared").replaceChildren();
    this.app.byId("compare").setAttribute("aria-pressed", "false");
    if (!this.other) return;
    const { other, app } = this;
    this.other = null;
    this.only.clear();
    if (app.selection.pane === other) app.selection.choose(null, null);
    app.release(other);
    other.close();
    other.root.remove();
    this.app.byId("panes").classList.remove("two");
    app.pane.root.querySelector(".pane-title").hidden = true;
    app.remember();
    app.redraw();
  }

  show(found) {
    const parts = [make("h2", found.same ? "The same steps" : "Where they differ")];
    if (found.same) parts.push(make("p", "Every process does the same in both, in the same order.", "quiet"));
    for (const note of found.notes) parts.push(make("p", whole(note), "note"));
    const differing = found.processes.filter((one) => one.only_first || one.only_second);
    const list = make("ul", "", "differences");
    for (const one of differing.slice(0, NAMED)) {
      const item = make("li");
      item.append(named(visible(one.name, 60), "id"));
      item.append(make("p", `${count(one.common)} in common · only first ${count(one.only_first)} · only second ${count(one.only_second)}`, "quiet"));
      if (one.first_difference) {
        const { first, second } = one.first_difference;
        item.append(button("Show where they part", () => this.part(first, second), { label: `Show where the two part on ${visible(one.name, 60)}` }));
      }
      list.append(item);
    }
    if (differing.length > NAMED) list.append(make("li", `and ${count(differing.length - NAMED)} more processes`, "quiet"));
    parts.push(list);
    this.app.byId("compared").replaceChildren(...parts);
  }

  async part(first, second) {
    const { app, other } = this;
    if (second !== null) await app.selection.choose(other, other.local(second), { reveal: true });
    if (first !== null) {
      if (second === null) return app.selection.choose(app.pane, app.pane.local(first), { reveal: true });
      const { source, execution, axis } = app.pane.asked;
      const place = await app.api.get("/api/lookup", { id: app.pane.local(first), source, execution, axis });
      app.pane.reveal(place, { close: true });
    }
  }

  decorate(view, pane) {
    view.only = this.only.get(pane) ?? null;
  }
}
