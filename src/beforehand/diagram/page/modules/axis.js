// The time axis: lines at round numbers where time is to scale, at events where it is bent.
import { elapsed } from "./text.js";
import { widthOf } from "./pen.js";

const APART = 130;
export const AXIS = 30; // Its height.

// Seconds that read well on a clock: halves and quarters of minutes, hours and days.
const SEXAGESIMAL = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

const roundStep = (rough, unit, steps) => {
  const second = 1e9 / unit;
  if (!steps && rough > 50 * second) {
    const fit = SEXAGESIMAL.find((seconds) => seconds * second >= rough);
    return fit ? fit * second : 86400 * second * Math.ceil(rough / (86400 * second));
  }
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5, 10].find((factor) => power * factor >= rough) ?? 10);
};

export const ticksOf = (map, width, { unit, steps, span }) => {
  const label = (t, step) => (steps ? `step ${Math.round(t).toLocaleString("en")}` : elapsed(t * unit, step * unit));
  const ticks = [];
  if (!map.bent) {
    const step = Math.max(1, roundStep(APART / map.scale, unit, steps));
    for (let t = Math.max(0, Math.ceil(map.time(0) / step) * step); t <= Math.min(span, map.time(width)); t += step) {
      ticks.push({ x: map.pos(t), text: label(t, step) });
    }
    return ticks;
  }
  const chosen = [];
  for (let i = Math.max(0, map.find(map.time(-20)) - 1); i < map.columns.length && map.at[i] <= width + 20; i += 1) {
    const last = chosen.at(-1);
    if (map.at[i] < -20 || (last && (map.at[i] - last.x < APART || map.columns[i].t === last.t))) continue;
    chosen.push({ x: map.at[i], t: map.columns[i].t });
  }
  // Digits enough to tell each from the next.
  chosen.forEach(({ x, t }, i) => {
    const near = Math.min((chosen[i + 1]?.t ?? Infinity) - t, t - (chosen[i - 1]?.t ?? -Infinity));
    ticks.push({ x, text: label(t, Number.isFinite(near) ? 10 ** Math.floor(Math.log10(near) - 0.5) : 0) });
  });
  return ticks;
};

export const drawGrid = (pen, ticks, height, colours) => {
  pen.begin();
  for (const { x } of ticks) {
    pen.moveTo(Math.round(x) + 0.5, AXIS - 4);
    pen.lineTo(Math.round(x) + 0.5, height);
  }
  pen.stroke(colours.lane, { width: 1, dash: [1, 5] });
};

export const drawAxis = (pen, ticks, width, colours) => {
  pen.begin();
  pen.rect(0, 0, width, AXIS - 4);
  pen.fill(colours.paper, 0.92);
  for (const { x, text } of ticks) {
    const half = widthOf(text, 11) / 2;
    const at = Math.min(Math.max(x, half + 4), width - half - 4);
    if (Math.abs(at - x) <= half + 4) pen.text(at, 18, text, { colour: colours.muted, align: "center" });
  }
};
