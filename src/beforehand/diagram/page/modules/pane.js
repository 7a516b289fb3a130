// One execution on the screen: what is loaded of it, where one looks, and its picture.
import { Camera } from "./camera.js";
import { Heads } from "./heads.js";
import { Lanes } from "./lanes.js";
import { palette } from "./palette.js";
import { CanvasPen } from "./pen.js";
import { AXIS, drawScene } from "./scene.js";
import { isAlarm } from "./signs.js";
import { COLUMNS, Tree } from "./tiles.js";
import { columnsOf, mergeColumns } from "./warp.js";

const LANES_AT_ONCE = 64; // Lanes of one request, where there are more than `LANES_ALL`.
const LANES_ALL = 160;
const TREES = 6;
const NEAR = 11; // px within which a pointer finds an event.
const ALARM_NEAR = 4;
const APPROACHES = 8;
const EDGE = 60; // px; what is nearer to the left or right is hardly in sight.
const SHORT = 90; // px for the name of a process beside an event without a name.

export class Pane {
  // `hooks`: decorate(view), moved(), drawn(), failed(error).
  constructor(root, api, hooks) {
    this.root = root;
    this.api = api;
    this.hooks = hooks;
    this.canvas = root.querySelector("canvas");
    this.camera = new Camera();
    this.lanes = new Lanes();
    this.heads = new Heads(root.querySelector(".heads"), this.lanes, () => this.relay());
    this.trees = new Map();
    this.overview = null;
    this.spots = [];
    this.leaves = [];
    this.drawn = 0; // Things in the last picture.
    this.frame = 0;
    this.fitted = false;
    this.pinned = false; // The end is kept in sight, whatever comes.
    this.approached = null; // An event that was gone to, {t, lane, index, tries}.
    this.sized = new Promise((resolve) => (this.firstSized = resolve)); // Until then a place is no pixel.
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  // Which execution, of which source, along which axis.
  get question() {
    const { source, execution, axis } = this.asked;
    return { source, execution, axis };
  }

  // An event as `process:index`: within an execution, whose name goes beside it.
  named(lane, index) {
    return `${this.lanes.processes[lane].name}:${index}`;
  }

  local(id) {
    const { execution } = this.asked;
    return execution && id.startsWith(`${execution}/`) ? id.slice(execution.length + 1) : id;
  }

  async open(asked, { signal } = {}) {
    const { source, execution, axis } = asked;
    const overview = await this.api.get("/api/overview", { source, execution, axis }, { signal });
    this.close();
    this.lanes.order = [];
    this.asked = { ...asked, execution: overview.execution, axis: overview.axis };
    this.take(overview);
    this.fitted = false;
    this.camera.top = 0;
    this.camera.bend([]);
    this.camera.fit();
    this.fit();
    return overview;
  }

  // Later news of the same execution: what is here is kept and replaced piece by piece.
  async refresh({ signal } = {}) {
    const before = this.overview;
    const overview = await this.api.get("/api/overview", this.question, { signal });
    if (this.overview !== before) return; // Another execution was opened meanwhile.
    const news = ["events", "cursor", "violations"].some((key) => overview[key] !== before[key]);
    this.asked.execution ??= overview.execution; // There was none until now.
    this.asked.axis ??= overview.axis;
    const same = overview.generation === before.generation && overview.origin === before.origin;
    this.take(overview);
    if (!same) this.close();
    if (news) for (const tree of this.trees.values()) tree.age(overview.span, overview.events);
    this.redraw();
  }

  take(overview) {
    this.overview = overview;
    this.camera.span = overview.span;
    this.camera.density = overview.events / Math.max(1, overview.span);
    this.lanes.take(overview.processes);
    this.root.classList.toggle("empty", overview.events === 0);
  }

  close() {
    for (const tree of this.trees.values()) tree.close();
    this.trees.clear();
    this.leaves = [];
  }

  fit() {
    this.approached = null;
    this.pinned = false;
    this.fitted = true; // And again when the events are here, for then they are spread.
    this.camera.fit();
    this.camera.top = 0;
    this.moved();
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth || !clientHeight) return;
    const ratio = Math.min(3, devicePixelRatio || 1);
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.ratio = ratio;
    this.camera.resize(clientWidth, clientHeight);
    this.lanes.stretch(clientHeight);
    this.heads.measure();
    if (this.fitted) this.camera.fit();
    this.scroll(0);
    this.paint(); // At once: a canvas is empty after its size was set.
    this.firstSized();
  }

  // What comes is spread when it is loaded, so this is done again with every picture.
  toEnd() {
    const { camera } = this;
    const over = camera.map.pos(camera.span, Infinity) - camera.width * 0.92;
    if (Math.abs(over) < 1) return;
    camera.pan(over);
    this.redraw();
  }

  pan(dx, dy = 0) {
    this.approached = null;
    this.fitted = this.pinned = false;
    this.camera.pan(dx);
    this.scroll(dy);
  }

  zoom(factor, px) {
    this.approached = null;
    this.fitted = this.pinned = false;
    this.camera.zoom(factor, px);
    this.moved();
  }

  scroll(dy) {
    const most = Math.max(0, this.lanes.height - this.camera.height);
    this.camera.top = Math.min(most, Math.max(0, this.camera.top + dy));
    this.moved();
  }

  // Bring a place into sight; `close`: near enough to see it as one event; `near`: to read its neighbours' names, too.
  reveal({ lane, index, x }, { close = false, near = false } = {}) {
    this.fitted = this.pinned = false;
    this.approached = near ? { t: x, lane, index, tries: APPROACHES } : null;
    const { camera } = this;
    const row = this.lanes.byLane.get(lane);
    if (row) {
      const y = row.y - camera.top;
      if (y < AXIS + 20 || y > camera.height - 30) camera.top = row.y - camera.height / 2;
      this.scroll(0);
    }
    const far = camera.scale / camera.density < 6;
    const px = camera.map.pos(x);
    if (close && far) camera.look(x, camera.width / (camera.density * 24));
    else if (px < EDGE || px > camera.width - EDGE) camera.look(x, camera.width / camera.scale);
    this.moved();
  }

  // How dense it is there is known when it is loaded, so this is done again with every picture until one moves on.
  approach() {
    const { camera, approached } = this;
    const { t, lane, index } = approached;
    const loaded = this.leaves.flatMap(({ shown }) => shown?.data?.events ?? []);
    const depth = loaded.find((event) => event.lane === lane && event.index === index)?.depth ?? 0;
    const wanted = camera.scaleToRead(t, depth, lane);
    if (wanted && camera.scale < wanted * 0.8 && approached.tries > 0) {
      approached.tries -= 1;
      camera.look(t, camera.width / wanted, depth);
      this.moved();
    }
    const px = camera.map.pos(t, depth); // Other lanes bend time otherwise, and what is held is the middle.
    if (px < EDGE || px > camera.width - EDGE) camera.look(t, camera.width / camera.scale, depth);
    camera.settle();
  }

  relay() {
    this.lanes.stretch(this.camera.height);
    this.scroll(0);
  }

  moved() {
    this.hooks.moved(this);
    this.redraw();
  }

  redraw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  // Loading.

  groups(rows) {
    const all = this.lanes.processes.length;
    const shown = this.lanes.rows;
    if (shown.length === all && all <= LANES_ALL) return [["", null]];
    if (shown.length <= LANES_AT_ONCE) {
      const numbers = shown.map((row) => row.lane);
      return [[numbers.join(), numbers]];
    }
    const at = new Set(rows.map((row) => Math.floor(shown.indexOf(row) / LANES_AT_ONCE)));
    return [...at].map((group) => {
      const numbers = shown.slice(group * LANES_AT_ONCE, (group + 1) * LANES_AT_ONCE).map((row) => row.lane);
      return [numbers.join(), numbers];
    });
  }

  treeOf(key, numbers) {
    let tree = this.trees.get(key);
    if (!tree) {
      const { span, events, processes } = this.overview;
      const share = numbers ? numbers.reduce((sum, lane) => sum + processes[lane].events, 0) : events;
      const ask = (from, to, most, signal) =>
        this.api.get(
          "/api/window",
          { ...this.question, from, to, columns: COLUMNS, events_max: most, lanes: numbers?.join() },
          { signal },
        );
      tree = new Tree(span, share, ask, () => this.redraw(), (error) => this.hooks.failed(error));
    } else this.trees.delete(key);
    this.trees.set(key, tree); // The last one is the one used last.
    for (const old of this.trees.keys()) {
      if (this.trees.size <= TREES) break;
      this.trees.get(old).close();
      this.trees.delete(old);
    }
    return tree;
  }

  // What covers the screen, and a little more at both ends so that dragging finds something there.
  load(rows) {
    const { camera } = this;
    const lists = [];
    const leaves = [];
    if (!this.overview.events) return [];
    for (const [key, numbers] of this.groups(rows)) {
      const tree = this.treeOf(key, numbers);
      const [from, to] = camera.range;
      const edge = (to - from) * 0.35;
      const found = tree.cover(Math.max(0, from - edge), Math.min(camera.span, to + edge), camera.scale);
      tree.want(found, (from + to) / 2);
      leaves.push(...found);
      const seen = found.filter(({ node }) => node.from <= to && node.from + node.width > from);
      const near = seen.every(({ shown }) => shown?.data?.detail === "events");
      lists.push(near && seen.length ? columnsOf(found, camera.density) : null);
    }
    this.leaves = leaves;
    return lists.some((list) => list === null) ? [] : mergeColumns(lists);
  }

  get busy() {
    return [...this.trees.values()].some((tree) => tree.busy);
  }

  // Drawing.

  paint() {
    if (!this.overview || !this.ratio) return;
    const { camera, lanes } = this;
    const rows = lanes.between(camera.top, camera.top + camera.height);
    const columns = this.load(rows);
    camera.bend(columns);
    if (this.fitted && columns.length) camera.fit();
    if (this.pinned) this.toEnd();
    if (this.approached) this.approach();
    const context = this.canvas.getContext("2d", { alpha: false });
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const pen = new CanvasPen(context);
    const view = this.view(rows);
    const { spots, detail } = drawScene(pen, view);
    this.spots = spots;
    this.detail = detail;
    this.drawn = pen.items;
    this.heads.show(rows, camera.top);
    this.root.dataset.detail = detail;
    this.root.dataset.drawn = String(pen.items);
    this.root.dataset.busy = String(this.busy);
    this.hooks.drawn(this);
  }

  view(rows = this.lanes.between(this.camera.top, this.camera.top + this.camera.height)) {
    const { camera, lanes, overview } = this;
    const view = {
      map: camera.map,
      lanes: rows,
      byLane: lanes.byLane,
      short: (name) => lanes.short(name, SHORT),
      top: camera.top,
      width: camera.width,
      height: camera.height,
      leaves: this.leaves,
      colours: palette(),
      relations: null,
      found: null,
      current: null,
      only: null,
      front: null,
      flight: null,
      axis: { unit: overview.unit ?? 1, steps: this.asked.axis === "steps", span: overview.span },
    };
    this.hooks.decorate(view, this);
    return view;
  }

  at(x, y) {
    let best = null;
    for (const spot of this.spots) {
      const alarm = isAlarm(spot.event) ? ALARM_NEAR : 0; // It lies on top of its neighbours, so it is meant.
      const far = Math.max(0, Math.hypot(spot.x - x, spot.y - y) - alarm);
      if (far <= Math.max(NEAR - alarm, spot.radius + 3 - alarm) && (!best || far < best.far)) best = { ...spot, far };
    }
    return best;
  }

  // Where there are counts: the lane and stretch under the pointer.
  cellAt(x, y) {
    const t = this.camera.map.time(x);
    const row = this.lanes.rows.find((one) => Math.abs(one.y - this.camera.top - y) <= one.size / 2);
    if (!row) return null;
    for (const { node, shown } of this.leaves) {
      const data = shown?.data;
      if (data?.detail !== "columns" || t < node.from || t >= node.from + node.width) continue;
      const column = Math.floor(((t - data.from) / data.width) * data.columns);
      const cell = data.counts.get(row.lane)?.find(([number]) => Math.abs(number - column) <= 1);
      return cell ? { row, events: cell[1], failures: cell[2] } : null;
    }
    return null;
  }
}
