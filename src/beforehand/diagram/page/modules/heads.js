// The names of the lanes at the left, as buttons: they fold, hide and move their process. Only those in sight exist.
import { button, make, named } from "./dom.js";
import { plural, visible, whole } from "./text.js";

const AROUND = 42; // px of a head beside the name in it; see page.css.

export class Heads {
  constructor(root, lanes, changed) {
    this.root = root;
    this.lanes = lanes;
    this.changed = changed;
    this.made = new Map(); // Name to element.
    this.room = 115;
    root.addEventListener("keydown", (event) => this.key(event));
  }

  measure() {
    this.room = Math.max(40, this.root.clientWidth - AROUND);
  }

  show(rows, top) {
    const wanted = new Set(rows.map((row) => row.name));
    for (const [name, head] of this.made) {
      if (wanted.has(name)) continue;
      head.remove();
      this.made.delete(name);
    }
    rows.forEach((row, at) => {
      const head = this.made.get(row.name) ?? this.make(row);
      head.style.transform = `translateY(${row.y - top - 16}px)`;
      head.classList.toggle("folded", row.folded);
      head.firstChild.setAttribute("aria-pressed", String(row.folded));
      const label = this.lanes.short(row.name, this.room);
      if (head.dataset.label !== label) {
        head.dataset.label = label;
        head.firstChild.replaceChildren(named(label));
      }
      if (this.root.children[at] !== head) this.root.insertBefore(head, this.root.children[at] ?? null);
    });
  }

  make(row) {
    const { name, process } = row;
    const head = make("div", "", "head");
    const tag = button("", () => this.act(name, "fold"), { className: "tag" });
    tag.title = `${whole(name).slice(0, 400)}: ${plural(process.events, "event")}`;
    tag.setAttribute("aria-label", `Process ${visible(name, 80)}, ${plural(process.events, "event")}. Fold or unfold`);
    tag.dataset.process = name;
    const tools = make("span", "", "lane-tools");
    for (const [sign, what, label] of [
      ["↑", "up", "Move up"],
      ["↓", "down", "Move down"],
      ["✕", "hide", "Hide"],
    ]) {
      const tool = button(sign, () => this.act(name, what), { label: `${label}: ${visible(name, 40)}` });
      tool.tabIndex = -1; // The keys of the name itself do the same.
      tools.append(tool);
    }
    head.append(tag, tools);
    this.made.set(name, head);
    return head;
  }

  act(name, what) {
    const { lanes } = this;
    if (what === "fold") lanes.fold(name);
    else if (what === "hide") lanes.hide(name);
    else lanes.move(name, what === "up" ? -1 : 1);
    this.changed();
    if (what === "hide") this.root.querySelector(".tag")?.focus();
    else this.made.get(name)?.firstChild.focus();
  }

  key(event) {
    const name = event.target.dataset?.process;
    if (name === undefined || event.ctrlKey || event.metaKey) return;
    const tags = [...this.root.querySelectorAll(".tag")];
    const at = tags.indexOf(event.target);
    if (event.altKey && event.key === "ArrowUp") this.act(name, "up");
    else if (event.altKey && event.key === "ArrowDown") this.act(name, "down");
    else if (event.key === "ArrowUp") tags[at - 1]?.focus();
    else if (event.key === "ArrowDown") tags[at + 1]?.focus();
    else if (event.key === "Delete" || event.key === "x") this.act(name, "hide");
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
