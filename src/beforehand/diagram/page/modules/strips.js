// Far out: how many events each stretch of a lane has, as a strip that is taller where there are more. Past is a full
// strip, future a hollow one, concurrent a thin one. Failures are triangles above, drawn last, messages faint lines between lanes.

const CELL_MIN = 1; // px

export const drawStrips = (pen, view, data, node) => {
  const { map, lanes, top, width, colours, relations } = view;
  const unit = data.width / data.columns;
  const first = Math.max(0, Math.floor((Math.max(node.from, map.time(-2)) - data.from) / unit));
  const end = Math.min(data.columns, Math.ceil((Math.min(node.from + node.width, map.time(width + 2)) - data.from) / unit));
  for (const row of lanes) {
    const cells = data.counts.get(row.lane);
    if (!cells) continue;
    const y = row.y - top;
    const tall = tallOf(row);
    const parts = { plain: [], past: [], future: [], concurrent: [] };
    for (const [column, events] of cells) {
      if (column < first || column >= end) continue;
      const t = data.from + column * unit;
      const x1 = map.pos(t);
      const x2 = Math.max(x1 + CELL_MIN, map.pos(t + unit));
      const half = tall * (0.16 + 0.84 * (events / data.most) ** 0.6);
      const role = relations ? relations.atTime(row.lane, t + unit / 2) : "plain";
      parts[role].push([x1, x2 - x1 + 0.25, half]);
      pen.items += 1;
    }
    fillCells(pen, parts.plain, y, 1, colours.message, 0.62);
    fillCells(pen, parts.past, y, 1, colours.past, 0.75);
    fillCells(pen, parts.concurrent, y, 0.3, colours.muted, 0.7);
    hollowCells(pen, parts.future, y, colours.future);
  }
};

const tallOf = (row) => Math.min(row.folded ? 8 : 24, row.size * 0.34);

const fillCells = (pen, cells, y, share, colour, alpha) => {
  if (!cells.length) return;
  pen.begin();
  for (const [x, wide, half] of cells) pen.rect(x, y - half * share, wide, 2 * half * share);
  pen.fill(colour, alpha);
};

const hollowCells = (pen, cells, y, colour) => {
  if (!cells.length) return;
  pen.begin();
  for (const [x, wide, half] of cells) {
    pen.rect(x, y - half, wide, Math.min(2.2, half));
    pen.rect(x, y + half - Math.min(2.2, half), wide, Math.min(2.2, half));
  }
  pen.fill(colour, 1);
  pen.begin();
  for (const [x, wide, half] of cells) pen.rect(x, y - half, wide, 2 * half);
  pen.fill(colour, 0.16);
};

// Where something failed: a triangle above the strip, one for a crowd. `far`: what is shown as counts.
export const drawFailures = (pen, { map, lanes, top, width, colours }, far) => {
  pen.begin();
  for (const row of lanes) {
    const y = Math.max(row.y - top - tallOf(row) - 5, 5);
    let last = -Infinity;
    for (const { node, shown: { data } } of far) {
      const unit = data.width / data.columns;
      for (const [column, , failed] of data.counts.get(row.lane) ?? []) {
        const t = data.from + (column + 0.5) * unit;
        const x = map.pos(t);
        if (!failed || t < node.from || t >= node.from + node.width || x < -5 || x > width + 5 || x - last < 6) continue;
        last = x;
        triangle(pen, x, y, 5);
      }
    }
  }
  pen.fill(colours.violation);
};

export const triangle = (pen, x, y, half) => {
  pen.moveTo(x, y - half);
  pen.lineTo(x + half, y + half * 0.72);
  pen.lineTo(x - half, y + half * 0.72);
  pen.closePath();
};

// Only where all of them are known: the largest alone would paint curtains where it is merely busy.
export const drawFlows = (pen, view, data, node) => {
  if (data.flowsMore) return;
  const { map, byLane, top, width, colours } = view;
  const unit = data.width / data.columns;
  const weights = [[], [], []];
  for (const [from, to, column, messages] of data.flows) {
    const [a, b] = [byLane.get(from), byLane.get(to)];
    const t = data.from + (column + 0.5) * unit;
    if (!a || !b || a === b || t < node.from || t >= node.from + node.width) continue;
    const x = map.pos(t);
    if (x < -20 || x > width + 20) continue;
    weights[messages < 4 ? 0 : messages < 32 ? 1 : 2].push([x, a.y - top, x + 6, b.y - top]);
  }
  weights.forEach((lines, weight) => {
    if (!lines.length) return;
    pen.items += lines.length;
    pen.begin();
    for (const [x1, y1, x2, y2] of lines) {
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
    }
    pen.stroke(colours.lane, { width: [0.6, 0.8, 1.1][weight], alpha: [0.5, 0.65, 0.8][weight] });
  });
};
