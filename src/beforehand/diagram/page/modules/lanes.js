// The processes as lanes: their order, which are hidden or folded, and where they stand.
import { widthOf } from "./pen.js";
import { Shortening } from "./shortening.js";

export const LANE = 64;
const WIDE = 190; // Where there are few: they share the height up to here.
const CROWDED = 48; // Where there are many; names of events still fit between.
const MANY = 10;
export const FOLDED = 22;
export const NAME = 12.5; // px, the size of its name.
const TOP = 40; // For the time axis.
const BOTTOM = 30;

export class Lanes {
  constructor() {
    this.processes = []; // As the service numbers them.
    this.order = []; // Their names, as shown.
    this.hidden = new Set();
    this.folded = new Set();
    this.numbers = new Map(); // Name to number.
    this.rows = []; // Shown: {name, lane, y, folded, process}.
    this.byLane = new Map();
    this.height = LANE;
  }

  take(processes) {
    this.processes = processes;
    const names = processes.map(({ name }) => name);
    if (names.join("\n") !== this.processNames) this.shortening = new Shortening(names, (text) => widthOf(text, NAME, 600));
    this.processNames = names.join("\n"); // Live, they are taken every second.
    this.numbers = new Map(names.map((name, lane) => [name, lane]));
    const known = new Set(this.order);
    this.order = this.order.filter((name) => this.numbers.has(name));
    this.order.push(...processes.map(({ name }) => name).filter((name) => !known.has(name)));
    this.place();
  }

  // The name of a process in so many px: what tells it from the others stays.
  short(name, room) {
    return this.shortening.fit(name, room);
  }

  // After a permalink: what is named comes first, in its order.
  restore({ hidden = [], folded = [], order = [] }) {
    this.hidden = new Set(hidden);
    this.folded = new Set(folded);
    const first = order.filter((name) => this.numbers.has(name));
    const named = new Set(first);
    this.order = [...first, ...this.processes.map(({ name }) => name).filter((name) => !named.has(name))];
    this.place();
  }

  get state() {
    const sorted = this.processes.map(({ name }) => name);
    const moved = this.order.some((name, at) => name !== sorted[at]);
    return {
      hidden: this.order.filter((name) => this.hidden.has(name)),
      folded: this.order.filter((name) => this.folded.has(name)),
      order: moved ? this.order : [],
    };
  }

  // As tall as the lanes need, or a little wider apart if there is room.
  stretch(height) {
    this.room = height;
    this.place();
  }

  place() {
    const shown = this.order.filter((name) => !this.hidden.has(name));
    const full = shown.filter((name) => !this.folded.has(name)).length;
    const free = (this.room ?? 0) - TOP - BOTTOM - (shown.length - full) * FOLDED;
    this.size = Math.min(WIDE, Math.max(full > MANY ? CROWDED : LANE, full ? Math.floor(free / full) : LANE));
    let y = TOP;
    this.rows = shown.map((name) => {
      const folded = this.folded.has(name);
      const size = folded ? FOLDED : this.size;
      y += size;
      const lane = this.numbers.get(name);
      return { name, lane, y: y - size / 2, size, folded, process: this.processes[lane] };
    });
    this.byLane = new Map(this.rows.map((row) => [row.lane, row]));
    this.height = y + BOTTOM;
  }

  // Rows that are seen when scrolled down by `top`.
  between(top, bottom) {
    return this.rows.filter((row) => row.y + row.size / 2 >= top && row.y - row.size / 2 <= bottom);
  }

  hide(name) {
    if (this.rows.length > 1) this.hidden.add(name);
    this.place();
  }

  // Hides all whose number `wanted` refuses, unless that were all.
  showOnly(wanted) {
    const hidden = this.order.filter((name) => !wanted(this.numbers.get(name)));
    if (hidden.length < this.order.length) this.hidden = new Set(hidden);
    this.place();
  }

  showAll() {
    this.hidden.clear();
    this.place();
  }

  fold(name) {
    if (!this.folded.delete(name)) this.folded.add(name);
    this.place();
  }

  // All that are shown, or none if all are folded already.
  foldAll() {
    const open = this.rows.filter((row) => !row.folded);
    for (const row of this.rows) {
      if (open.length) this.folded.add(row.name);
      else this.folded.delete(row.name);
    }
    this.place();
  }

  // Among the shown ones: up is -1.
  move(name, by) {
    const at = this.rows.findIndex((row) => row.name === name);
    const other = this.rows[at + by];
    if (at < 0 || !other) return;
    const order = this.order.filter((one) => one !== name);
    order.splice(order.indexOf(other.name) + (by > 0 ? 1 : 0), 0, name);
    this.order = order;
    this.place();
  }
}
