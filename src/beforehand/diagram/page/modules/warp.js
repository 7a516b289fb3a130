// From causal time to pixels and back.
//
// Far out, time is to scale. Near, where single events are shown, it is bent a little: crowds are spread so that
// events of one process do not hide each other, and silences are shortened, as in the diagrams of `beforehand draw`.
// Later is further right, always; the time at the anchor stays where it is, so that nothing jumps while more is loaded.

const CLOSE = 16; // px between neighbours when there is room.
const SILENCE = 130; // px that a pause takes at most when there is room.

export class Linear {
  constructor({ t, px, scale }) {
    Object.assign(this, { t, px, scale });
    this.bent = false;
  }

  pos(time) {
    return this.px + (time - this.t) * this.scale;
  }

  time(px) {
    return this.t + (px - this.px) / this.scale;
  }

  anchor(px) {
    return { t: this.time(px), depth: 0, px };
  }
}

// The columns of a drawing: instants in order, and those of one instant by depth.
export const columnsOf = (leaves, density) => {
  const columns = [];
  for (const { shown, node } of leaves) {
    const data = shown?.data;
    if (data?.detail !== "events") continue;
    const dense = Math.max(density, data.columns / data.width);
    const end = node.from + node.width;
    for (const event of data.events) {
      if (event.x < node.from || event.x >= end) continue; // The rest is another leaf's.
      const last = columns.at(-1);
      if (last && last.t === event.x && last.depth === event.depth) last.lanes.push(event.lane);
      else columns.push({ t: event.x, depth: event.depth, lanes: [event.lane], dense });
    }
  }
  return columns;
};

// Leaves of several trees (groups of lanes) come interleaved.
export const mergeColumns = (lists) => {
  if (lists.length === 1) return lists[0];
  const all = lists.flat().sort((a, b) => a.t - b.t || a.depth - b.depth);
  const merged = [];
  for (const one of all) {
    const last = merged.at(-1);
    if (last && last.t === one.t && last.depth === one.depth) last.lanes = last.lanes.concat(one.lanes);
    else merged.push({ ...one });
  }
  return merged;
};

export class Warp {
  constructor(columns, { t, depth, px, scale }) {
    this.bent = true;
    this.scale = scale;
    this.columns = columns;
    this.at = new Float64Array(columns.length);
    for (let i = 1; i < columns.length; i += 1) this.at[i] = this.at[i - 1] + gap(columns[i - 1], columns[i], scale);
    const shift = px - this.pos(t, depth);
    for (let i = 0; i < this.at.length; i += 1) this.at[i] += shift;
  }

  // The first column that is not before this place.
  find(t, depth = 0) {
    let [low, high] = [0, this.columns.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const one = this.columns[middle];
      if (one.t < t || (one.t === t && one.depth < depth)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  pos(t, depth = 0) {
    const { columns, at } = this;
    const i = this.find(t, depth);
    if (i < columns.length && columns[i].t === t && columns[i].depth === depth) return at[i];
    if (i === 0) return at[0] - (columns[0].t - t) * this.scale;
    const before = columns[i - 1];
    if (i === columns.length) return at[i - 1] + (t - before.t) * this.scale;
    const share = (t - before.t) / Math.max(columns[i].t - before.t, 1e-9);
    return at[i - 1] + (at[i] - at[i - 1]) * Math.min(1, Math.max(0, share));
  }

  time(px) {
    const { columns, at } = this;
    let [low, high] = [0, at.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (at[middle] < px) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return columns[0].t - (at[0] - px) / this.scale;
    if (low === at.length) return columns[low - 1].t + (px - at[low - 1]) / this.scale;
    const share = (px - at[low - 1]) / Math.max(at[low] - at[low - 1], 1e-9);
    return columns[low - 1].t + (columns[low].t - columns[low - 1].t) * share;
  }

  // A place to hold on to near this pixel: a column, or a time where there is none.
  anchor(px) {
    const { columns, at } = this;
    let best = -1;
    for (let i = Math.max(0, this.find(this.time(px)) - 1); i < columns.length && at[i] < px + 400; i += 1) {
      if (best < 0 || Math.abs(at[i] - px) < Math.abs(at[best] - px)) best = i;
    }
    if (best < 0 || Math.abs(at[best] - px) > 400) return { t: this.time(px), depth: 0, px };
    return { t: columns[best].t, depth: columns[best].depth, px: at[best] };
  }

  get length() {
    return this.at.length ? this.at.at(-1) - this.at[0] : 0;
  }
}

// px between two neighbouring columns.
export const gap = (one, other, scale) => {
  const room = scale / Math.max(one.dense, other.dense); // px per column, were they even.
  const near = Math.min(room * 0.5, CLOSE + Math.max(0, room - 2 * CLOSE) * 0.12, 72);
  const least = one.lanes.some((lane) => other.lanes.includes(lane)) ? near : near * 0.62;
  const most = SILENCE * Math.max(1, (CLOSE / Math.max(room, 1e-9)) ** 2, near / 32);
  return Math.min(Math.max((other.t - one.t) * scale, least), Math.max(most, least));
};
