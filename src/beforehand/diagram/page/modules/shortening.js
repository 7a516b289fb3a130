// Names that are too long for their room, cut where it costs least: what tells them apart stays. The rules, and why,
// are in diagram/shortening.py (a test compares the two).
import { visible } from "./text.js";

const LENGTH_MAX = 300;
const COMMON_MIN = 4;
const WORDY = /[\p{L}\p{N}]/u;

export class Shortening {
  // `width` measures a text.
  constructor(names, width) {
    this.width = width;
    this.shown = new Map(names.map((name) => [name, [...shownOf(name)]]));
    this.head = commonStart([...this.shown.values()]);
    this.ends = commonEnds([...this.shown.values()].map((text) => text.slice(this.head)));
    this.rests = [...this.shown.values()].map((text) => this.rest(text)[0]);
    this.shared = new Map();
    this.known = new Map();
  }

  // The name as it is, or what tells it from the others.
  fit(name, room) {
    const key = `${room} ${name}`;
    if (!this.known.has(key)) this.known.set(key, this.cut(this.shown.get(name) ?? [...shownOf(name)], room));
    return this.known.get(key);
  }

  cut(text, room) {
    const whole = text.join("");
    if (this.width(whole) <= room) return whole;
    const before = this.head ? "…" : "";
    const [rest, after] = this.rest(text);
    for (let at = Math.min(1, this.head); at <= this.head; at += 1) {
      if (at && WORDY.test(text[at - 1])) continue;
      const shown = `${before}${text.slice(at, this.head).join("")}${rest.join("")}${after}`;
      if (this.width(shown) <= room) return shown;
    }
    return this.split(rest, before, after, room);
  }

  // What is left of it, and what stands for its end.
  rest(text) {
    const rest = text.slice(this.head);
    const end = this.ends.get(rest.join("")) ?? 0;
    return [rest.slice(0, rest.length - end), end ? "…" : ""];
  }

  split(rest, before, after, room) {
    const kept = this.roomFor(rest, before, after, room);
    const [firsts, lasts] = [(size) => rest.slice(0, size).join(""), (size) => rest.slice(rest.length - size).join("")];
    let first = null;
    for (const tail of splits(kept)) {
      const head = kept - tail;
      const shown = `${before}${firsts(head)}…${lasts(tail)}${after}`;
      first ??= shown;
      if (this.namesakes(head, tail).get(`${firsts(head)}\n${lasts(tail)}`) === 1) return head ? shown : `…${lasts(tail)}${after}`;
    }
    const start = Math.max(0, this.differs(rest) - Math.floor((kept - 1) / 2));
    const middle = rest.slice(start, start + kept - 1);
    return kept > 3 && start + middle.length < rest.length ? `…${middle.join("")}…` : kept ? first : "…";
  }

  // How many characters fit beside one ellipsis; by the wider end, so that every split fits.
  roomFor(rest, before, after, room) {
    const free = room - this.width(`${before}…${after}`);
    let kept = 0;
    const fits = (size) => Math.max(this.width(rest.slice(0, size).join("")), this.width(rest.slice(rest.length - size).join(""))) <= free;
    while (kept < rest.length && fits(kept + 1)) kept += 1;
    return kept;
  }

  // How many names have two ends of this length, by these ends.
  namesakes(head, tail) {
    const key = `${head} ${tail}`;
    if (!this.shared.has(key)) {
      const found = new Map();
      for (const rest of this.rests) {
        if (rest.length < head + tail) continue;
        const ends = `${rest.slice(0, head).join("")}\n${rest.slice(rest.length - tail).join("")}`;
        found.set(ends, (found.get(ends) ?? 0) + 1);
      }
      this.shared.set(key, found);
    }
    return this.shared.get(key);
  }

  // How much of it some other name begins with.
  differs(rest) {
    const text = rest.join("");
    return this.rests.reduce((most, other) => (other.join("") === text ? most : Math.max(most, commonHead(rest, other))), 0);
  }
}

// Half of it at the end, then more and more, then less.
const splits = (kept) => {
  const half = Math.floor((kept + 1) / 2);
  const more = Array.from({ length: kept - half + 1 }, (_, at) => half + at);
  const less = Array.from({ length: Math.floor((kept - 1) / 2) + 1 }, (_, at) => Math.floor((kept - 1) / 2) - at);
  return [...more, ...less];
};

const shownOf = (name) => {
  const points = [...name];
  if (points.length <= LENGTH_MAX) return visible(name);
  return visible(`${points.slice(0, LENGTH_MAX / 2).join("")}…${points.slice(-LENGTH_MAX / 2).join("")}`);
};

// How many characters all begin with, where something is left of each.
const commonStart = (texts) => {
  if (texts.length < 2) return 0;
  let size = texts.reduce((most, one) => Math.min(most, commonHead(texts[0], one)), texts[0].length);
  while (size && WORDY.test(texts[0][size - 1])) size -= 1;
  return size >= COMMON_MIN && texts.every((text) => text.length > size) ? size : 0;
};

// How long the longest end of each is that half of all have, where what is left is still its own.
const commonEnds = (texts) => {
  if (texts.length < 2) return new Map();
  const having = new Map();
  const found = texts.map((text) => {
    const ends = [];
    for (let at = 1; at <= text.length - COMMON_MIN; at += 1) if (!WORDY.test(text[at])) ends.push(text.slice(at).join(""));
    for (const end of ends) having.set(end, (having.get(end) ?? 0) + 1);
    return [text, ends];
  });
  const enough = Math.max(2, texts.length / 2);
  const left = new Map();
  const longest = found.map(([text, ends]) => {
    const size = [...(ends.find((end) => having.get(end) >= enough) ?? "")].length;
    const rest = text.slice(0, text.length - size).join("");
    left.set(rest, (left.get(rest) ?? 0) + 1);
    return [text.join(""), size, rest];
  });
  return new Map(longest.filter(([, size, rest]) => size && left.get(rest) === 1).map(([text, size]) => [text, size]));
};

const commonHead = (one, other) => {
  const end = Math.min(one.length, other.length);
  let at = 0;
  while (at < end && one[at] === other[at]) at += 1;
  return at;
};
