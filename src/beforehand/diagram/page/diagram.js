"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const SCALE_MIN = 0.05, SCALE_MAX = 4, STEP = 1.25;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const stage = byId("stage"), details = byId("details"), help = byId("help"), lanes = byId("lanes");

  // Text goes into the page as text only: `textContent`, never markup.
  const make = (name, text = "", className = "") => {
    const made = document.createElement(name);
    if (text !== "") made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  // Our own signs, drawn by the same code as the diagram; no text of events is in them.
  const signs = {};
  for (const [role, kinds] of Object.entries(data.signs)) {
    for (const [kind, markup] of Object.entries(kinds)) {
      const group = document.createElementNS(SVG, "g");
      group.innerHTML = markup;
      group.setAttribute("class", "sign");
      signs[`${role} ${kind}`] = group;
    }
  }

  class View {
    constructor(numbers, holder) {
      this.numbers = numbers;
      this.holder = holder;
      this.svg = holder.querySelector("svg");
      this.width = Number(this.svg.getAttribute("width"));
      this.height = Number(this.svg.getAttribute("height"));
      this.content = this.svg.querySelector("path.lane")?.parentNode ?? this.svg;
      this.top = Number(/translate\(0 ([-\d.]+)\)/.exec(this.content.getAttribute("transform") ?? "")?.[1] ?? 0);
      this.lastTag = [...this.content.querySelectorAll(":scope > g > .tag")].at(-1)?.parentNode;
      this.handles = [...this.svg.querySelectorAll("a[data-place]")];
      this.paths = new Map([...this.svg.querySelectorAll("path[data-arrow]")].map((p) => [Number(p.dataset.arrow), p]));
      this.roles = numbers.places.map((place) => place.role);
      this.effects = numbers.places.map(() => []);
      numbers.places.forEach((place, at) => place.causes.forEach((cause) => this.effects[cause].push(at)));
      this.placeOf = new Map();
      this.rows = numbers.lanes.map(() => []);
      numbers.places.forEach((place, at) => {
        if (place.event !== null) this.placeOf.set(place.event, at);
        this.rows[place.lane].push(at);
      });
      this.texts = numbers.places.map((place) => searchable(place));
      // In reading order, for going from match to match.
      this.reading = [...numbers.places.keys()].sort((one, other) => {
        const [a, b] = [numbers.places[one], numbers.places[other]];
        return a.x - b.x || a.lane - b.lane;
      });
      if (this.handles.length) this.handles[this.reading[0]].setAttribute("tabindex", "0");
    }

    reach(start, next) {
      const found = new Set();
      const waiting = [start];
      while (waiting.length) {
        for (const one of next(waiting.pop())) {
          if (!found.has(one)) {
            found.add(one);
            waiting.push(one);
          }
        }
      }
      found.delete(start);
      return found;
    }

    // Where an event is in this drawing: by itself, or inside a run.
    find(event, place) {
      if (event !== null && this.placeOf.has(event)) return this.placeOf.get(event);
      const wanted = event !== null ? rangeOf(data.events[event]) : place.run;
      for (const [at, other] of this.numbers.places.entries()) {
        const range = other.run ?? (event === null ? rangeOf(data.events[other.event]) : null);
        if (range && overlap(range, wanted)) return at;
      }
      return null;
    }

    mark(chosen) {
      const { places, arrows } = this.numbers;
      // Without a choice the drawing shows what it was given, unless that was a choice too.
      const given = chosen === null && data.selected === null;
      const past = chosen === null ? new Set() : this.reach(chosen, (at) => places[at].causes);
      const future = chosen === null ? new Set() : this.reach(chosen, (at) => this.effects[at]);
      const roleOf = (at) => {
        if (chosen === null) return "plain";
        if (at === chosen) return "selected";
        return past.has(at) ? "past" : future.has(at) ? "future" : "concurrent";
      };
      places.forEach((place, at) => this.setRole(at, given ? place.role : roleOf(at)));
      arrows.forEach((arrow, number) => {
        if (given) return this.setArrow(number, arrow.role);
        const ends = new Set([arrow.send, arrow.receive].filter((end) => end !== null).map(roleOf));
        const only = (role) => ends.has(role) && [...ends].every((end) => end === role || end === "selected");
        const plain = [...ends].every((end) => end === "plain" || end === "selected");
        this.setArrow(number, only("past") ? "past" : only("future") ? "future" : plain ? "plain" : "concurrent");
      });
      this.cones(chosen, past, future);
      this.svg.classList.toggle("chosen", !given);
      return { past, future };
    }

    setRole(at, role) {
      const place = this.numbers.places[at];
      if (this.roles[at] === role) return;
      const group = this.handles[at].querySelector("g.event");
      group.classList.remove(this.roles[at]);
      group.classList.add(role);
      this.roles[at] = role;
      if (place.run) return; // The pill of a run is the same for all.
      const kind = place.violation ? "violation" : "plain";
      group.querySelector("g.sign").replaceWith(signs[`${role} ${kind}`].cloneNode(true));
    }

    setArrow(number, role) {
      const path = this.paths.get(number);
      if (!path || this.numbers.arrows[number].fixed) return;
      path.classList.remove("past", "future", "concurrent");
      if (role !== "plain") path.classList.add(role);
      const head = /#(st-[a-z]+)/.exec(path.getAttribute("marker-end"))[1];
      const colour = role === "past" || role === "future" ? `-${role}` : "";
      path.setAttribute("marker-end", `url(#${head}${colour})`);
    }

    // The past is a beginning of each lane, the future an end.
    cones(chosen, past, future) {
      this.svg.querySelectorAll(".span.live").forEach((span) => span.remove());
      if (chosen === null) return;
      const { places, left, right } = this.numbers;
      const draw = (members, role, from, to) => {
        const ends = new Map();
        if (!members.size) return;
        for (const at of [...members, chosen]) {
          const { lane, x } = places[at];
          const end = ends.get(lane) ?? x;
          ends.set(lane, role === "past" ? Math.max(end, x) : Math.min(end, x));
        }
        for (const [lane, x] of ends) {
          const span = document.createElementNS(SVG, "path");
          span.setAttribute("class", `span live ${role}`);
          span.setAttribute("fill", "none");
          span.setAttribute("d", `M${from ?? x} ${this.numbers.lanes[lane].y}H${to ?? x}`);
          this.lastTag.after(span);
        }
      };
      draw(past, "past", left, null);
      draw(future, "future", null, right);
    }
  }

  const rangeOf = (event) => {
    return { owner: event.owner, first: event.index, last: event.index };
  };
  const overlap = (one, other) =>
    one.owner === other.owner && BigInt(one.first) <= BigInt(other.last) && BigInt(other.first) <= BigInt(one.last);
  const searchable = (place) => {
    if (place.run) return [place.run.process, ...place.run.names].join("\n").toLowerCase();
    const event = data.events[place.event];
    const attributes = event.attributes.map(([key, value]) => `${key}=${value}\n${key}: ${value}`);
    const messages = [...event.sends, ...event.receives].map(({ message }) => message);
    return [event.id, event.name, event.process, event.kind, ...attributes, ...messages].join("\n").toLowerCase();
  };

  const views = data.views.map((numbers, at) => new View(numbers, document.querySelector(`[data-view="${at}"]`)));
  let view = views[0];
  let scale = 1;
  let chosen = null; // A place of the view.
  let matches = [];
  let match = -1;

  // Zoom and place.

  const setScale = (wanted, x = stage.clientWidth / 2, y = stage.clientHeight / 2) => {
    const next = Math.min(SCALE_MAX, Math.max(SCALE_MIN, wanted));
    const [at, down] = [(stage.scrollLeft + x) / scale, (stage.scrollTop + y) / scale];
    scale = next;
    view.svg.setAttribute("width", view.width * scale);
    view.svg.setAttribute("height", view.height * scale);
    stage.scrollLeft = at * scale - x;
    stage.scrollTop = down * scale - y;
    byId("scale").textContent = `${Math.round(scale * 100)} %`;
    placeLanes();
  };
  const fit = () => {
    setScale(Math.min(stage.clientWidth / view.width, stage.clientHeight / view.height, 1.5));
    stage.scrollTo(0, 0);
  };
  const placeLanes = () => {
    const { numbers, top } = view;
    if (lanes.childElementCount !== numbers.lanes.length) {
      lanes.replaceChildren(...numbers.lanes.map((lane) => make("span", lane.label)));
    }
    numbers.lanes.forEach((lane, at) => {
      lanes.children[at].style.top = `${(top + lane.y) * scale - stage.scrollTop}px`;
    });
    lanes.classList.toggle("shown", stage.scrollLeft > numbers.left * scale * 0.6);
  };
  const reveal = (at) => {
    const { x, lane } = view.numbers.places[at];
    const spot = [x * scale, (view.top + view.numbers.lanes[lane].y) * scale];
    const room = [stage.clientWidth, stage.clientHeight];
    const from = [stage.scrollLeft, stage.scrollTop];
    const air = [Math.min(140, room[0] / 4), Math.min(60, room[1] / 4)];
    const to = [0, 1].map((axis) => {
      const seen = spot[axis] >= from[axis] + air[axis] && spot[axis] <= from[axis] + room[axis] - air[axis];
      return seen ? from[axis] : spot[axis] - room[axis] / 2;
    });
    stage.scrollTo(to[0], to[1]);
  };

  // Choosing.

  const jump = (event) => {
    const button = make("button", data.events[event].id);
    button.type = "button";
    if (data.events[event].name) button.title = data.events[event].name;
    button.addEventListener("click", () => goTo(event));
    return button;
  };
  const goTo = (event) => {
    const other = views.find((one) => one.placeOf.has(event));
    if (!view.placeOf.has(event) && view.find(event, null) === null && other) show(other);
    const at = view.find(event, null);
    if (at !== null) choose(at, true);
  };
  const messageList = (title, messages, more, nobody) => {
    if (!messages.length) return [];
    const list = make("ul");
    for (const { message, events, more: further, elsewhere } of messages) {
      const item = make("li");
      item.append(make("code", message), " ");
      for (const event of events) item.append(jump(event));
      if (further) item.append(make("span", ` and ${further} more`, "quiet"));
      if (elsewhere) item.append(make("span", ` ${events.length ? "and " : ""}${elsewhere} not drawn by itself`, "quiet"));
      if (!events.length && !elsewhere) item.append(make("span", nobody, "quiet"));
      list.append(item);
    }
    if (more) list.append(make("li", `and ${more} more`, "quiet"));
    return [make("h3", title), list];
  };
  const pairs = (entries) => {
    const list = make("dl");
    for (const [key, value, className] of entries) {
      const row = make("div");
      row.append(make("dt", key), make("dd", value, className ?? ""));
      list.append(row);
    }
    return list;
  };
  const counts = (past, future) => {
    const rest = view.numbers.places.length - past.size - future.size - 1;
    const box = make("div", "", "counts");
    for (const [role, number, word] of [
      ["past", past.size, "◐ before it"],
      ["future", future.size, "◑ after it"],
      ["concurrent", rest, "◌ concurrent"],
    ]) {
      const cell = make("div", "", role);
      cell.append(make("b", number.toLocaleString("en")), make("span", word));
      box.append(cell);
    }
    return box;
  };
  const describe = (at, { past, future }) => {
    const place = view.numbers.places[at];
    const parts = [];
    if (place.run) {
      const { process, first, last, count, names } = place.run;
      parts.push(make("h2", `${count.toLocaleString("en")} local events`), make("p", `${process}:${first} to ${last}`, "quiet"));
      parts.push(counts(past, future));
      if (names.length) {
        const list = make("ul");
        list.append(...names.map((name) => make("li", name)));
        if (count > names.length) list.append(make("li", "…", "quiet"));
        parts.push(make("h3", "The first of them"), list);
      }
      return parts;
    }
    const event = data.events[place.event];
    parts.push(make("h2", event.name || event.id));
    if (event.note) parts.push(make("p", event.note, "note"));
    parts.push(counts(past, future));
    if (view.numbers.hidden) parts.push(make("p", "Counted among what is drawn.", "quiet"));
    parts.push(
      pairs([
        ["event", event.id],
        ["process", event.process],
        ["kind", event.kind],
        ["its clock", event.time || "no time", event.time ? "time" : "quiet"],
      ]),
    );
    parts.push(make("h3", "Attributes"));
    parts.push(event.attributes.length ? pairs(event.attributes) : make("p", "none", "quiet"));
    if (event.attributesMore) parts.push(make("p", `and ${event.attributesMore} more`, "quiet"));
    parts.push(...messageList("Receives", event.receives, event.receivesMore, "nobody sent it"));
    parts.push(...messageList("Sends", event.sends, event.sendsMore, "never received"));
    return parts;
  };
  const choose = (at, focus = false) => {
    const before = view.svg.querySelector('a[tabindex="0"]');
    chosen = at;
    for (const handle of view.svg.querySelectorAll("a[aria-pressed]")) handle.removeAttribute("aria-pressed");
    const reached = view.mark(at);
    help.hidden = at !== null;
    details.replaceChildren(...(at === null ? [] : describe(at, reached)));
    if (at === null) return;
    before?.setAttribute("tabindex", "-1");
    const handle = view.handles[at];
    handle.setAttribute("tabindex", "0");
    handle.setAttribute("aria-pressed", "true");
    if (focus) {
      reveal(at);
      handle.focus({ preventScroll: true });
    }
  };
  const go = (key) => {
    const { places, lanes: all } = view.numbers;
    if (!places.length) return;
    if (chosen === null) return choose(view.reading[0], true);
    const { lane, x } = places[chosen];
    const row = view.rows[lane];
    const at = row.indexOf(chosen);
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const next = row[at + (key === "ArrowRight" ? 1 : -1)];
      return next === undefined ? undefined : choose(next, true);
    }
    if (key === "Home" || key === "End") return choose(key === "Home" ? row[0] : row.at(-1), true);
    const step = key === "ArrowDown" ? 1 : -1;
    for (let other = lane + step; other >= 0 && other < all.length; other += step) {
      if (view.rows[other].length) {
        const near = view.rows[other].reduce((a, b) => (Math.abs(places[b].x - x) < Math.abs(places[a].x - x) ? b : a));
        return choose(near, true);
      }
    }
  };

  // Folded or whole.

  const show = (next) => {
    if (next === view) return;
    const place = chosen === null ? null : view.numbers.places[chosen];
    view.holder.hidden = true;
    view = next;
    view.holder.hidden = false;
    const number = view.holder.dataset.view;
    for (const warning of document.querySelectorAll("[data-of]")) warning.hidden = warning.dataset.of !== number;
    lanes.replaceChildren();
    setScale(scale);
    byId("fold")?.setAttribute("aria-pressed", String(view.numbers.name === "folded"));
    const at = place === null ? null : view.find(place.event, place);
    choose(at);
    if (at !== null) reveal(at);
    search(false);
  };

  // Search.

  const search = (move = true) => {
    const wanted = byId("search").value.trim().toLowerCase();
    view.svg.querySelectorAll("a.found").forEach((handle) => handle.classList.remove("found", "current"));
    matches = wanted ? view.reading.filter((at) => view.texts[at].includes(wanted)) : [];
    matches.forEach((at) => view.handles[at].classList.add("found"));
    match = -1;
    byId("found").textContent = !wanted ? "" : matches.length ? `${matches.length} found` : "none found";
    byId("next").disabled = byId("previous").disabled = !matches.length;
    if (move && matches.length) step(1, false);
  };
  const step = (by, take = true) => {
    if (!matches.length) return;
    if (match >= 0) view.handles[matches[match]].classList.remove("current");
    match = match < 0 ? (by > 0 ? 0 : matches.length - 1) : (match + by + matches.length) % matches.length;
    view.handles[matches[match]].classList.add("current");
    byId("found").textContent = `${match + 1} of ${matches.length}`;
    reveal(matches[match]);
    if (take) choose(matches[match]);
  };

  byId("search").addEventListener("input", () => search());
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      byId("search").value = "";
      search();
      stage.focus();
    }
  });
  let chosenByEnter = false; // The first Enter takes the match that typing showed, the next ones go on.
  byId("search").addEventListener("input", () => (chosenByEnter = false));
  byId("search").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    step(!chosenByEnter && match >= 0 ? 0 : event.shiftKey ? -1 : 1);
    chosenByEnter = true;
  });
  byId("searching").addEventListener("submit", (event) => event.preventDefault());
  byId("next").addEventListener("click", () => step(1));
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").disabled = byId("previous").disabled = true;

  byId("in").addEventListener("click", () => setScale(scale * STEP));
  byId("out").addEventListener("click", () => setScale(scale / STEP));
  byId("fit").addEventListener("click", fit);
  byId("fold")?.addEventListener("click", () => show(views.find((one) => one !== view)));

  // Pointer: click chooses, dragging moves, the wheel moves or zooms.

  let drag = null;
  stage.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) {
      drag = { x: event.clientX, y: event.clientY, left: stage.scrollLeft, top: stage.scrollTop, moved: false };
    }
  });
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < 5) return;
    drag.moved = true;
    stage.classList.add("dragging");
    stage.scrollTo(drag.left - dx, drag.top - dy);
  });
  let dragged = false;
  addEventListener("pointerup", () => {
    dragged = Boolean(drag?.moved);
    drag = null;
    stage.classList.remove("dragging");
  });
  stage.addEventListener("click", (event) => {
    if (dragged) return;
    const handle = event.target.closest("a[data-place]");
    if (handle) choose(Number(handle.dataset.place));
    else if (event.target.closest("svg")) choose(null);
  });
  stage.addEventListener("wheel", (event) => {
    const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const frame = stage.getBoundingClientRect();
      setScale(scale * Math.exp(-pixels / 300), event.clientX - frame.left, event.clientY - frame.top);
    } else if (!event.shiftKey && !event.deltaX && stage.scrollHeight <= stage.clientHeight) {
      // A diagram is wide: with nothing to scroll down, the wheel goes along it.
      event.preventDefault();
      stage.scrollLeft += pixels;
    }
  }, { passive: false });
  stage.addEventListener("scroll", placeLanes, { passive: true });
  addEventListener("resize", placeLanes);

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input")) return;
    if (event.key === "/") byId("search").focus();
    else if (event.key === "+" || event.key === "=") setScale(scale * STEP);
    else if (event.key === "-") setScale(scale / STEP);
    else if (event.key === "0") fit();
    else if (event.key === "1") setScale(1);
    else if (event.key === "n") step(1);
    else if (event.key === "N") step(-1);
    else if (event.key === "Escape") choose(null);
    else if (!stage.contains(event.target)) return;
    else if (/^(Arrow|Home|End)/.test(event.key) && !event.shiftKey) go(event.key);
    else if ((event.key === "Enter" || event.key === " ") && event.target.dataset.place) {
      choose(Number(event.target.dataset.place));
    } else return;
    event.preventDefault();
  });

  // At first: as large as it was drawn, or the whole if that is nearly as large.
  setScale(1);
  if (view.width <= stage.clientWidth * 1.4 && view.height <= stage.clientHeight * 1.4 && view.height > 0) fit();
  if (data.selected !== null) {
    const at = view.find(data.selected, null);
    if (at !== null) {
      choose(at);
      reveal(at);
    }
  }
})();
