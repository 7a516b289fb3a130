// The whole execution in one strip below the diagram, and the window into it. Dragging moves the window.
import { isAborted } from "./errors.js";
import { palette } from "./palette.js";
import { triangle } from "./strips.js";

const COLUMNS = 600;

export class Minimap {
  constructor(app) {
    this.app = app;
    this.canvas = this.app.byId("mini");
    this.heights = null;
    this.key = "";
    this.control = null;
    let dragging = false;
    const go = (event) => {
      const box = this.canvas.getBoundingClientRect();
      const { pane } = this.app;
      const { camera } = pane;
      const t = ((event.clientX - box.left) / box.width) * camera.span;
      pane.fitted = pane.pinned = false;
      pane.approached = null;
      camera.look(Math.min(camera.span, Math.max(0, t)), camera.width / camera.scale);
      pane.moved();
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      dragging = true;
      this.canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    this.canvas.addEventListener("pointermove", (event) => dragging && go(event));
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => (dragging = false));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  // Counts of all lanes together; asked for once, and again when there is news.
  async load() {
    const { pane } = this.app;
    const { overview } = pane;
    const key = `${overview.source} ${overview.execution} ${overview.axis} ${overview.events} ${overview.span}`;
    if (!overview.events || key === this.key) return this.draw();
    this.key = key;
    this.control?.abort();
    this.control = new AbortController();
    try {
      const question = { ...pane.question, from: 0, to: overview.span, columns: COLUMNS, events_max: 0 };
      const window = await this.app.api.get("/api/window", question, { signal: this.control.signal });
      const heights = new Float64Array(window.columns);
      const failures = new Uint8Array(window.columns);
      for (const cells of Object.values(window.counts)) {
        for (const [column, events, failed] of cells) {
          heights[column] += events;
          if (failed) failures[column] = 1;
        }
      }
      this.heights = heights;
      this.failures = failures;
    } catch (error) {
      if (!isAborted(error)) this.key = ""; // The diagram has said what is wrong.
    }
    this.draw();
  }

  draw() {
    const { canvas, heights } = this;
    const { pane } = this.app;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !pane?.overview) return;
    const ratio = Math.min(3, devicePixelRatio || 1);
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const colours = palette();
    if (heights) this.bars(context, width, height, colours);
    const [from, to] = pane.camera.range;
    const span = Math.max(1, pane.camera.span);
    const x1 = Math.min(width - 4, Math.max(0, (from / span) * width));
    const x2 = Math.min(width, (to / span) * width);
    const wide = Math.max(4, x2 - x1);
    context.fillStyle = colours.past;
    context.globalAlpha = 0.12;
    context.fillRect(x1, 0, wide, height);
    context.globalAlpha = 1;
    context.strokeStyle = colours.past;
    context.lineWidth = 1.5;
    context.strokeRect(x1 + 0.75, 0.75, Math.max(2.5, wide - 1.5), height - 1.5);
    const front = this.app.cut.front;
    if (front && front.x !== null) {
      context.fillStyle = colours.cut;
      context.fillRect((front.x / span) * width - 1, 0, 2, height);
    }
  }

  bars(context, width, height, colours) {
    const { heights, failures } = this;
    const most = Math.log1p(heights.reduce((a, b) => Math.max(a, b), 1));
    const cell = width / heights.length;
    context.fillStyle = colours.message;
    context.globalAlpha = 0.55;
    heights.forEach((events, at) => {
      if (!events) return;
      const tall = Math.max(1.5, (Math.log1p(events) / most) * (height - 11));
      context.fillRect(at * cell, height - tall, Math.max(1, cell), tall);
    });
    context.globalAlpha = 1;
    context.fillStyle = colours.violation;
    context.beginPath();
    let last = -Infinity;
    failures.forEach((failed, at) => {
      const x = Math.min(width - 4.5, Math.max(4.5, (at + 0.5) * cell));
      if (!failed || x - last < 5) return; // One sign for a crowd.
      last = x;
      triangle(context, x, 5.5, 4.5);
    });
    context.fill();
  }
}
