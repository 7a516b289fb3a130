// Where one looks: an instant that is held at a pixel, px per unit of time, and how far down.
import { Linear, Warp, gap } from "./warp.js";

const ROOM = 0.04; // Of the width, kept free at both ends when all is shown.
const READ = 34; // px between neighbours on a lane, so that their names have room.
const AROUND = 3; // Neighbours at each side that are to be read.

export class Camera {
  constructor() {
    this.width = 1;
    this.height = 1;
    this.span = 1;
    this.density = 1; // Events per unit of time, all in all.
    this.scale = 1;
    this.held = { t: 0, depth: 0, px: 0 };
    this.top = 0; // px scrolled down.
    this.columns = []; // Of the events that are loaded around here; empty: time to scale.
    this.map = new Linear({ ...this.held, scale: this.scale });
  }

  get scaleMin() {
    return (this.width * (1 - 2 * ROOM)) / Math.max(this.span, 1) / 1.5;
  }

  get scaleMax() {
    return Math.max(60, 400 * this.density, this.scaleMin * 4);
  }

  resize(width, height) {
    const middle = this.map.anchor(this.width / 2);
    this.held = { ...middle, px: middle.px + (width - this.width) / 2 };
    this.width = Math.max(1, width);
    this.height = Math.max(1, height);
    this.bend(this.columns);
  }

  // Take the columns of what is loaded now. What is in the middle stays there.
  bend(columns) {
    this.columns = columns;
    const place = { ...this.held, scale: this.scale };
    this.map = columns.length ? new Warp(columns, place) : new Linear(place);
  }

  hold(px = this.width / 2) {
    this.held = this.map.anchor(px);
  }

  pan(dx) {
    this.hold();
    this.held.px -= dx;
    this.bend(this.columns);
    // Something must stay in sight.
    const [first, last] = [this.map.pos(0), this.map.pos(this.span, Infinity)];
    const over = Math.max(first - this.width * 0.6, Math.min(0, last - this.width * 0.4));
    if (over !== 0) {
      this.held.px -= over;
      this.bend(this.columns);
    }
    this.hold();
  }

  zoom(factor, px = this.width / 2) {
    this.hold(px);
    this.scale = Math.min(this.scaleMax, Math.max(this.scaleMin, this.scale * factor));
    this.bend(this.columns);
    this.pan(0);
  }

  // Show the time `t` in the middle, `width` units of time wide.
  look(t, width, depth = 0) {
    this.scale = Math.min(this.scaleMax, Math.max(this.scaleMin, this.width / Math.max(width, 1e-9)));
    this.held = { t, depth, px: this.width / 2 };
    this.bend(this.columns);
  }

  // What is shown stays within the history, with a little room, as far as it is long enough; else it begins at the left.
  settle() {
    const edge = this.width * ROOM;
    const [first, last] = [this.map.pos(0), this.map.pos(this.span, Infinity)];
    const free = Math.max(0, this.width - edge - last); // At the right.
    const dx = first > edge ? edge - first : Math.min(free, Math.max(0, edge - first));
    if (Math.abs(dx) < 0.5) return;
    this.held = { ...this.held, px: this.held.px + dx };
    this.bend(this.columns);
  }

  // The scale at which what stands around (t, depth) and on its lane is far enough apart for names; null while nothing is loaded there.
  scaleToRead(t, depth, lane) {
    const { columns } = this;
    if (!columns.length) return null;
    const here = Math.min(columns.length - 1, this.map.find(t, depth));
    const own = [];
    for (let at = here; at >= 0 && own.length <= AROUND; at -= 1) if (columns[at].lanes.includes(lane)) own.unshift(at);
    const most = own.length + AROUND;
    for (let at = here + 1; at < columns.length && own.length < most; at += 1) if (columns[at].lanes.includes(lane)) own.push(at);
    const pairs = own.slice(1).map((at, i) => [own[i], at, READ]);
    for (let at = Math.max(1, here - AROUND); at <= Math.min(columns.length - 1, here + AROUND); at += 1) {
      const shared = columns[at].lanes.some((one) => columns[at - 1].lanes.includes(one));
      pairs.push([at - 1, at, shared ? READ : READ * 0.6]);
    }
    const apart = (from, to, scale) => {
      let sum = 0;
      for (let at = from; at < to && sum < READ; at += 1) sum += gap(columns[at], columns[at + 1], scale);
      return sum;
    };
    let [low, high] = [Math.log(this.scaleMin), Math.log(this.scaleMax)];
    for (let i = 0; i < 30; i += 1) {
      const middle = (low + high) / 2;
      if (pairs.every(([from, to, wanted]) => apart(from, to, Math.exp(middle)) >= wanted)) high = middle;
      else low = middle;
    }
    return Math.exp(high);
  }

  // Everything. Where events are spread, by trial: their length on the screen is no simple function of the scale.
  fit() {
    const room = this.width * (1 - 2 * ROOM);
    const start = { t: 0, depth: 0, px: this.width * ROOM };
    this.held = start;
    this.scale = room / Math.max(this.span, 1);
    const whole = this.columns.length > 1 && this.columns[0].t <= 0 && this.columns.at(-1).t >= this.span;
    if (whole) {
      let [low, high] = [Math.log(this.scaleMin), Math.log(this.scaleMax)];
      for (let i = 0; i < 30; i += 1) {
        const middle = (low + high) / 2;
        if (new Warp(this.columns, { ...start, scale: Math.exp(middle) }).length > room) high = middle;
        else low = middle;
      }
      this.scale = Math.exp(low);
    }
    this.bend(this.columns);
    const free = whole ? room - this.map.length : 0;
    if (free > 0) {
      this.held = { ...start, px: start.px + free / 2 };
      this.bend(this.columns);
    }
    this.hold();
  }

  get range() {
    return [this.map.time(0), this.map.time(this.width)];
  }
}
