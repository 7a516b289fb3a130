// One picture of what is loaded: a function of a view, drawn by any pen. It decides nothing and changes nothing but
// `spots`, where events were drawn, which is how a pointer finds them.
//
// A view has: map (time to px), lanes (rows that are seen), byLane, short (name to a short one), top, width, height, leaves, colours, relations,
// found (ids), current (id), only (ids, of a comparison), front (of a cut), flight (message ids), axis {unit, steps, span}.
import { AXIS, drawAxis, drawGrid, ticksOf } from "./axis.js";
import { drawFront } from "./front.js";
import { fit, widthOf } from "./pen.js";
import { RADIUS, drawArrows, drawEvent, drawFound, drawStubs, isAlarm } from "./signs.js";
import { drawFailures, drawFlows, drawStrips } from "./strips.js";
import { placeOf } from "./tiles.js";
import { visible } from "./text.js";

const PAINT_ORDER = { concurrent: 0, plain: 1, future: 2, past: 3, selected: 9 };
const INFERRED = "~"; // Ids of messages that no source named begin with it; see events.py.
const ALARMS = 4; // Failures and violations over all but the chosen event.

export const drawScene = (pen, view) => {
  const { colours, width, height, leaves } = view;
  view.places = new Map();
  const spots = placeEvents(view);
  pen.begin();
  pen.rect(0, 0, width, height);
  pen.fill(colours.paper);
  const ticks = ticksOf(view.map, width, view.axis);
  drawGrid(pen, ticks, height, colours);
  drawLanes(pen, view);
  if (view.relations) drawCones(pen, view);
  const far = leaves.filter(({ shown }) => shown?.data?.detail === "columns");
  for (const { node, shown } of far) drawFlows(pen, view, shown.data, node);
  for (const { node, shown } of far) drawStrips(pen, view, shown.data, node);
  drawMessages(pen, view, spots);
  drawStubs(pen, stubsOf(leaves, spots), spots.radius, colours);
  drawFront(pen, view, spots);
  drawFailures(pen, view, far);
  drawEvents(pen, view, spots);
  drawNames(pen, view, spots);
  drawAxis(pen, ticks, width, colours);
  return { spots: spots.list, detail: far.length ? "columns" : "events" };
};

const drawLanes = (pen, { map, lanes, top, width, colours }) => {
  pen.begin();
  for (const { y, process } of lanes) {
    const from = Math.max(0, map.pos(process.first) - 14);
    const to = Math.min(width, map.pos(process.last, Infinity) + 14);
    if (to <= from) continue;
    pen.moveTo(from, Math.round(y - top) + 0.5);
    pen.lineTo(to, Math.round(y - top) + 0.5);
  }
  pen.stroke(colours.lane, { width: 1.5 });
};

// The past is a beginning of each lane, the future an end.
const drawCones = (pen, { map, lanes, top, width, colours, relations, places }) => {
  const past = [];
  const future = [];
  for (const row of lanes) {
    const [until, since] = coneEnds(relations, row.lane, map, places);
    const y = Math.round(row.y - top) + 0.5;
    const start = Math.max(-5, map.pos(row.process.first));
    const end = Math.min(width + 5, map.pos(row.process.last, Infinity));
    if (until !== null && until > 0) past.push([start, Math.min(until, width + 5), y]);
    if (since !== null && since < width) future.push([Math.max(since, -5), end, y]);
  }
  const lines = (list) => {
    pen.begin();
    for (const [x1, x2, y] of list) {
      if (x2 <= x1) continue;
      pen.moveTo(x1, y);
      pen.lineTo(x2, y);
    }
  };
  lines(past);
  pen.stroke(colours.past, { width: 5, alpha: 0.3, round: true });
  lines(future);
  pen.stroke(colours.future, { width: 3.4, dash: [0.1, 6], alpha: 0.7, round: true });
};

const coneEnds = (relations, lane, map, places) => {
  const [pastAt, futureAt] = relations.ends(lane);
  if (lane === relations.lane) {
    const own = places.get(placeOf(relations));
    const x = own ? own.px : map.pos(relations.x);
    return [x, x];
  }
  const one = relations.lanes.get(lane);
  const at = (index, t) => {
    const known = index ? places.get(placeOf({ lane, index })) : null;
    return known ? known.px : t === null ? null : map.pos(t);
  };
  return [at(one?.past_to, pastAt), at(one?.future_from, futureAt)];
};

// Where the events that are loaded stand, with all that is on the screen in `list`.
const placeEvents = ({ map, byLane, top, width, height, leaves, places }) => {
  const list = [];
  const crowd = new Map(); // Per lane, the last place.
  for (const { node, shown } of leaves) {
    const data = shown?.data;
    if (data?.detail !== "events") continue;
    for (const event of data.events) {
      if (event.x < node.from || event.x >= node.from + node.width) continue;
      const row = byLane.get(event.lane);
      if (!row) continue;
      const x = map.pos(event.x, event.depth);
      const spot = { event, row, px: x, x, y: row.y - top, room: 99 };
      places.set(placeOf(event), spot);
      if (x < -60 || x > width + 60 || spot.y < -20 || spot.y > height + 20) continue;
      const before = crowd.get(event.lane);
      if (before) {
        spot.room = x - before.x;
        before.room = Math.min(before.room, spot.room);
      }
      crowd.set(event.lane, spot);
      list.push(spot);
    }
  }
  // One size for all: the one that leaves three of four apart.
  const rooms = list.map((spot) => spot.room).sort((a, b) => a - b);
  const room = rooms.length ? rooms[Math.floor(rooms.length * 0.25)] : 99;
  const radius = Math.min(RADIUS, Math.max(1.8, room * 0.42));
  for (const spot of list) spot.radius = spot.row.folded ? Math.min(radius, 4) : radius;
  return { list, places, radius };
};

const drawMessages = (pen, view, { places, radius }) => {
  const { map, byLane, top, width, height, leaves, colours, relations, flight } = view;
  const kinds = { concurrent: [], plain: [], future: [], past: [], violation: [] };
  const inferred = { concurrent: [], plain: [], future: [], past: [], violation: [] };
  const seen = new Set();
  const alarms = [];
  const flying = [];
  for (const { shown } of leaves) {
    const data = shown?.data;
    if (data?.detail !== "events") continue;
    for (const one of data.messages) {
      const key = `${one.message} ${one.to.lane} ${one.to.index}`;
      if (seen.has(key)) continue;
      seen.add(key);
      const [a, b] = [byLane.get(one.from.lane), byLane.get(one.to.lane)];
      if (!a || !b) continue;
      const x1 = places.get(placeOf(one.from))?.px ?? map.pos(one.from.x);
      const x2 = places.get(placeOf(one.to))?.px ?? map.pos(one.to.x);
      const [y1, y2] = [a.y - top, b.y - top];
      if (Math.max(x1, x2) < 0 || Math.min(x1, x2) > width) continue;
      if (Math.max(y1, y2) < 0 || Math.min(y1, y2) > height) continue;
      const line = [x1, y1, x2, y2];
      let role = "plain";
      if (one.violation) role = "violation";
      else if (relations) {
        const ends = [relations.of(one.from), relations.of(one.to)].filter((end) => end !== "selected");
        role = ends.every((end) => end === "past") ? "past" : ends.every((end) => end === "future") ? "future" : "concurrent";
      }
      (one.message.startsWith(INFERRED) ? inferred : kinds)[role].push(line);
      if (one.violation) alarms.push(line);
      if (flight?.has(one.message)) flying.push(line);
    }
  }
  const lines = [...Object.values(kinds), ...Object.values(inferred)].reduce((sum, list) => sum + list.length, 0);
  const faint = Math.min(0.6, Math.max(0.14, 150 / Math.max(lines, 1)));
  for (const role of Object.keys(kinds)) {
    drawArrows(pen, kinds[role], role, radius, colours, faint);
    drawArrows(pen, inferred[role], role, radius, colours, faint, { dotted: true });
  }
  drawFlying(pen, flying, colours);
  for (const [x1, y1, x2, y2] of alarms) {
    const [x, y] = [x1 + (x2 - x1) * 0.42, y1 + (y2 - y1) * 0.42];
    pen.begin();
    pen.arc(x, y, 7.5, 0, 2 * Math.PI);
    pen.fill(colours.violation);
    pen.text(x, y + 3.4, "!", { size: 9, weight: 700, colour: colours.paper, align: "center" });
  }
};

const stubsOf = (leaves, { places }) =>
  leaves
    .flatMap(({ shown }) => shown?.data?.stubs ?? [])
    .map((stub) => ({ kind: stub.kind, spot: places.get(placeOf(stub)) }))
    .filter(({ spot }) => spot && !spot.row.folded)
    .map(({ kind, spot }) => ({ kind, x: spot.px, y: spot.y }));

// Messages in flight at the cut: a drop on the line.
const drawFlying = (pen, lines, colours) => {
  pen.begin();
  for (const [x1, y1, x2, y2] of lines) {
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
  }
  pen.stroke(colours.cut, { width: 3.2, alpha: 0.55, round: true });
  pen.begin();
  for (const [x1, y1, x2, y2] of lines) {
    const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
    pen.rect(x - 4, y - 4, 8, 8);
  }
  pen.fill(colours.cut);
};

const drawEvents = (pen, view, { list }) => {
  const { colours, relations, found, current, only } = view;
  for (const spot of list) spot.role = relations ? relations.of(spot.event) : "plain";
  const over = ({ role, event }) => PAINT_ORDER[role] + (isAlarm(event) && role !== "selected" ? ALARMS : 0);
  const ordered = [...list].sort((a, b) => over(a) - over(b));
  for (const { event, role, x, y, radius } of ordered) drawEvent(pen, event, role, x, y, radius, colours);
  for (const { event, role, x, y, radius } of list) {
    if (found?.has(event.id) && role !== "selected") drawFound(pen, x, y, radius, event.id === current, colours);
    if (!only?.has(event.id)) continue;
    pen.begin(); // Only this execution has it: a square around.
    pen.rect(x - radius - 4, y - radius - 4, 2 * radius + 8, 2 * radius + 8);
    pen.stroke(colours.ink, { width: 1.6 });
  }
};

const LABEL = 11;

// A run says how many; a note is marked, and read in the panel.
const labelOf = ({ event, row }, short) => {
  if (event.count > 1) return "";
  return visible(`${event.note ? "✎ " : ""}${event.name || `${short(row.name)}:${event.index}`}`, 60);
};

// Names where there is room: above or below, never over another.
const drawNames = (pen, { lanes, colours, relations, width, short }, { list, radius }) => {
  if (radius < 4.2) return;
  const rows = new Map(lanes.map((row) => [row.lane, []]));
  for (const spot of list) if (!spot.row.folded) rows.get(spot.row.lane)?.push(spot);
  for (const spots of rows.values()) {
    const ends = [-Infinity, -Infinity]; // Where the last label above and below ends.
    const chosen = spots.findIndex((spot) => spot.role === "selected"); // Its name is longer; others give way to it.
    const kept = chosen < 0 ? 0 : spots[chosen].x - widthOf(fit(labelOf(spots[chosen], short), 200, LABEL, 500), LABEL, 500) / 2;
    spots.forEach((spot, at) => {
      const next = spots[at + 2]?.x ?? spot.x + 170; // The one between gets the other side.
      const side = at % 2;
      const until = at < chosen && side === chosen % 2 ? kept - spot.x : Infinity;
      const room = Math.min(170, 2 * Math.min(spot.x - ends[side], (next - spot.x) / 2 + 4, until) - 8);
      const important = spot.role === "selected";
      const text = fit(labelOf(spot, short), important ? 200 : room, LABEL, 500);
      if (!text) return;
      const half = widthOf(text, LABEL, 500) / 2;
      const x = Math.min(Math.max(spot.x, half + 2), width - half - 2);
      if (Math.abs(x - spot.x) > half) return;
      ends[side] = x + half;
      const lift = spot.role === "selected" ? 7 : 0;
      const y = side ? spot.y + spot.radius + 15 + lift : spot.y - spot.radius - 7 - lift;
      const quiet = relations && spot.role === "concurrent";
      pen.text(x, y, text, { size: LABEL, weight: 500, colour: quiet ? colours.muted : colours.ink, align: "center", halo: colours.paper });
    });
  }
};

export { AXIS };
