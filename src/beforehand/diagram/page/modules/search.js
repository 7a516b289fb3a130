// Search with the predicate language. The service finds, newest first, page by page; the page goes from match to match.
import { isAborted } from "./errors.js";
import { count } from "./text.js";

const PAGE = 200;
const HELD = 2000; // Matches that are kept.
const PLAIN = /^[^=!~<>()]+$/; // A word or two, and no predicate.

export class Search {
  constructor(app) {
    this.app = app;
    this.reset();
    this.control = null;
    const input = this.app.byId("search");
    this.app.byId("searching").addEventListener("submit", (event) => {
      event.preventDefault();
      if (input.value.trim() === this.asked && !this.wrong) this.step(this.shown ? 0 : 1);
      else this.run(input.value);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.shiftKey) {
        event.preventDefault();
        this.step(-1);
      } else if (event.key === "Escape") {
        input.value = "";
        this.run("");
        this.app.focusStage();
      }
    });
    input.addEventListener("input", () => {
      if (!input.value) this.run("");
      else if (this.app.api.immediate) this.run(input.value, { typing: true }); // A file answers at once.
    });
    this.app.byId("next").addEventListener("click", () => this.step(1));
    this.app.byId("previous").addEventListener("click", () => this.step(-1));
    this.show();
  }

  reset() {
    this.asked = "";
    this.wrong = false;
    this.shown = false; // The current match was brought into sight, but not chosen.
    this.ids = []; // As the windows name events,
    this.events = []; // and as they are asked for.
    this.at = -1;
    this.more = null;
    this.found = new Set();
  }

  // What is meant by plain words: a part of the name.
  static predicate(text) {
    const wanted = text.trim();
    if (!wanted || !PLAIN.test(wanted) || /^not\b/.test(wanted)) return wanted;
    const literal = wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    return `name ~ ${JSON.stringify(`(?i)${literal}`)}`;
  }

  // `typing`: what is found is brought into sight, and chosen by Enter.
  async run(text, { move = true, typing = false, at = -1 } = {}) {
    this.control?.abort();
    this.control = new AbortController();
    this.reset();
    this.asked = text.trim();
    if (this.app.byId("search").value !== text) this.app.byId("search").value = text;
    this.app.byId("search").removeAttribute("aria-invalid");
    this.app.remember();
    if (!this.asked) return this.show();
    this.show("searching …");
    try {
      await this.fetch(this.control.signal);
      this.at = Math.min(at, this.ids.length - 1);
      if (typing && this.ids.length) await this.step(1, { take: false });
      else if (move && this.ids.length) await this.step(1);
      else this.show();
    } catch (error) {
      if (isAborted(error)) return;
      this.wrong = true;
      this.app.byId("search").setAttribute("aria-invalid", "true");
      if (!typing) this.app.say(error.message, { wrong: true });
      this.show("not a search");
    }
  }

  async fetch(signal) {
    const pane = this.app.pane;
    const { source, execution } = pane.asked;
    const { api } = this.app;
    const question = { where: api.immediate ? this.asked : Search.predicate(this.asked), limit: PAGE, after: this.more, source, execution };
    const page = await api.get("/api/find", question, { signal });
    this.ids.push(...page.events.map((event) => event.id));
    this.events.push(...page.events.map(({ process, index }) => `${process}:${index}`));
    this.more = page.more && this.ids.length < HELD ? page.cursor : null;
    this.cut = page.more && !this.more;
    this.found = new Set(this.ids);
    this.show();
    this.app.redraw();
  }

  async step(by, { take = true } = {}) {
    if (!this.ids.length) return;
    this.shown = !take;
    let next = this.at < 0 ? (by > 0 ? 0 : this.ids.length - 1) : this.at + by;
    if (next >= this.ids.length && this.more) {
      try {
        await this.fetch(this.control.signal);
      } catch (error) {
        if (!isAborted(error)) this.app.say(error.message, { wrong: true });
        return;
      }
    }
    next = (next + this.ids.length) % this.ids.length;
    this.at = next;
    this.show();
    const { pane, selection } = this.app;
    if (take) return selection.choose(pane, this.events[next], { near: true });
    pane.reveal(await this.app.api.get("/api/relations", { ...pane.question, id: this.events[next] }), { close: true, near: true });
  }

  show(text = null) {
    const many = `${count(this.ids.length)}${this.more || this.cut ? "+" : ""}`;
    const state = !this.asked ? "" : !this.ids.length ? "none found" : this.at < 0 ? `${many} found` : `${count(this.at + 1)} of ${many}`;
    this.app.byId("found").textContent = text ?? state;
    this.app.byId("next").disabled = this.app.byId("previous").disabled = !this.ids.length;
    this.app.redraw();
  }

  decorate(view, pane) {
    if (pane !== this.app.pane || !this.found.size) return;
    view.found = this.found;
    view.current = this.ids[this.at] ?? null;
  }
}
