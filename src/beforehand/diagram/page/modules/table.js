// The events in sight as a list, for those who read instead of look. Updated when the picture has come to rest.
import { button, make, named } from "./dom.js";
import { count, elapsed, plural, visible } from "./text.js";

const ROWS = 300;
const REST_MS = 250;
const ROLES = { past: "◐ before", future: "◑ after", concurrent: "◌ concurrent", selected: "◉ chosen", plain: "" };

export class Table {
  constructor(app) {
    this.app = app;
    this.timer = 0;
    this.app.byId("list").addEventListener("click", () => {
      const section = this.app.byId("listing");
      section.hidden = !section.hidden;
      this.app.byId("list").setAttribute("aria-pressed", String(!section.hidden));
      this.write();
    });
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), REST_MS);
  }

  write() {
    const { active: pane } = this.app;
    if (!pane.overview) return;
    const sight = pane.spots.filter((spot) => spot.x >= 0 && spot.x <= pane.camera.width);
    const far = pane.detail === "columns";
    const what = far
      ? `Too many events in sight to draw each: ${plural(pane.lanes.rows.length, "lane")} as strips of counts. Zoom in for single events.`
      : `${plural(sight.length, "event")} in sight on ${plural(pane.lanes.rows.length, "lane")}.`;
    this.app.byId("sight").textContent = `${what} Arrow keys choose events, plus and minus zoom, question mark lists all keys.`;
    const section = this.app.byId("listing");
    if (section.hidden) return;
    section.replaceChildren(make("p", what, "quiet"), far ? this.lanes(pane) : this.events(pane, sight));
  }

  events(pane, sight) {
    const table = make("table");
    table.append(headed(["event", "name", "kind", pane.asked.axis === "steps" ? "step" : "causal time", "relation"]));
    const body = make("tbody");
    const ordered = [...sight].sort((a, b) => a.event.x - b.event.x || a.event.depth - b.event.depth || a.row.y - b.row.y);
    for (const { event, role } of ordered.slice(0, ROWS)) {
      const row = make("tr");
      const choose = button("", () => this.app.selection.choose(pane, pane.named(event.lane, event.index)), { className: "jump" });
      choose.append(named(visible(pane.named(event.lane, event.index), 80)));
      const mark = event.violation ? " ◆ violation" : event.failure ? " ▲ failure" : "";
      const at = pane.asked.axis === "steps" ? count(event.x) : elapsed(event.x * (pane.overview.unit ?? 1));
      for (const [cell, className] of [[choose], [named(visible(event.name, 120))], [event.kind + mark], [at, "time"], [ROLES[role] ?? ""]]) {
        const data = make("td", "", className ?? "");
        data.append(cell);
        row.append(data);
      }
      body.append(row);
    }
    table.append(body);
    if (ordered.length <= ROWS) return table;
    const box = make("div");
    box.append(table, make("p", `and ${count(ordered.length - ROWS)} more: zoom in`, "quiet"));
    return box;
  }

  lanes(pane) {
    const table = make("table");
    table.append(headed(["process", "events", "failures"]));
    const body = make("tbody");
    for (const { name, process } of pane.lanes.rows.slice(0, ROWS)) {
      const row = make("tr");
      const cell = make("td");
      cell.append(named(visible(name, 80)));
      row.append(cell, make("td", count(process.events)), make("td", count(process.failures ?? 0)));
      body.append(row);
    }
    table.append(body);
    return table;
  }
}

const headed = (titles) => {
  const head = make("thead");
  const row = make("tr");
  for (const title of titles) {
    const cell = make("th", title);
    cell.scope = "col";
    row.append(cell);
  }
  head.append(row);
  return head;
};
