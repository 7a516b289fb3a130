// A short text at the pointer.
import { make, named } from "./dom.js";
import { elapsed, plural, visible } from "./text.js";

export const tipOf = (app) => (pane, place) => {
  const tip = app.byId("tip");
  const spot = place && pane.at(place.x, place.y);
  const cell = place && !spot && pane.detail === "columns" ? pane.cellAt(place.x, place.y) : null;
  pane.canvas.classList.toggle("over", Boolean(spot));
  tip.hidden = !spot && !cell;
  if (tip.hidden) return;
  if (spot) {
    const { event } = spot;
    const when = pane.asked.axis === "steps" ? `step ${event.x}` : elapsed(event.x * (pane.overview.unit ?? 1));
    const marks = [event.kind, when, event.violation ? "◆ violation" : "", event.failure ? "▲ failure" : ""];
    tip.replaceChildren(
      ...(event.name ? [named(visible(event.name, 120), "what")] : []),
      named(visible(pane.named(event.lane, event.index), 120), event.name ? "id" : "what"),
      make("span", marks.filter(Boolean).join(" · "), "quiet"),
      ...(event.note ? [named(visible(event.note, 300))] : []),
    );
  } else {
    const failed = cell.failures ? ` · ▲ ${plural(cell.failures, "failure")}` : "";
    tip.replaceChildren(named(visible(cell.row.name, 80), "what"), make("span", `${plural(cell.events, "event")}${failed}`, "quiet"));
  }
  const box = pane.canvas.getBoundingClientRect();
  const [x, y] = [box.left + place.x, box.top + place.y];
  const left = x + 14 + tip.offsetWidth > innerWidth ? x - tip.offsetWidth - 10 : x + 14;
  const top = y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 12 : y + 18;
  tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
};
