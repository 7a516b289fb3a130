// The signs of events and messages, as in diagram/signs.py. Colour is never the only sign: past is filled on its left
// half, future on its right, concurrent is a dashed ring, selected has a second ring; a violation is a diamond, a
// failure a triangle. Without a selection: a receive has a hole, a send is full, a local event is smaller.

import { widthOf } from "./pen.js";
import { short } from "./text.js";

export const RADIUS = 6;
const ALARM = 3.3; // A failure or a violation is no smaller, however far out: 9 px wide, and to be found.

export const isAlarm = (event) => Boolean(event.violation || event.failure);

export const sizeOf = (event, radius) => (isAlarm(event) ? Math.max(ALARM, radius) : radius);

const shapeOf = (event) => (event.violation ? "diamond" : event.failure ? "triangle" : "circle");

const trace = (pen, shape, x, y, r) => {
  if (shape === "circle") {
    pen.moveTo(x + r, y);
    pen.arc(x, y, r, 0, 2 * Math.PI);
  } else if (shape === "diamond") {
    const d = r * 1.36;
    pen.moveTo(x, y - d);
    pen.lineTo(x + d, y);
    pen.lineTo(x, y + d);
    pen.lineTo(x - d, y);
  } else {
    const d = r * 1.42;
    pen.moveTo(x, y - d);
    pen.lineTo(x + d, y + d * 0.72);
    pen.lineTo(x - d, y + d * 0.72);
  }
  pen.closePath();
};

const traceHalf = (pen, shape, x, y, r, left) => {
  const side = left ? -1 : 1;
  if (shape === "circle") {
    pen.moveTo(x, y - r);
    pen.arc(x, y, r, -Math.PI / 2, left ? -1.5 * Math.PI : Math.PI / 2, left);
  } else if (shape === "diamond") {
    const d = r * 1.36;
    pen.moveTo(x, y - d);
    pen.lineTo(x + side * d, y);
    pen.lineTo(x, y + d);
  } else {
    const d = r * 1.42;
    pen.moveTo(x, y - d);
    pen.lineTo(x + side * d, y + d * 0.72);
    pen.lineTo(x, y + d * 0.72);
  }
  pen.closePath();
};

const colourOf = (event, role, colours) => {
  if (role === "selected") return colours.selected;
  if (event.violation || event.failure) return colours.violation;
  return { past: colours.past, future: colours.future, concurrent: colours.muted }[role] ?? colours.ink;
};

// Several local events that are drawn as one.
const drawRun = (pen, event, role, x, y, radius, colours) => {
  const text = `×${short(event.count)}`;
  const [half, tall] = [Math.max(radius, widthOf(text, 10, 600) / 2 + 5), Math.max(radius, 8)];
  const colour = colourOf(event, role, colours);
  pen.begin();
  pen.roundRect(x - half, y - tall, 2 * half, 2 * tall, tall);
  pen.fill(colours.paper);
  pen.stroke(colour, role === "concurrent" ? { width: 1.4, dash: [2, 1.6] } : { width: role === "selected" ? 3 : 1.6 });
  pen.text(x, y + 3.6, text, { size: 10, weight: 600, colour, align: "center" });
  if (role !== "past" && role !== "future") return;
  const side = role === "past" ? -1 : 1; // A bar at the side that is filled elsewhere.
  pen.begin();
  pen.moveTo(x + side * (half + 3), y - tall * 0.7);
  pen.lineTo(x + side * (half + 3), y + tall * 0.7);
  pen.stroke(colour, { width: 3, round: true });
};

export const drawEvent = (pen, event, role, x, y, room, colours) => {
  const radius = sizeOf(event, room);
  pen.items += 1;
  if (event.count > 1 && radius >= 3) return drawRun(pen, event, role, x, y, radius, colours);
  const shape = shapeOf(event);
  const size = event.kind === "local" && shape === "circle" && role !== "selected" ? radius * 0.76 : radius;
  const colour = colourOf(event, role, colours);
  const thin = Math.max(0.8, Math.min(1.8, radius * 0.3));
  if (role === "selected") {
    pen.begin();
    pen.arc(x, y, Math.max(radius + 4.5, 8), 0, 2 * Math.PI);
    pen.fill(colours.paper);
    pen.stroke(colours.selected, { width: 2 });
  }
  pen.begin();
  trace(pen, shape, x, y, size);
  if (role === "plain" || role === "selected" || radius < 2.4) {
    pen.fill(colour, role === "concurrent" ? 0.55 : 1);
    if (event.kind === "receive" && radius >= 3.4 && shape === "circle") {
      pen.begin();
      pen.arc(x, y, size * 0.36, 0, 2 * Math.PI);
      pen.fill(colours.paper);
    }
    return;
  }
  pen.fill(colours.paper);
  pen.stroke(colour, role === "concurrent" ? { width: Math.min(1.4, thin), dash: [2, 1.6] } : { width: thin });
  if (role === "concurrent") return;
  pen.begin();
  traceHalf(pen, shape, x, y, size, role === "past");
  pen.fill(colour);
};

// The dashed ring around what a search has found; whole for the current one.
export const drawFound = (pen, x, y, radius, current, colours) => {
  pen.begin();
  pen.arc(x, y, radius + 5, 0, 2 * Math.PI);
  pen.stroke(colours.past, { width: 2, dash: current ? [] : [3, 2.5] });
};

export const ARROWS = {
  plain: { width: 1.4 },
  past: { width: 2 },
  future: { width: 1.8, dash: [10, 3] },
  concurrent: { width: 1, alpha: 0.6 },
  violation: { width: 2.8 },
};
const HEAD = 9;
const STUB = 26;

// Messages with one end only, as in diagram/arrows.py: down to the right from a send, a cross where nobody received it;
// from the left above to a receive, and a ring where nobody sent it.
export const drawStubs = (pen, stubs, radius, colours) => {
  if (radius < 3) return;
  pen.items += stubs.length;
  const lines = stubs.map(({ x, y, kind }) => {
    const out = kind === "unreceived" || kind === "onward";
    return out ? [x, y, x + STUB, y + STUB * 0.7] : [x - STUB, y - STUB * 0.7, x, y];
  });
  const arrows = lines.filter((_, at) => stubs[at].kind !== "unreceived");
  drawArrows(pen, arrows, "plain", radius, colours, 1);
  pen.begin();
  stubs.forEach(({ kind }, at) => {
    const [x1, y1, x2, y2] = lines[at];
    if (kind === "unreceived") {
      const share = (radius + 1) / Math.hypot(x2 - x1, y2 - y1);
      pen.moveTo(x1 + (x2 - x1) * share, y1 + (y2 - y1) * share);
      pen.lineTo(x2, y2);
      for (const side of [-1, 1]) {
        pen.moveTo(x2 - 4, y2 - 4 * side);
        pen.lineTo(x2 + 4, y2 + 4 * side);
      }
    } else if (kind === "unsent") {
      pen.moveTo(x1 + 3.5, y1);
      pen.arc(x1, y1, 3.5, 0, 2 * Math.PI);
    }
  });
  pen.stroke(colours.message, { width: 1.4 });
};

export const arrowColour = (role, colours) =>
  ({ past: colours.past, future: colours.future, violation: colours.violation })[role] ?? colours.message;

// Many arrows of one look at once. `lines` are [x1, y1, x2, y2], from the middle of one sign to that of the other.
// `dotted`: no source named these messages.
export const drawArrows = (pen, lines, role, radius, colours, faint, { dotted = false } = {}) => {
  if (!lines.length) return;
  pen.items += lines.length;
  const heads = radius >= 3;
  const look = { ...ARROWS[role] };
  if (dotted) look.dash = role === "future" ? [10, 3, 1.5, 3.5] : [1.5, 3.5];
  if (!heads) {
    const strong = role === "past" || role === "future" || role === "violation";
    const alpha = strong ? Math.min(1, faint * 2.2) : role === "concurrent" ? faint * 0.6 : faint;
    Object.assign(look, { width: strong ? 1.2 : 0.7, alpha });
  }
  const colour = arrowColour(role, colours);
  const ends = [];
  pen.begin();
  for (const [x1, y1, x2, y2] of lines) {
    if (y1 === y2) {
      // To itself: over the lane.
      const lift = Math.min(26, 8 + Math.abs(x2 - x1) * 0.2);
      pen.moveTo(x1, y1 - radius);
      pen.bezierCurveTo(x1, y1 - radius - lift, x2, y2 - radius - lift, x2, y2 - radius - 1);
      ends.push([x2, y2 - radius - 1, Math.PI / 2]);
      continue;
    }
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
    const tip = radius + 1.5;
    pen.moveTo(x1 + dx * radius, y1 + dy * radius);
    pen.lineTo(x2 - dx * (tip + (heads ? HEAD * 0.6 : 0)), y2 - dy * (tip + (heads ? HEAD * 0.6 : 0)));
    ends.push([x2 - dx * tip, y2 - dy * tip, Math.atan2(dy, dx)]);
  }
  pen.stroke(colour, look);
  if (!heads) return;
  pen.begin();
  for (const [x, y, angle] of ends) drawHead(pen, x, y, angle);
  pen.fill(colour, look.alpha ?? 1);
};

const drawHead = (pen, x, y, angle) => {
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  const at = (along, aside) => [x - along * c - aside * s, y - along * s + aside * c];
  pen.moveTo(x, y);
  pen.lineTo(...at(HEAD, 3.8));
  pen.lineTo(...at(HEAD * 0.78, 0));
  pen.lineTo(...at(HEAD, -3.8));
  pen.closePath();
};
