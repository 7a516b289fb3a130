// The front of a cut: one line across all lanes. What is left of it is inside.
import { placeOf } from "./tiles.js";

const BEYOND = 40; // px outside the screen.

// Where the front crosses a lane: after the last event inside. A cut at a time is upright, for the axis is causal time
// and a cut has what happened, with all its past, until then. Otherwise `places` tells where the events are that are
// not loaded.
export const crossing = (row, front, map, places, width) => {
  if (front.x !== null && front.upright !== false) return map.pos(front.x, Infinity) + 7; // A time: what has this causal time is inside.
  const index = Object.hasOwn(front.cut, row.name) ? front.cut[row.name] : 0;
  const at = (number, t) => {
    const spot = places.get(placeOf({ lane: row.lane, index: number }));
    return spot ? spot.px : t === null || t === undefined ? null : map.pos(t);
  };
  const known = front.places?.get(row.lane);
  const before = index ? at(index, known?.x) : map.pos(row.process.first) - 24;
  const after = at(index + 1, null);
  if (before !== null && after !== null) return (before + after) / 2;
  if (before !== null) return before + 14;
  if (after !== null) return after - 14;
  return guess(row, index, places, width);
};

// Not loaded: left or right of what is loaded of this lane.
const guess = (row, index, places, width) => {
  for (const spot of places.values()) {
    if (spot.row.lane === row.lane) return spot.event.index > index ? -BEYOND : width + BEYOND;
  }
  return null;
};

export const drawFront = (pen, { front, map, lanes, top, width, height, colours, places }) => {
  if (!front) return;
  const points = lanes
    .map((row) => [crossing(row, front, map, places, width), row.y - top])
    .filter(([x]) => x !== null)
    .map(([x, y]) => [Math.min(Math.max(x, -BEYOND), width + BEYOND), y]);
  if (!points.length) return;
  pen.items += points.length;
  const trace = () => {
    pen.moveTo(points[0][0], Math.max(26, points[0][1] - 40));
    pen.lineTo(...points[0]);
    for (let i = 1; i < points.length; i += 1) {
      const [[x1, y1], [x2, y2]] = [points[i - 1], points[i]];
      const middle = (y1 + y2) / 2; // Upright where it crosses a lane, so that it is clear what is inside.
      pen.bezierCurveTo(x1, middle, x2, middle, x2, y2);
    }
    const last = points.at(-1);
    pen.lineTo(last[0], Math.min(height, last[1] + 40));
  };
  pen.begin();
  trace();
  const last = points.at(-1);
  pen.lineTo(-BEYOND - 10, Math.min(height, last[1] + 40));
  pen.lineTo(-BEYOND - 10, Math.max(26, points[0][1] - 40));
  pen.closePath();
  pen.fill(colours.cut, 0.06);
  pen.begin();
  trace();
  pen.stroke(colours.cut, { width: 2.4, dash: [9, 4, 2, 4], round: true });
};
