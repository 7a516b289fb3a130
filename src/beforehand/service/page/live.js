// Follows what is being reported: asks for the cursor of the store, and when it moved, for what is new. At most one
// question is under way, and what is on the screen is replaced piece by piece, so nothing flickers.
import { isAborted } from "./errors.js";

const EVERY_MS = 1000;
const SLOWER_MS = 5000; // When the service does not answer, or nobody looks.

export class Live {
  constructor(app) {
    this.app = app;
    this.on = false;
    this.timer = 0;
    this.control = null;
    this.app.byId("live").addEventListener("click", () => (this.on ? this.stop() : this.start()));
  }

  start() {
    this.on = true;
    this.app.byId("live").setAttribute("aria-pressed", "true");
    this.cursor = this.app.pane.overview.cursor;
    this.tick();
  }

  stop() {
    this.on = false;
    this.app.byId("live").setAttribute("aria-pressed", "false");
    clearTimeout(this.timer);
    this.control?.abort();
  }

  async tick() {
    let wait = document.hidden ? SLOWER_MS : EVERY_MS;
    try {
      this.control = new AbortController();
      const { signal } = this.control;
      const { cursor } = await this.app.api.get("/api/status", {}, { signal });
      if (cursor !== this.cursor) {
        const before = performance.now();
        await this.follow(signal);
        this.cursor = cursor;
        wait = Math.max(wait, 2 * (performance.now() - before)); // A large store must not be asked without a pause.
      }
      if (this.failed) this.app.say("The service answers again.");
      this.failed = false;
    } catch (error) {
      if (isAborted(error)) return;
      if (!this.failed) this.app.say(`Live: ${error.message}`, { wrong: true });
      this.failed = true;
      wait = SLOWER_MS;
    }
    if (this.on) this.timer = setTimeout(() => this.tick(), wait);
  }

  // Who follows and looks at the end goes on looking at the end.
  async follow(signal = undefined) {
    const { pane } = this.app;
    const { camera } = pane;
    const end = camera.map.pos(pane.overview.span, Infinity);
    const atEnd = pane.pinned || (end <= camera.width && end > 0);
    const before = pane.overview;
    await pane.refresh({ signal });
    if (before.events === 0 && pane.overview.events) pane.fit();
    else if (this.on && atEnd && !pane.fitted && pane.overview.span > before.span) {
      pane.pinned = true;
      pane.redraw();
    }
    this.app.told();
  }
}
