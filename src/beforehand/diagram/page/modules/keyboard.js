// The keys. All that a pointer can do can be done with them; the list in the page is made from the same table.
import { make } from "./dom.js";

const PAN = 120; // px

export const startKeyboard = (app, more = []) => {
  const press = (id) => () => app.byId(id).click();
  const pane = () => app.active;
  const keys = [
    ["/", "search", () => app.byId("search").focus()],
    ["n", "next match", () => app.search.step(1)],
    ["N", "previous match", () => app.search.step(-1)],
    ["← → ↑ ↓", "go from event to event, along a process and across", null],
    ["Shift + ← → ↑ ↓", "move the diagram", null],
    ["PageUp PageDown", "move by a screen", null],
    ["Home End", app.api.immediate ? "to the beginning, to the end; of its process, if an event is chosen" : "to the beginning, to the end", null],
    ["+", "zoom in", () => pane().zoom(1.5)],
    ["-", "zoom out", () => pane().zoom(1 / 1.5)],
    ["0", "show everything", () => pane().fit()],
    ["Enter", "bring the chosen event into sight", null],
    ["Escape", "choose nothing", () => app.selection.choose(null, null)],
    ["c", "cut, on and off", press("cut-toggle")],
    ["[", "move the cut back", () => app.cutBy(-1)],
    ["]", "move the cut on", () => app.cutBy(1)],
    ["s", "another axis: causal time, causal steps", () => app.turnAxis()],
    ["l", "list of the events in sight", press("list")],
    ...more.map(([key, what, id]) => [key, what, press(id)]),
    ["e", "save the picture", press("export")],
    ...(app.whole ? [["d", "light or dark", press("theme")]] : []),
    ["f", "fold all processes, or none", () => app.foldAll()],
    ["p", "only the processes of the chosen event's past and future", () => app.selection.onlyItsProcesses()],
    ["h", "show hidden processes again", () => app.showAll()],
    ["?", "this list", press("keys")],
    ["x, Alt + ↑ ↓, Enter", "at the name of a process: hide it, move it, fold it", null],
  ];
  const doing = new Map(keys.filter(([, , does]) => does).map(([key, , does]) => [key, does]));
  doing.set("=", doing.get("+"));
  doing.set("−", doing.get("-"));

  const table = make("dl", "", "keys");
  for (const [key, what] of keys) {
    const row = make("div");
    const name = make("dt");
    name.append(make("kbd", key === "-" ? "−" : key));
    row.append(name, make("dd", what));
    table.append(row);
  }
  app.byId("manual-keys").append(table);
  app.byId("keys").addEventListener("click", () => app.byId("manual").showModal());

  // What is part of another page hears only what is typed inside it.
  (app.whole ? globalThis : app.root).addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const [target] = event.composedPath();
    if (target.closest?.("input, select, textarea, dialog")) return;
    const onStage = target === document.body || target.closest?.(".board canvas");
    const { camera } = pane();
    const moves = {
      ArrowLeft: [-PAN, 0],
      ArrowRight: [PAN, 0],
      ArrowUp: [0, -64],
      ArrowDown: [0, 64],
      PageUp: [-camera.width * 0.8, 0],
      PageDown: [camera.width * 0.8, 0],
    };
    if (doing.has(event.key)) doing.get(event.key)();
    else if (!onStage) return;
    else if (event.key.startsWith("Arrow") && !event.shiftKey) app.selection.step(pane(), event.key);
    else if (moves[event.key]) pane().pan(...moves[event.key]);
    else if (/^(?:Home|End)$/.test(event.key) && app.api.immediate && app.selection.relations) app.selection.toEdge(pane(), event.key);
    else if (event.key === "Home") pane().pan(camera.map.pos(0) - camera.width * 0.08);
    else if (event.key === "End") pane().pan(camera.map.pos(camera.span, Infinity) - camera.width * 0.92);
    else if (event.key === "Enter" && app.selection.relations) app.selection.pane.reveal(app.selection.relations, { close: true, near: true });
    else return;
    event.preventDefault();
  });
};
